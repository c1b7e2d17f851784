"""The Chat Completions dialect: read a request that no rule refuses, and write a turn as one body or as a stream."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Any, Literal, TypeAlias

import msgspec

from tenuto.core import jsonio
from tenuto.rules.body import Fields, text
from tenuto.rules.chat import ChatBody, calls_of, message_text
from tenuto.rules.chat_hosts import CLAUDE_FORMAT, GEMINI_FORMAT, OPENAI_FORMAT, detail_content
from tenuto.rules.issued_tokens import IssuedToken, content_digest
from tenuto.sim import errors, script
from tenuto.sim.dialects import (
    OfferedTool,
    ParsedRequest,
    PastMessage,
    SimDialect,
    TurnRequest,
    add_faults,
    cut_text,
    find_stop,
)
from tenuto.sim.errors import ApiError
from tenuto.sim.script import Fault, Turn, join_text
from tenuto.sim.tokens import BASE62, SeededRandom, estimate_tokens

_TOKENS_PER_MESSAGE = 4
_TOKENS_PER_REQUEST = 3


def to_turn_request(body: ChatBody, request: ParsedRequest) -> TurnRequest:
    fields, messages = body.body, body.messages()
    past = tuple(_past_messages(body))
    system = "\n\n".join(message_text(message) for _, message in body.messages("system", "developer"))
    tools = fields.get("tools")
    words = [system, *(word for message in past for word in (message.text, *message.results))]
    words += [jsonio.encode(call).decode() for item in messages for _, call in calls_of(*item)]
    words += [jsonio.encode(tools).decode()] if tools else []
    stop = fields.get("stop")
    stop = stop if isinstance(stop, list) else [stop]
    return TurnRequest(
        request=request,
        turn=sum(message.get("role") == "assistant" for _, message in messages),
        system=system,
        messages=past,
        tools=tuple(_offered_tools(body)),
        tool_choice=_tool_choice(fields.get("tool_choice")),
        parallel=fields.get("parallel_tool_calls") is not False,
        thinks=body.thinks(),
        shows_thinking=_shows_thinking(body),
        max_tokens=_count(fields.get("max_completion_tokens")) or _count(fields.get("max_tokens")),
        stop=tuple(sequence for sequence in stop if isinstance(sequence, str) and sequence),
        schema=_schema(fields.get("response_format")),
        choices=_count(fields.get("n")) or 1,
        prompt_tokens=sum(map(estimate_tokens, words)) + _TOKENS_PER_MESSAGE * len(past) + _TOKENS_PER_REQUEST,
    )


def _past_messages(body: ChatBody) -> Iterator[PastMessage]:
    for pointer, message in body.messages():
        role = text(message, "role")
        if role in ("tool", "function"):
            yield PastMessage(role="user", results=(message_text(message),))
        elif role == "assistant":
            calls = sum(1 for _ in calls_of(pointer, message))
            yield PastMessage(role="assistant", texts=_texts(message), calls=calls)
        elif role not in ("system", "developer"):
            yield PastMessage(role="user", texts=_texts(message))


def _texts(message: Fields) -> tuple[str, ...]:
    content = message.get("content")
    parts = [[part] for part in content] if isinstance(content, list) else [content]
    return tuple(filter(None, (message_text({"content": part}) for part in parts)))


def _offered_tools(body: ChatBody) -> Iterator[OfferedTool]:
    for _, tool in body.tools():
        type = text(tool, "type") or "function"
        function = tool.get(type) if type in ("function", "custom") else None
        if isinstance(function, dict):
            schema = function.get("parameters")
            schema = schema if isinstance(schema, dict) else {}
            yield OfferedTool(name=text(function, "name"), schema=schema, is_custom=type == "custom")


def _tool_choice(choice: Any) -> str:
    if isinstance(choice, str):
        return "required" if choice == "any" else choice
    function = (choice.get("function") or choice.get("custom")) if isinstance(choice, dict) else None
    return text(function, "name") or "auto" if isinstance(function, dict) else "auto"


def _shows_thinking(body: ChatBody) -> bool:
    fields, reasoning = body.body, body.body.get("reasoning")
    is_excluded = isinstance(reasoning, dict) and reasoning.get("exclude") is True
    is_hidden = fields.get("reasoning_format") == "hidden" or fields.get("include_reasoning") is False
    return not is_excluded and not is_hidden and body.requested_thinking is not False


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _schema(format: Any) -> dict[str, Any] | None:
    if not isinstance(format, dict) or format.get("type") in (None, "text"):
        return None
    inner = format.get("json_schema")
    schema = inner.get("schema") if isinstance(inner, dict) else None
    return schema if isinstance(schema, dict) else {}


Place: TypeAlias = Literal["reasoning_content", "reasoning", "reasoning_details", "content", "tags", "none"]
Pieces: TypeAlias = str | list[str]

_MARK = "\x02"
_MARKED = b'"\\u0002"'
_DONE = b"data: [DONE]\n\n"
_FIRST_DAY = 1_780_000_000
_IMAGE_TOKENS = 1290
_SLOT = re.compile(r"\{([wlhd])(\d+)\}")
_ALPHABETS = {
    "w": BASE62, "l": "0123456789abcdefghijklmnopqrstuvwxyz", "h": "0123456789abcdef", "d": "0123456789",
}  # fmt: skip


# --- hosts ------------------------------------------------------------------------------------------------------------


class ChatHost(msgspec.Struct, frozen=True, kw_only=True):
    """The differences between hosts that clients depend on. Empty: as the switches of the provider's row say."""

    reasoning: Place | Literal[""] = ""
    """The place of reasoning: a field, parts of the content, tags in the text, or none."""
    call_id: str = "call_{w24}"
    """The form of call ids: `{w9}` are nine letters and digits, `l` lower case, `h` hexadecimal, `d` digits; `{name}` is
    the tool, `{index}` the number of the call in its message, `{count}` in the conversation."""
    content_with_calls: Literal["null", "empty", "absent"] = "null"
    """The content of a message with calls and without text."""
    usage: Literal["requested", "always", "last", "each", "x_groq", "with_choice", ""] = ""
    """The place of usage in a stream: a chunk of its own if it is requested, or always, or with a choice in it; the last
    chunk; each chunk; the field `x_groq` of the last chunk."""
    whole_calls: bool = False
    """Whether a call arrives in one chunk."""


_HOSTS = {
    "openai": ChatHost(reasoning="none"),
    "azure": ChatHost(reasoning="none"),
    "meta": ChatHost(reasoning="none"),
    "vertex": ChatHost(reasoning="none"),
    "cohere": ChatHost(reasoning="none", call_id="{name}_{l12}"),
    "deepseek": ChatHost(call_id="call_{index}_{w24}", content_with_calls="empty", usage="last"),
    "moonshot": ChatHost(call_id="functions.{name}:{count}", content_with_calls="empty", usage="last"),
    "mistral": ChatHost(call_id="{w9}", content_with_calls="empty", whole_calls=True),
    "groq": ChatHost(call_id="{l9}", content_with_calls="absent", usage="x_groq", whole_calls=True),
    "xai": ChatHost(call_id="call_{d8}", content_with_calls="empty", usage="always", whole_calls=True),
    "zai": ChatHost(call_id="call_{d19}", content_with_calls="empty", usage="last", whole_calls=True),
    "alibaba": ChatHost(call_id="call_{h24}", content_with_calls="empty"),
    "minimax": ChatHost(
        reasoning="tags", call_id="call_function_{l12}_{count}", content_with_calls="empty", usage="last"
    ),
    "openrouter": ChatHost(usage="with_choice"),
    "perplexity": ChatHost(reasoning="tags", content_with_calls="empty", usage="each"),
    "ollama": ChatHost(call_id="call_{l8}", content_with_calls="empty", whole_calls=True),
    "cerebras": ChatHost(call_id="{h9}", content_with_calls="absent", usage="last"),
    "huggingface": ChatHost(content_with_calls="empty"),
    "nvidia": ChatHost(call_id="chatcmpl-tool-{h32}", usage="each", whole_calls=True),
    "fireworks": ChatHost(usage="last"),
    "vllm": ChatHost(call_id="chatcmpl-tool-{h32}"),
    "lmstudio": ChatHost(call_id="{d9}"),
    "llamacpp": ChatHost(call_id="{w32}"),
    "sambanova": ChatHost(usage="always"),
}
_FORMAT_CALL_IDS = {CLAUDE_FORMAT: "toolu_bdrk_01{w22}", GEMINI_FORMAT: "tool_{count}_{name}_{w20}"}
"""The form of call ids that a gateway passes on, by the format of its reasoning details."""


def host_of(request: ParsedRequest) -> ChatHost:
    """Return the host of a request; a provider without an entry has only the switches of its row."""
    host, switches = _HOSTS.get(request.provider.name, ChatHost()), request.target.provider.chat
    return msgspec.structs.replace(
        host,
        reasoning=host.reasoning or switches.reasoning_field,
        call_id=_FORMAT_CALL_IDS.get(request.target.traits.reasoning_format, host.call_id),
        usage=host.usage or ("requested" if switches.stream_options else "last"),
    )


def _reasoning_place(request: TurnRequest, host: ChatHost) -> Place:
    parsed = request.request
    traits, switches = parsed.target.traits, parsed.target.provider.chat
    if not request.shows_thinking:
        needs_tokens = traits.signed_calls == "required" and host.reasoning == "reasoning_details"
        return "reasoning_details" if needs_tokens else "none"
    if parsed.body.get("reasoning_split") is True and switches.reasoning_field == "reasoning_details":
        return "reasoning_details"
    if "none" in traits.thinking or parsed.body.get("reasoning_format") == "raw":
        return "tags" if switches.think_tags else "none"
    return host.reasoning or "none"


# --- the content of a choice ------------------------------------------------------------------------------------------


Item: TypeAlias = script.Step | list[dict[str, Any]]
"""A step as it is written, or annotations."""


class ChoiceContent:
    """One choice: the steps of a script as items in order, up to a stop sequence or the token limit."""

    def __init__(self, reply: ChatReply, index: int) -> None:
        self.reply, self.index = reply, index
        self.request, self.random, self.host, self.place = reply.request, reply.random, reply.host, reply.place
        self.items: list[Item] = []
        self.finish = ""
        self.answer_tokens = self.reasoning_tokens = 0
        self.details: list[tuple[Item, dict[str, Any]]] = []
        """Reasoning details, each with the item that it arrives with."""
        self.signatures: list[str] = []
        """The signatures of the reasoning items, if these are parts of the content."""
        self._text = ""
        self._run_start = 0
        """The offset of the text after the last other item: a stop sequence does not span items."""
        self._tokens_left = reply.request.max_tokens
        self._done = self._after_thinking = False
        self._streamed_tokens = 0

    def of(self, kind: type[Any]) -> list[Any]:
        return [item for item in self.items if isinstance(item, kind)]

    def build(self, turn: Turn) -> ChoiceContent:
        for step in turn:
            if isinstance(step, Fault):
                self.items.append(step)
            elif not self._done:
                self._add(step)
        calls = self.of(script.CallTool)
        self.finish = self.finish or ("tool_calls" if calls else "stop")
        if self.place == "reasoning_details":
            required = self.request.request.target.traits.reasoning_required and self.request.thinks
            if calls and required and not any(not item.redacted for item in self.of(script.Think)):
                self.items.insert(0, script.Think("I need a tool for this."))  # the host refuses calls without it
            self.details = _reasoning_details(self.request, self, self.random)
        elif self.place == "content":
            parts = [join_text(item.text) for item in self.of(script.Think)]
            tokens = [
                IssuedToken(kind="thinking", index=i, contents=(content_digest(*parts),)) for i in range(len(parts))
            ]
            self.signatures = [self.random.token(token, 96) for token in tokens]
        return self

    def _add(self, step: script.Step) -> None:
        match step:
            case script.Think():
                self._add_reasoning(step)
            case script.Say(text, cites):
                start = len(self._text)
                self._add_text(text)
                if cites and not self._done:
                    self._annotate(cites, start)
            case script.CallTool():
                self._add_call(step)
            case script.Search(query, ()):
                self._add_text(f'Searched the web for "{query}".\n\n')
            case script.Search(_, found):
                self._annotate(found, len(self._text))
            case script.RunCode(code, output):
                self._add_text(f"```python\n{code}\n```\n\n```\n{output}\n```\n\n")
            case script.SendImage(data, media_type):
                self._run_start = len(self._text)
                self.items.append(script.Say([f"![image](data:{media_type};base64,{data})"]))
                self.answer_tokens += _IMAGE_TOKENS
            case script.StreamError():
                self.items.append(step)
                self._done = True
            case script.Refuse(text):
                if self.request.request.target.provider.chat.refusals:
                    text = join_text(self._limit(text))
                    self.items.append(script.Refuse(text))
                    self.answer_tokens += estimate_tokens(text)
                else:
                    self._add_text(text)
                self._end(self.finish or "stop")
            case script.Pause():
                self._end("stop")
            case script.Stop(reason):
                self._end({"length": "length", "filter": "content_filter"}.get(reason, "stop"))

    def _end(self, finish: str) -> None:
        self._done, self.finish = True, finish

    def _add_reasoning(self, step: script.Think) -> None:
        text, items = self._limit(step.text), self.items
        self._run_start = len(self._text)
        self.reasoning_tokens += estimate_tokens(join_text(text)) or (0 if self._done else 1)
        if step.redacted or not self.request.shows_thinking or self.place == "none":
            if self.place == "reasoning_details":
                items.append(script.Think("", redacted=True))
        elif self.place == "tags":
            end = [] if self._done else ["\n</think>\n\n"]
            items.append(script.Say(["<think>\n", *([text] if isinstance(text, str) else text), *end]))
        elif self.place == "content" and items and isinstance(last := items[-1], script.Think):
            # In a stream, nothing separates them.
            items[-1] = script.Think([join_text(last.text), join_text(text)])
        else:
            items.append(script.Think(text))

    def _add_text(self, text: Pieces) -> None:
        start = len(self._text)
        end = find_stop(self._text, join_text(text), self.request.stop, self._run_start)
        if end is not None:
            text = cut_text(text, max(0, end - start))
            self._end("stop")
            self._remove_text(start - end)
        text = self._limit(text)
        self._text += join_text(text)
        self.answer_tokens += estimate_tokens(join_text(text))
        self.items.append(script.Say(text))

    def _remove_text(self, count: int) -> None:
        """Remove the last characters of the answer: a stop sequence started in an earlier item."""
        for index, item in reversed(list(enumerate(self.items))):
            if count > 0 and isinstance(item, script.Say):
                text = join_text(item.text)
                rest = script.Say(cut_text(item.text, max(0, len(text) - count)))
                self.items[index], count = rest, count - len(text)
                self.answer_tokens -= estimate_tokens(text) - estimate_tokens(join_text(rest.text))

    def _add_call(self, step: script.CallTool) -> None:
        args = step.args if isinstance(step.args, str) else jsonio.encode(step.args).decode()
        self._run_start = len(self._text)
        self.answer_tokens += estimate_tokens(join_text(self._limit(step.name)))
        if self._done:  # the limit comes before the whole name
            return
        args = join_text(self._limit(args))
        self.answer_tokens += estimate_tokens(args)
        index = len(self.of(script.CallTool))
        self.items.append(script.CallTool(step.name, args, step.id or self._call_id(step.name, index)))

    def _call_id(self, name: str, index: int) -> str:
        count = sum(message.calls for message in self.request.messages) + index
        form = self.host.call_id.replace("{index}", f"{index:02}").replace("{count}", str(count))
        id = _SLOT.sub(lambda slot: self.random.word(int(slot[2]), _ALPHABETS[slot[1]]), form)
        return id.replace("{name}", name)

    def _annotate(self, sources: Iterable[script.Cite | script.SearchResult], start: int) -> None:
        place = {"start_index": start, "end_index": len(self._text)}
        cited = [{"url": source.url, "title": source.title, **place} for source in sources]
        self.items.append([{"type": "url_citation", "url_citation": one} for one in cited])

    def _limit(self, text: Pieces) -> Pieces:
        """Cut a text at the token limit; end the choice there."""
        if self._tokens_left is None:
            return text
        price = estimate_tokens(join_text(text))
        if price > self._tokens_left:
            text = cut_text(text, self._tokens_left * 4)
            self._end("length")
        self._tokens_left = max(0, self._tokens_left - price)
        return text

    # --- whole ---

    @property
    def always_has_reasoning(self) -> bool:
        """Whether the field of reasoning is there without reasoning: the provider wants it back with calls."""
        wants = self.request.request.target.provider.chat.empty_reasoning
        return wants and self.request.thinks and self.place == "reasoning_content"

    def _call_fields(self, call: script.CallTool) -> dict[str, Any]:
        index = next(index for index, other in enumerate(self.of(script.CallTool)) if other is call)
        function = {"name": call.name, "arguments": call.args}
        return {"index": index, "id": call.id, "type": "function", "function": function}

    def message(self) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", **self._content(), **self._reasoning_fields()}
        if calls := [self._call_fields(call) for call in self.of(script.CallTool)]:
            message["tool_calls"] = calls
        if refusals := self.of(script.Refuse):
            message["refusal"] = "".join(item.text for item in refusals)
        if annotations := [one for item in self.of(list) for one in item]:
            message["annotations"] = annotations
        return message

    def _content(self) -> dict[str, Any]:
        if self.place == "content" and self.of(script.Think):
            return {"content": self._content_parts()}
        text = "".join(join_text(item.text) for item in self.of(script.Say))
        if text or not (self.of(script.CallTool) or self.of(script.Refuse)):
            return {"content": text}
        form = self.host.content_with_calls
        return {} if form == "absent" else {"content": None if form == "null" else ""}

    def _content_parts(self) -> list[dict[str, Any]]:
        parts: list[dict[str, Any]] = []
        signatures = iter(self.signatures)
        for item in self.items:
            if isinstance(item, script.Think):
                thinking = [{"type": "text", "text": join_text(item.text)}]
                parts.append({"type": "thinking", "thinking": thinking, "closed": True, "signature": next(signatures)})
            elif isinstance(item, script.Say) and parts and parts[-1]["type"] == "text":
                parts[-1]["text"] += join_text(item.text)
            elif isinstance(item, script.Say):
                parts.append({"type": "text", "text": join_text(item.text)})
        return parts

    def _reasoning_fields(self) -> dict[str, Any]:
        items = self.of(script.Think)
        text = "".join(join_text(item.text) for item in items)
        if self.place in ("reasoning_content", "reasoning"):
            return {self.place: text} if items or self.always_has_reasoning else {}
        if self.place == "reasoning_details" and self.details:
            plain = {"reasoning": text or None} if self.host.reasoning == "reasoning_details" else {}
            return {**plain, "reasoning_details": [detail for _, detail in self.details]}
        return {}

    # --- the chunks of a stream ---

    def chunk(self, delta: dict[str, Any], finish: str | None = None, **fields: Any) -> bytes:
        choices = [{"index": self.index, "delta": delta, "finish_reason": finish}]
        content = {**self.reply.head("chat.completion.chunk"), "choices": choices, **fields}
        if self.host.usage == "each":
            content["usage"] = self.reply.usage(answer_tokens=None if finish else self._streamed_tokens)
        return b"data: " + jsonio.encode(content) + b"\n\n"

    def chunks(self, delta: dict[str, Any], pieces: Iterable[str]) -> Iterator[bytes]:
        """Write one chunk for each piece, which takes the place of the mark in the delta."""
        if self.host.usage == "each":
            for piece in pieces:
                self._streamed_tokens += max(1, estimate_tokens(piece))
                yield jsonio.encode(piece).join(self.chunk(delta).split(_MARKED))
        else:
            parts = self.chunk(delta).split(_MARKED)  # encoded once: a stream has a thousand chunks
            yield from (jsonio.encode(piece).join(parts) for piece in pieces)

    def frames(self) -> Iterator[bytes | Fault]:
        first = {"role": "assistant", "content": ""}
        self._signatures = iter(self.signatures)
        yield self.chunk({**first, "reasoning_content": ""} if self.always_has_reasoning else first)
        for item in self.items:
            match item:
                case script.Think():
                    yield from self._reasoning_chunks(item)
                case script.Say():
                    yield from self._text_chunks(item)
                case script.CallTool():
                    yield from self._call_chunks(item)
                case script.Refuse():
                    yield from self.chunks({"refusal": _MARK}, self.random.pieces(item.text))
                case list():
                    yield self.chunk({"annotations": item})
                case script.StreamError():
                    error = ApiError(status=item.status, message=item.message)
                    yield errors.error_event(self.request.request.provider, error)
                    return
                case script.Disconnect() | script.Stall() | script.SlowStream():
                    yield item

    def end(self, *, is_last: bool) -> bytes:
        fields: dict[str, Any] = {}
        if is_last and self.host.usage == "last":
            fields["usage"] = self.reply.usage()
        if is_last and self.host.usage == "x_groq":
            fields["x_groq"] = {"id": f"req_{self.random.word(26)}", "usage": self.reply.usage()}
        return self.chunk({}, self.finish, **fields)

    def _text_chunks(self, item: script.Say) -> Iterator[bytes]:
        pieces = list(self.random.pieces(item.text))
        if self._after_thinking and pieces:
            yield self.chunk({"content": [{"type": "text", "text": pieces.pop(0)}]})
            self._after_thinking = False
        yield from self.chunks({"content": _MARK}, pieces)

    def _reasoning_chunks(self, item: script.Think) -> Iterator[bytes]:
        pieces = () if item.redacted else self.random.pieces(item.text)
        if self.place == "content":
            part = {"type": "thinking", "thinking": [{"type": "text", "text": _MARK}], "closed": True}
            yield from self.chunks({"content": [part]}, pieces)
            yield self.chunk({"content": [{**part, "thinking": [], "signature": next(self._signatures)}]})
            self._after_thinking = True
        elif self.place == "reasoning_details":
            yield from self._detail_chunks(item, pieces)
        else:
            yield from self.chunks({self.place: _MARK}, pieces)

    def _detail_chunks(self, item: Item, pieces: Sequence[str] | Iterable[str] = ()) -> Iterator[bytes]:
        """Write the details of an item: their texts in pieces, then each token in a chunk of its own."""
        plain = {"reasoning": _MARK} if self.host.reasoning == "reasoning_details" else {}
        for owner, detail in self.details:
            if owner is not item:
                continue
            if key := next((name for name in ("text", "summary") if name in detail), ""):
                bare = {name: value for name, value in detail.items() if name != "signature"}
                yield from self.chunks({**plain, "reasoning_details": [{**bare, key: _MARK}]}, pieces)
            if "data" in detail or "signature" in detail:
                token = {name: value for name, value in detail.items() if name != "text"}
                yield self.chunk({"reasoning_details": [token]})

    def _call_chunks(self, call: script.CallTool) -> Iterator[bytes]:
        head = self._call_fields(call)
        if self.host.whole_calls:
            yield self.chunk({"tool_calls": [head]})
        else:
            yield self.chunk({"tool_calls": [{**head, "function": {"name": call.name, "arguments": ""}}]})
            rest = {"index": head["index"], "function": {"arguments": _MARK}}
            yield from self.chunks({"tool_calls": [rest]}, self.random.pieces(str(call.args)))
        yield from self._detail_chunks(call)


def _reasoning_details(
    request: TurnRequest, content: ChoiceContent, random: SeededRandom
) -> list[tuple[Item, dict[str, Any]]]:
    """Return the reasoning details of a choice, with tokens that are bound to the whole list."""
    traits = request.request.target.traits
    format = traits.reasoning_format or "unknown"
    details: list[tuple[Item, dict[str, Any]]] = []
    for index, item in enumerate(content.of(script.Think)):
        common = {"format": format, "index": index}
        visible = {"type": "reasoning.text", "text": join_text(item.text), **common}
        hidden = {"type": "reasoning.encrypted", "data": "", **common}
        if format == OPENAI_FORMAT:
            if not item.redacted:
                summary = {"type": "reasoning.summary", "summary": join_text(item.text), **common}
                details.append((item, summary))
            details.append((item, {**hidden, "id": f"rs_{random.hex(50)}"}))
        elif format == CLAUDE_FORMAT:
            details.append((item, hidden if item.redacted else {**visible, "signature": ""}))
        elif not item.redacted:
            details.append((item, visible))
    if format == GEMINI_FORMAT:
        calls = content.of(script.CallTool)
        if calls and (content.of(script.Think) or traits.signed_calls == "required"):
            signature = {"type": "reasoning.encrypted", "data": "", "id": calls[0].id, "format": format}
            details.append((calls[0], {**signature, "index": len(details)}))
        elif details:
            details[-1][1]["signature"] = ""
    parts = detail_content([detail for _, detail in details])
    for index, (_, detail) in enumerate(details):
        key = "data" if "data" in detail else "signature"
        if key in detail:
            token = IssuedToken(kind=format, index=index, contents=(content_digest(*parts),), id=detail.get("id", ""))
            detail[key] = random.token(token, 200 + len(detail.get("text", "")) // 2)
    return details


# --- the reply --------------------------------------------------------------------------------------------------------


class ChatReply:
    """A reply before it is written."""

    def __init__(self, request: TurnRequest, turn: Turn, random: SeededRandom) -> None:
        self.request, self.random, self.host = request, random, host_of(request.request)
        self.place = _reasoning_place(request, self.host)
        self.created, self.id = _FIRST_DAY + random.random.randrange(10_000_000), f"chatcmpl-{random.word(29)}"
        without_faults = tuple(step for step in turn if not isinstance(step, Fault | script.StreamError))
        self.choices = [
            ChoiceContent(self, index).build(without_faults if index else turn) for index in range(request.choices)
        ]

    def head(self, object: str) -> dict[str, Any]:
        model = self.request.request.requested_model
        return {"id": self.id, "object": object, "created": self.created, "model": model}

    def usage(self, *, answer_tokens: int | None = None) -> dict[str, Any]:
        """Return the usage; `answer_tokens`: of a reply that is not complete yet."""
        prompt = self.request.prompt_tokens
        cached = prompt * 3 // 4 // 64 * 64 if self.request.turn and prompt >= 256 else 0
        is_complete = answer_tokens is None
        answer = answer_tokens or sum(choice.answer_tokens for choice in self.choices if is_complete)
        reasoning = sum(choice.reasoning_tokens for choice in self.choices if is_complete)
        excludes = self.request.request.target.provider.chat.output_excludes_reasoning
        return {
            "prompt_tokens": prompt,
            "completion_tokens": answer if excludes else answer + reasoning,
            "total_tokens": prompt + answer + reasoning,
            "prompt_tokens_details": {"cached_tokens": cached},
            "completion_tokens_details": {"reasoning_tokens": reasoning},
        }


def write(request: TurnRequest, turn: Turn, random: SeededRandom) -> list[bytes | Fault]:
    reply = ChatReply(request, turn, random)
    if request.request.stream:
        return stream_events(reply)
    return add_faults(jsonio.encode(response_object(reply)), reply.choices[0].items)


def response_object(reply: ChatReply) -> dict[str, Any]:
    choices = [
        {"index": choice.index, "message": choice.message(), "finish_reason": choice.finish} for choice in reply.choices
    ]
    return {**reply.head("chat.completion"), "choices": choices, "usage": reply.usage()}


# --- streams ----------------------------------------------------------------------------------------------------------


def stream_events(reply: ChatReply) -> list[bytes | Fault]:
    choices = reply.choices
    rows = [list(choice.frames()) for choice in choices]
    frames = [frame for row in zip_longest(*rows) for frame in row if frame is not None]
    if choices[0].of(script.StreamError):
        return frames
    frames += [choice.end(is_last=choice is choices[-1]) for choice in choices]
    return [*frames, *_usage_frames(reply, choices[-1]), _DONE]


def _usage_frames(reply: ChatReply, choice: ChoiceContent) -> list[bytes]:
    options = reply.request.request.body.get("stream_options")
    requested = isinstance(options, dict) and options.get("include_usage") is True
    place = reply.host.usage
    if place == "with_choice":
        return [choice.chunk({"role": "assistant", "content": ""}, usage=reply.usage())]
    if place == "always" or (place == "requested" and requested):
        return [choice.chunk({}, choices=[], usage=reply.usage())]
    return []


DIALECT = SimDialect(
    to_turn_request=to_turn_request,
    write=write,
    count=lambda request: {"prompt_tokens": request.prompt_tokens},
)
