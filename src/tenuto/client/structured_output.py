"""Structured output: an answer as a checked value of a type, with repairs.

If the provider can enforce a schema, the schema is sent in the strict subset that all providers take
(`schema.strict_subset`). Otherwise, or if it has no strict form, it is sent in a system message. In both cases the answer is
checked here against the complete schema.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from decimal import Decimal
from typing import Any, Generic, Literal, TypeAlias, TypeVar

import msgspec

from tenuto.client.reply import Reply
from tenuto.core import jsonio
from tenuto.core.blocks import Refusal
from tenuto.core.messages import SystemMessage, Usage, display_text
from tenuto.core.provider import Target
from tenuto.core.request import ChatRequest, JsonSchema, ServerTool, ToolDefinition
from tenuto.core.response import ChatResponse
from tenuto.core.transcript import Transcript
from tenuto.errors import LLMError, SchemaMismatch
from tenuto.schema.from_types import parse_as, schema_from_type
from tenuto.schema.strict_subset import VALUE_PROPERTY, StrictSchema, to_strict_subset
from tenuto.schema.validate import INVALID_SCHEMA, find_problems
from tenuto.wire.codec import codec_for

T = TypeVar("T")
Chat: TypeAlias = Callable[[ChatRequest], Awaitable[Reply]]
OutputMode: TypeAlias = Literal["native", "tool", "prompt"]
"""How a model receives the schema: as a parameter, as the parameters of a tool, or as text."""

PROMPT = "Respond ONLY with valid JSON matching this schema:\n"
EMPTY = "Empty response for structured output"
_MAX_PROBLEM_LENGTH = 4000
_FENCE = "```"


class Structured(msgspec.Struct, Generic[T], frozen=True):
    """An answer as a value."""

    data: T
    reply: Reply
    """The reply with the answer; its transcript contains the repairs."""
    replies: tuple[Reply, ...] = ()
    """All replies, with those that were repaired; the last one is `reply`."""

    @property
    def response(self) -> ChatResponse:
        """The response with the answer."""
        return self.reply.response

    @property
    def usage(self) -> Usage | None:
        """The usage of all replies; None if none is known."""
        known = [reply.usage for reply in self.replies if reply.usage is not None]
        return sum(known[1:], known[0]) if known else None

    @property
    def cost(self) -> Decimal | None:
        """The cost of all replies in USD; None if one of them is unknown."""
        costs = [reply.cost for reply in self.replies if reply.cost is not None]
        return sum(costs, Decimal(0)) if costs and len(costs) == len(self.replies) else None


async def ask_structured(
    chat: Chat, request: ChatRequest, output_type: Any, *, native: bool, repairs: int = 1
) -> Structured[Any]:
    """Send a chat and return the answer as a value of a type or of a JSON Schema.

    `native`: the provider can enforce the schema. An answer that does not match is sent back with the problems, at most
    `repairs` times; then `SchemaMismatch` is raised. There is no repair if it cannot help: after a refusal, after tool
    calls, for an invalid schema, and if the answer reached its length limit. Raise `LLMError` for an answer without text,
    and `TypeError` for a type without a schema.
    """
    output = OutputFormat(output_type, "native" if native else "prompt")
    request = output.add_to(request)
    replies: list[Reply] = []
    while True:
        reply = await chat(request)
        replies.append(reply)
        text = json_text(reply)
        try:
            return Structured(output.parse(text), reply, tuple(replies))
        except OutputError as error:
            reason = unrecoverable_reason(reply, str(error))
            if reason or len(replies) > repairs:
                raise schema_mismatch(reply, error, reason, len(replies)) from error.__cause__
            request = msgspec.structs.replace(request, messages=reply.transcript + output.repair_prompt(error))


def takes_schemas(target: Target) -> bool:
    """Return whether the provider can enforce a schema for this model."""
    return target.traits.structured_output == "native" and codec_for(target.dialect).takes_schemas(target)


def output_mode(target: Target, tools: tuple[ToolDefinition | ServerTool, ...] = ()) -> OutputMode:
    """Return the best way to request a value from this model, next to these tools."""
    traits, request = target.traits, ChatRequest(model=target.model, messages=(), tools=tools)
    if takes_schemas(target) and not codec_for(target.dialect).functions_exclude_format(request, target):
        return "native"
    return "tool" if traits.tools and traits.structured_output in ("native", "tool") else "prompt"


def output_request(output_type: Any, *, native: bool) -> tuple[JsonSchema | None, str]:
    """Return the `response_format`, or None and a system prompt. Raise `TypeError` for a type without schema."""
    output = OutputFormat(output_type, "native" if native else "prompt")
    request = output.add_to(ChatRequest(model="", messages=()))
    form = request.response_format
    return (form if isinstance(form, JsonSchema) else None), "".join(map(str, request.transcript))


def extract_json(output_type: Any, reply: Reply, *, native: bool) -> str:
    """Return the JSON of an answer to `output_request`, as the model wrote it. Raise `SchemaMismatch` if it does not match."""
    output = OutputFormat(output_type, "native" if native else "prompt")
    try:
        text = json_text(reply)
        output.parse(text)
        return jsonio.as_text(jsonio.check(output.unwrap(text)))
    except LLMError as exc:
        raise SchemaMismatch(f"the answer does not fit the schema: {exc}", response=reply.response) from exc
    except OutputError as error:
        raise schema_mismatch(reply, error, unrecoverable_reason(reply, str(error)), 1) from error.__cause__


class OutputError(Exception):
    """The text does not match; the message has one problem per line."""

    def short(self) -> str:
        text = str(self)
        return text if len(text) <= _MAX_PROBLEM_LENGTH else f"{text[:_MAX_PROBLEM_LENGTH]}..."


class OutputFormat:
    """The output type, and how it is requested.

    `mode` is `prompt` for a schema that has no strict form, unless it is requested as a tool.
    """

    def __init__(self, output_type: Any, mode: OutputMode) -> None:
        self._type = output_type
        try:
            self.schema = schema_from_type(output_type)
        except TypeError as exc:
            name = getattr(output_type, "__name__", repr(output_type))
            raise TypeError(f"output type {name} is not supported: {exc}") from exc
        strict = to_strict_subset(self.schema) if mode != "prompt" else None
        if mode == "tool" and strict is None:
            is_object = self.schema.get("type") == "object"
            wrapped = {"type": "object", "properties": {VALUE_PROPERTY: self.schema}, "required": [VALUE_PROPERTY]}
            strict = StrictSchema(self.schema if is_object else wrapped, strict=False, wrapped=not is_object)
        self._strict: StrictSchema | None = strict
        self.mode: OutputMode = "prompt" if strict is None else mode

    @property
    def parameters(self) -> dict[str, Any]:
        """The schema that the provider receives; always of an object unless the mode is `prompt`."""
        return self.schema if self._strict is None else self._strict.schema

    @property
    def prompt(self) -> str:
        """The text that requests the value in the mode `prompt`."""
        return PROMPT + _format_schema(self.schema)

    @property
    def response_format(self) -> JsonSchema | None:
        """The parameter that requests the value in the mode `native`."""
        if self._strict is None or self.mode != "native":
            return None
        return JsonSchema(self._strict.schema, name="response", strict=self._strict.strict or None)

    def add_to(self, request: ChatRequest) -> ChatRequest:
        """Return the request with the schema. A prompt with the schema of an earlier request is removed."""
        messages: Any = request.transcript
        response_format = request.response_format
        if messages and isinstance(messages[0], SystemMessage) and str(messages[0]).startswith(PROMPT):
            messages = messages[1:]
        if self.mode == "native":
            response_format = self.response_format
        else:
            messages = (SystemMessage(self.prompt), *messages)
            response_format = None if isinstance(response_format, JsonSchema) else response_format
        if isinstance(request.messages, Transcript):
            messages = msgspec.structs.replace(request.messages, messages=messages)
        return msgspec.structs.replace(request, messages=messages, response_format=response_format)

    def unwrap(self, text: str) -> str | msgspec.Raw:
        """Return the JSON of the value, without the object that the strict schema puts around it."""
        if problem := jsonio.problem(text):
            raise OutputError(f"not JSON: {problem}")
        if self._strict is None or not self._strict.wrapped:
            return text
        try:
            fields = jsonio.members(text)
        except jsonio.JsonError:
            fields = {}
        if list(fields) != [VALUE_PROPERTY]:
            raise OutputError(f'(root): expected an object whose only property is "{VALUE_PROPERTY}"')
        return fields[VALUE_PROPERTY]

    def parse(self, text: str) -> Any:
        """Return the value of a text. Raise `OutputError` if it does not match."""
        data = self.unwrap(text)
        cause: ValueError | None = None
        if not isinstance(self._type, Mapping):
            try:
                return parse_as(data, self._type)
            except ValueError as exc:
                cause = exc
            if hasattr(cause, "errors"):  # pydantic reports all problems, msgspec only the first
                paths = ["".join(f"/{step}" for step in error["loc"]) or "(root)" for error in cause.errors()]
                lines = [f"{path}: {error['msg']}" for path, error in zip(paths, cause.errors(), strict=True)]
                raise OutputError("\n".join(lines)) from cause
        try:
            value = jsonio.parse(data)
        except jsonio.JsonError as exc:  # valid JSON, but a number may still be too large
            raise OutputError(f"no value: {exc}") from exc
        problems = list(find_problems(value, self.schema))
        if problems or cause is not None:
            raise OutputError("\n".join(problems or [str(cause)])) from cause
        return value

    def repair_prompt(self, error: OutputError) -> str:
        """Return the message that asks for a correct answer. It has the schema if no earlier message has it."""
        prompt = (
            f"Your answer could not be used:\n{error.short()}\n\nAnswer again with the whole JSON and nothing else."
        )
        if self._strict is None:
            return prompt
        return f"{prompt} It has to match this schema:\n{_format_schema(self._strict.schema)}"


def _without_fence(text: str) -> str:
    """Remove a Markdown code fence around the whole text."""
    first_line, _, rest = text.strip().partition("\n")
    language = first_line.removeprefix(_FENCE).strip()
    is_fenced = first_line.startswith(_FENCE) and rest.endswith(_FENCE) and (not language or language.isalnum())
    return rest.removesuffix(_FENCE) if is_fenced else text


def _format_schema(schema: Mapping[str, Any]) -> str:
    return json.dumps(schema, indent=2, ensure_ascii=False)


def json_text(reply: Reply) -> str:
    """Return the text of a reply without a code fence; if that is not JSON, the text after the last tool call or search."""
    text = _without_fence(reply.text)
    if not text.strip():
        reason = unrecoverable_reason(reply)
        raise LLMError(f"{EMPTY}: {reason}" if reason else EMPTY, provider=reply.provider)
    if jsonio.problem(text):
        texts = [display_text(block) for block in reply.content]
        start = max((index + 1 for index, part in enumerate(texts) if part is None), default=0)
        last = _without_fence("".join(filter(None, texts[start:])))
        return text if jsonio.problem(last) else last
    return text


def unrecoverable_reason(reply: Reply, problems: str = "") -> str:
    """Return the reason why a repair cannot help; empty if it may."""
    if INVALID_SCHEMA in problems:
        return "no answer would"
    calls = [call.name for call in reply.tool_calls]
    if calls:
        return f"the model called {', '.join(calls)} instead; send the request without tools"
    if reply.stop_reason == "content_filter" or any(isinstance(block, Refusal) for block in reply.content):
        return "the model refused, or its answer was filtered"
    if reply.stop_reason == "length":
        return "the answer was cut off at its length limit; raise max_tokens"
    return ""


def schema_mismatch(reply: Reply, error: OutputError, reason: str, attempts: int) -> SchemaMismatch:
    reason = reason or (f"after {attempts} answers" if attempts > 1 else "")
    message = f"the answer does not fit the schema{f' ({reason})' if reason else ''}: {error.short()}"
    return SchemaMismatch(message, text=reply.text, response=reply.response)
