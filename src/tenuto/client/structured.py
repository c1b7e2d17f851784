"""Structured output: an answer as a value of a type, checked, and asked for once more if it does not fit.

A model with a native mode is held to the schema by its provider; in that mode the schema goes out in the narrow form
that all providers take (`schema.strict_subset`). A model without one, and a schema without a narrow form, get the schema in a
system message. Either way the answer is checked here against the whole of the schema.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any, Generic, TypeAlias, TypeVar, overload

import msgspec

from tenuto.client.reply import Reply
from tenuto.core import jsonio
from tenuto.core.blocks import Refusal
from tenuto.core.messages import Message, SystemMessage, Usage, display_text
from tenuto.core.provider import Target
from tenuto.core.request import ChatRequest, JsonSchema
from tenuto.core.response import ChatResponse
from tenuto.core.transcript import Transcript
from tenuto.errors import LLMError, SchemaMismatch
from tenuto.schema.from_types import parse_as, schema_from_type
from tenuto.schema.strict_subset import VALUE_PROPERTY, StrictSchema, to_strict_subset
from tenuto.schema.validate import INVALID_SCHEMA, find_problems
from tenuto.wire.registry import codec_for

__all__ = ["Structured", "ask_structured", "extract_json", "output_request", "takes_schemas"]

T = TypeVar("T")
Chat: TypeAlias = Callable[[ChatRequest], Awaitable[Reply]]

PROMPT = "Respond ONLY with valid JSON matching this schema:\n"
EMPTY = "Empty response for structured output"
_LONGEST = 4000
_FENCE = "```"


class Structured(msgspec.Struct, Generic[T], frozen=True):
    """An answer as a value.

    `reply` is the one that `data` was read from; its transcript is the conversation as it went, repairs included.
    `replies` are all that it took, the last being `reply`.
    """

    data: T
    reply: Reply
    replies: tuple[Reply, ...] = ()

    @property
    def response(self) -> ChatResponse:
        """The response that `data` was read from."""
        return self.reply.response

    @property
    def usage(self) -> Usage | None:
        """What all the replies used together; None if nobody said."""
        known = [reply.usage for reply in self.replies if reply.usage is not None]
        return sum(known[1:], known[0]) if known else None

    @property
    def cost(self) -> Decimal | None:
        """What all the replies cost together, in USD; None if that is not known of each."""
        costs = [reply.cost for reply in self.replies if reply.cost is not None]
        return sum(costs, Decimal(0)) if costs and len(costs) == len(self.replies) else None


@overload
async def ask_structured(
    chat: Chat, request: ChatRequest, output_type: type[T], *, native: bool, repairs: int = 1
) -> Structured[T]: ...


@overload
async def ask_structured(
    chat: Chat, request: ChatRequest, output_type: Mapping[str, Any], *, native: bool, repairs: int = 1
) -> Structured[Any]: ...


async def ask_structured(
    chat: Chat, request: ChatRequest, output_type: Any, *, native: bool, repairs: int = 1
) -> Structured[Any]:
    """Ask for an answer of a type, or of a JSON Schema.

    `native` says that the model can be held to a schema. An answer that does not fit is sent back with what is wrong
    with it, at most `repairs` times; then it is a `SchemaMismatch`. No repair is tried where it cannot help: after a
    refusal, after calls to tools, for a schema that makes no sense, and when the answer was cut off at its length limit
    (the next would be, too); each is told in the error. Raise `LLMError` for an answer without text, and `TypeError` for
    a type without a schema.
    """
    wanted = _OutputParser(output_type, native=native)
    request = wanted.asked_in(request)
    replies: list[Reply] = []
    while True:
        reply = await chat(request)
        replies.append(reply)
        text = _text(reply)
        try:
            return Structured(wanted.read(text), reply, tuple(replies))
        except _SchemaError as unfit:
            hopeless = _unrecoverable_reason(reply, str(unfit))
            if hopeless or len(replies) > repairs:
                complaint = _complaint(unfit, hopeless, len(replies))
                raise SchemaMismatch(complaint, text=reply.text, response=reply.response) from unfit.__cause__
            request = msgspec.structs.replace(request, messages=reply.transcript + wanted.repair(unfit))


# --- for whoever asks in his own way ----------------------------------------------------------------------------------


def takes_schemas(target: Target) -> bool:
    """Tell whether the model can be held to a schema, and the provider's dialect can say so."""
    return target.traits.structured_output == "native" and codec_for(target.dialect).takes_schemas(target)


def output_request(output_type: Any, *, native: bool) -> tuple[JsonSchema | None, str]:
    """Return how a type is asked for: a `response_format`, or words for the model where there is none.

    Raise `TypeError` for a type without a schema.
    """
    request = _OutputParser(output_type, native=native).asked_in(ChatRequest(model="", messages=()))
    form = request.response_format
    return (form if isinstance(form, JsonSchema) else None), "".join(map(str, request.transcript))


def extract_json(kind: Any, reply: Reply, *, native: bool) -> str:
    """Return the JSON of an answer as the model wrote it, with nothing around it. Raise `SchemaMismatch` if it does not fit.

    `native` says how it was asked for: see `output_request`.
    """
    wanted = _OutputParser(kind, native=native)
    try:
        text = _text(reply)
        wanted.read(text)
        return jsonio.as_text(jsonio.check(wanted.bare(text)))
    except LLMError as exc:
        raise SchemaMismatch(f"the answer does not fit the schema: {exc}", response=reply.response) from exc
    except _SchemaError as unfit:
        complaint = _complaint(unfit, _unrecoverable_reason(reply, str(unfit)), 1)
        raise SchemaMismatch(complaint, text=reply.text, response=reply.response) from unfit.__cause__


# --- what is wanted ---------------------------------------------------------------------------------------------------


class _SchemaError(Exception):
    """The text does not fit; the message says why, one problem a line."""


class _OutputParser:
    """The type that is asked for, and how it is asked for."""

    def __init__(self, kind: Any, *, native: bool) -> None:
        self._kind = kind
        self._schema = _schema(kind)
        self._narrowed: StrictSchema | None = to_strict_subset(self._schema) if native else None

    def asked_in(self, request: ChatRequest) -> ChatRequest:
        """Return the request with the schema in it. The schema of an earlier question, if it was a prompt, goes out."""
        said = request.transcript
        if said and isinstance(said[0], SystemMessage) and str(said[0]).startswith(PROMPT):
            said = said[1:]
        if self._narrowed is not None:
            strict = True if self._narrowed.strict else None
            form = JsonSchema(self._narrowed.schema, name="response", strict=strict)
            return msgspec.structs.replace(request, messages=_like(request, said), response_format=form)
        said = (SystemMessage(PROMPT + _pretty(self._schema)), *said)
        form_kept = None if isinstance(request.response_format, JsonSchema) else request.response_format
        return msgspec.structs.replace(request, messages=_like(request, said), response_format=form_kept)

    def bare(self, text: str) -> str | msgspec.Raw:
        """Return the JSON that the text stands for, out of what it had to be put in; raise `_SchemaError`."""
        problem = jsonio.problem(text)
        if problem:
            raise _SchemaError(f"not JSON: {problem}")
        return _unwrapped(text) if self._narrowed is not None and self._narrowed.wrapped else text

    def read(self, text: str) -> Any:
        """Return the value that the text stands for; raise `_SchemaError`."""
        data = self.bare(text)
        if isinstance(self._kind, Mapping):
            value = _value(data)
            _refuse(find_problems(value, self._schema))
            return value
        try:
            return parse_as(data, self._kind)
        except ValueError as exc:
            raise _SchemaError("\n".join(self._problems(data, exc))) from exc

    def _problems(self, data: str | msgspec.Raw, exc: ValueError) -> Iterable[str]:
        """Say what does not fit: a model says it all, msgspec only the first thing, so the schema is asked as well."""
        errors = getattr(exc, "errors", None)  # pydantic's way
        if errors is not None:
            return [_told(error) for error in errors()]
        return find_problems(_value(data), self._schema) or (str(exc),)

    def repair(self, unfit: _SchemaError) -> str:
        """Say what was wrong and ask again. A schema that was not in the conversation is shown now."""
        said = (
            f"Your answer could not be used:\n{_cut(str(unfit))}\n\nAnswer again with the whole JSON and nothing else."
        )
        shown = "" if self._narrowed is None else f" It has to match this schema:\n{_pretty(self._narrowed.schema)}"
        return said + shown


def _schema(kind: Any) -> dict[str, Any]:
    try:
        return schema_from_type(kind)
    except TypeError as exc:
        name = getattr(kind, "__name__", repr(kind))
        raise TypeError(f"no answer can be asked for as {name}: {exc}") from exc


def _like(request: ChatRequest, said: tuple[Message, ...]) -> tuple[Message, ...] | Transcript:
    """Return messages as the request had them: bare, or as a transcript."""
    return (
        msgspec.structs.replace(request.messages, messages=said) if isinstance(request.messages, Transcript) else said
    )


def _unfenced(text: str) -> str:
    """Take off a code fence, if there is nothing around it."""
    bare = text.strip()
    head, _, rest = bare.partition("\n")
    language = head.removeprefix(_FENCE).strip()
    fenced = head.startswith(_FENCE) and rest.endswith(_FENCE) and (not language or language.isalnum())
    return rest.removesuffix(_FENCE) if fenced else text


def _unwrapped(data: str | msgspec.Raw) -> msgspec.Raw:
    try:
        held = jsonio.members(data)
    except jsonio.JsonError:
        held = {}
    if list(held) != [VALUE_PROPERTY]:
        raise _SchemaError(f'(root): expected an object whose only property is "{VALUE_PROPERTY}"')
    return held[VALUE_PROPERTY]


def _value(data: str | msgspec.Raw) -> Any:
    """Read JSON of which only the form is known to be right: a number in it may be more than anybody can hold."""
    try:
        return jsonio.parse(data)
    except jsonio.JsonError as exc:
        raise _SchemaError(f"no value: {exc}") from exc


def _refuse(problems: Iterable[str]) -> None:
    said = "\n".join(problems)
    if said:
        raise _SchemaError(said)


def _told(error: Mapping[str, Any]) -> str:
    """Say one of a pydantic model's complaints."""
    place = "".join(f"/{step}" for step in error["loc"])
    return f"{place or '(root)'}: {error['msg']}"


def _pretty(schema: Mapping[str, Any]) -> str:
    return json.dumps(schema, indent=2, ensure_ascii=False)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


# --- what came --------------------------------------------------------------------------------------------------------


def _text(reply: Reply) -> str:
    """Return what was said, without a fence; if that is no JSON, what was said last, after a search for instance."""
    whole = _unfenced(reply.text)
    if not whole.strip():
        hopeless = _unrecoverable_reason(reply)
        raise LLMError(f"{EMPTY}: {hopeless}" if hopeless else EMPTY, provider=reply.provider)
    if jsonio.problem(whole):
        said = [display_text(block) for block in reply.content]
        begin = max((at + 1 for at, text in enumerate(said) if text is None), default=0)
        last = _unfenced("".join(filter(None, said[begin:])))
        return whole if jsonio.problem(last) else last
    return whole


def _unrecoverable_reason(reply: Reply, unfit: str = "") -> str:
    """Say why asking again would not help; empty if it might."""
    if INVALID_SCHEMA in unfit:
        return "no answer would"
    calls = [call.name for call in reply.tool_calls]
    if calls:
        return f"the model called {', '.join(calls)} instead; ask without tools"
    if reply.stop_reason == "content_filter" or any(isinstance(block, Refusal) for block in reply.content):
        return "the model refused, or its answer was filtered"
    if reply.stop_reason == "length":
        return "the answer was cut off at its length limit; raise max_tokens"
    return ""


def _complaint(unfit: _SchemaError, hopeless: str, times: int) -> str:
    why = hopeless or (f"after {times} answers" if times > 1 else "")
    return f"the answer does not fit the schema{f' ({why})' if why else ''}: {_cut(str(unfit))}"
