"""Write a Chat Completions reply: one body, or the frames of a stream."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Any, Literal, TypeAlias

import msgspec

from tenuto.core import jsonio
from tenuto.rules.chat_hosts import CLAUDE_FORMAT, GEMINI_FORMAT, OPENAI_FORMAT, detail_content
from tenuto.rules.issued_tokens import IssuedToken, content_digest
from tenuto.sim import errors, script
from tenuto.sim.chat_reader import to_turn_request
from tenuto.sim.dialects import ParsedRequest, SimDialect, TurnRequest
from tenuto.sim.errors import ApiError
from tenuto.sim.reply_parts import add_faults, cut_text, find_stop
from tenuto.sim.script import Fault, Turn, join_text
from tenuto.sim.tokens import SeededRandom, estimate_tokens

Place: TypeAlias = Literal["reasoning_content", "reasoning", "reasoning_details", "content", "tags", "none"]
Pieces: TypeAlias = str | list[str]

_MARK = "\x02"
_MARKED = b'"\\u0002"'
_DONE = b"data: [DONE]\n\n"
_FIRST_DAY = 1_780_000_000
_IMAGE_TOKENS = 1290
_SLOT = re.compile(r"\{([wlhd])(\d+)\}")
_ALPHABETS = {"l": "0123456789abcdefghijklmnopqrstuvwxyz", "h": "0123456789abcdef", "d": "0123456789"}


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


class ReasoningItem(msgspec.Struct, frozen=True):
    text: Pieces
    hidden: bool = False
    """Whether only its token is sent."""


class TextItem(msgspec.Struct, frozen=True):
    text: Pieces


class ToolCallItem(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str
    args: str
    index: int

    def to_dict(self) -> dict[str, Any]:
        function = {"name": self.name, "arguments": self.args}
        return {"index": self.index, "id": self.id, "type": "function", "function": function}


class RefusalItem(msgspec.Struct, frozen=True):
    text: str


class AnnotationsItem(msgspec.Struct, frozen=True):
    annotations: list[dict[str, Any]]


class StreamFault(msgspec.Struct, frozen=True):
    """An error that ends the stream."""

    error: ApiError


Item: TypeAlias = ReasoningItem | TextItem | ToolCallItem | RefusalItem | AnnotationsItem | StreamFault | Fault


class ChoiceContent(msgspec.Struct, kw_only=True):
    """One choice: its items in order, its finish reason and its token counts."""

    index: int = 0
    items: list[Item] = []
    finish: str = ""
    answer_tokens: int = 0
    reasoning_tokens: int = 0
    details: list[tuple[Item, dict[str, Any]]] = []
    """Reasoning details, each with the item that it arrives with."""
    signatures: list[str] = []
    """The signatures of the reasoning items, if these are parts of the content."""

    def of(self, kind: type[Any]) -> list[Any]:
        return [item for item in self.items if isinstance(item, kind)]


class _ChoiceBuilder:
    """Turn the steps of a script into the content of a choice, up to a stop sequence or the token limit."""

    def __init__(self, request: TurnRequest, random: SeededRandom, host: ChatHost, place: Place, index: int) -> None:
        self.request, self.random, self.host, self.place = request, random, host, place
        self.content = ChoiceContent(index=index)
        self._text = ""
        self._run_start = 0
        """The offset of the text after the last other item: a stop sequence does not span items."""
        self._tokens_left = request.max_tokens
        self._done = False
        self._call_count = sum(message.calls for message in request.messages)

    def build(self, turn: Turn) -> ChoiceContent:
        content, items = self.content, self.content.items
        for step in turn:
            if isinstance(step, Fault):
                items.append(step)
            elif not self._done:
                self._add(step)
        calls = content.of(ToolCallItem)
        content.finish = content.finish or ("tool_calls" if calls else "stop")
        if self.place == "reasoning_details":
            required = self.request.request.target.traits.reasoning_required and self.request.thinks
            if calls and required and not any(not item.hidden for item in content.of(ReasoningItem)):
                items.insert(0, ReasoningItem("I need a tool for this."))  # the host refuses calls without reasoning
            content.details = _reasoning_details(self.request, content, self.random)
        elif self.place == "content":
            content.signatures = _signatures(content, self.random)
        return content

    def _add(self, step: script.Step) -> None:
        match step:
            case script.Think():
                self._add_reasoning(step)
            case script.Say():
                start = len(self._text)
                self._add_text(step.text)
                if step.cites and not self._done:
                    self._annotate([(cite.url, cite.title) for cite in step.cites], start)
            case script.CallTool():
                self._add_call(step)
            case script.Search():
                if step.found:
                    self._annotate([(result.url, result.title) for result in step.found], len(self._text))
                else:
                    self._add_text(f'Searched the web for "{step.query}".\n\n')
            case script.RunCode():
                self._add_text(f"```python\n{step.code}\n```\n\n```\n{step.output}\n```\n\n")
            case script.SendImage():
                self._run_start = len(self._text)
                url = f"data:{step.media_type};base64,{step.data}"
                self.content.items.append(TextItem([f"![image]({url})"]))
                self.content.answer_tokens += _IMAGE_TOKENS
            case script.StreamError():
                self.content.items.append(StreamFault(ApiError(status=step.status, message=step.message)))
                self._done = True
            case script.Refuse():
                self._refuse(step.text)
            case script.Pause() | script.Stop():
                reason = step.reason if isinstance(step, script.Stop) else ""
                self.content.finish = {"length": "length", "filter": "content_filter"}.get(reason, "stop")
                self._done = True

    def _add_reasoning(self, step: script.Think) -> None:
        text, items = self._limit(step.text), self.content.items
        self._run_start = len(self._text)
        self.content.reasoning_tokens += estimate_tokens(join_text(text)) or (0 if self._done else 1)
        if step.redacted or not self.request.shows_thinking or self.place == "none":
            if self.place == "reasoning_details":
                items.append(ReasoningItem("", hidden=True))
        elif self.place == "tags":
            end = [] if self._done else ["\n</think>\n\n"]
            items.append(TextItem(["<think>\n", *([text] if isinstance(text, str) else text), *end]))
        elif self.place == "content" and items and isinstance(last := items[-1], ReasoningItem):
            # In a stream, nothing separates them.
            items[-1] = ReasoningItem([join_text(last.text), join_text(text)])
        else:
            items.append(ReasoningItem(text))

    def _add_text(self, text: Pieces) -> None:
        start = len(self._text)
        end = find_stop(self._text, join_text(text), self.request.stop, self._run_start)
        if end is not None:
            text, self._done, self.content.finish = cut_text(text, max(0, end - start)), True, "stop"
            self._remove_text(start - end)
        text = self._limit(text)
        self._text += join_text(text)
        self.content.answer_tokens += estimate_tokens(join_text(text))
        self.content.items.append(TextItem(text))

    def _remove_text(self, count: int) -> None:
        """Remove the last characters of the answer: a stop sequence started in an earlier item."""
        items = self.content.items
        for index in range(len(items) - 1, -1, -1):
            item = items[index]
            if count > 0 and isinstance(item, TextItem):
                length = len(join_text(item.text))
                rest = TextItem(cut_text(item.text, max(0, length - count)))
                items[index], count = rest, count - length
                removed = estimate_tokens(join_text(item.text)) - estimate_tokens(join_text(rest.text))
                self.content.answer_tokens -= removed

    def _add_call(self, step: script.CallTool) -> None:
        args = step.args if isinstance(step.args, str) else _compact_json(step.args)
        self._run_start = len(self._text)
        self.content.answer_tokens += estimate_tokens(join_text(self._limit(step.name)))
        if self._done:  # the limit comes before the whole name
            return
        args = join_text(self._limit(args))
        self.content.answer_tokens += estimate_tokens(args)
        index = len(self.content.of(ToolCallItem))
        id = step.id or self._call_id(step.name, index)
        self.content.items.append(ToolCallItem(id=id, name=step.name, args=args, index=index))

    def _call_id(self, name: str, index: int) -> str:
        form = self.host.call_id.replace("{index}", f"{index:02}").replace("{count}", str(self._call_count + index))
        return _fill_slots(form, self.random).replace("{name}", name)

    def _annotate(self, sources: list[tuple[str, str]], start: int) -> None:
        place = {"start_index": start, "end_index": len(self._text)}
        cited = [{"url": url, "title": title, **place} for url, title in sources]
        self.content.items.append(AnnotationsItem([{"type": "url_citation", "url_citation": one} for one in cited]))

    def _refuse(self, text: str) -> None:
        if self.request.request.target.provider.chat.refusals:
            text = join_text(self._limit(text))
            self.content.items.append(RefusalItem(text))
            self.content.answer_tokens += estimate_tokens(text)
        else:
            self._add_text(text)
        self.content.finish = self.content.finish or "stop"
        self._done = True

    def _limit(self, text: Pieces) -> Pieces:
        """Cut a text at the token limit; end the choice there."""
        if self._tokens_left is None:
            return text
        price = estimate_tokens(join_text(text))
        if price > self._tokens_left:
            text, self._done, self.content.finish = cut_text(text, self._tokens_left * 4), True, "length"
        self._tokens_left = max(0, self._tokens_left - price)
        return text


def _compact_json(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _fill_slots(form: str, random: SeededRandom) -> str:
    def fill(slot: re.Match[str]) -> str:
        size = int(slot[2])
        return random.word(size, _ALPHABETS[slot[1]]) if slot[1] in _ALPHABETS else random.word(size)

    return _SLOT.sub(fill, form)


# --- tokens -----------------------------------------------------------------------------------------------------------


def _signatures(content: ChoiceContent, random: SeededRandom) -> list[str]:
    """Sign the thinking parts of a content list."""
    parts = [join_text(item.text) for item in content.of(ReasoningItem)]
    digests = (content_digest(*parts),)
    return [random.token(IssuedToken(kind="thinking", index=i, contents=digests), 96) for i in range(len(parts))]


def _reasoning_details(
    request: TurnRequest, content: ChoiceContent, random: SeededRandom
) -> list[tuple[Item, dict[str, Any]]]:
    """Return the reasoning details of a choice, with tokens that are bound to the whole list."""
    traits = request.request.target.traits
    format = traits.reasoning_format or "unknown"
    details: list[tuple[Item, dict[str, Any]]] = []
    for index, item in enumerate(content.of(ReasoningItem)):
        common = {"format": format, "index": index}
        visible = {"type": "reasoning.text", "text": join_text(item.text), **common}
        hidden = {"type": "reasoning.encrypted", "data": "", **common}
        if format == OPENAI_FORMAT:
            if not item.hidden:
                summary = {"type": "reasoning.summary", "summary": join_text(item.text), **common}
                details.append((item, summary))
            details.append((item, {**hidden, "id": f"rs_{random.hex(50)}"}))
        elif format == CLAUDE_FORMAT:
            details.append((item, hidden if item.hidden else {**visible, "signature": ""}))
        elif not item.hidden:
            details.append((item, visible))
    if format == GEMINI_FORMAT:
        calls = content.of(ToolCallItem)
        if calls and (content.of(ReasoningItem) or traits.signed_calls == "required"):
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


class ChatReply(msgspec.Struct, frozen=True, kw_only=True):
    """A reply before it is written."""

    request: TurnRequest
    host: ChatHost
    place: Place
    id: str
    created: int
    choices: list[ChoiceContent]

    @property
    def always_has_reasoning(self) -> bool:
        """Whether the field of reasoning is there without reasoning: the provider wants it back with calls."""
        wants = self.request.request.target.provider.chat.empty_reasoning
        return wants and self.request.thinks and self.place == "reasoning_content"

    def usage(self, *, answer_tokens: int | None = None) -> dict[str, Any]:
        """Return the usage; `answer_tokens`: of a reply that is not complete yet."""
        prompt = self.request.prompt_tokens
        cached = prompt * 3 // 4 // 64 * 64 if self.request.turn and prompt >= 256 else 0
        answer, reasoning = answer_tokens, 0
        if answer is None:
            answer = sum(choice.answer_tokens for choice in self.choices)
            reasoning = sum(choice.reasoning_tokens for choice in self.choices)
        excludes = self.request.request.target.provider.chat.output_excludes_reasoning
        return {
            "prompt_tokens": prompt,
            "completion_tokens": answer if excludes else answer + reasoning,
            "total_tokens": prompt + answer + reasoning,
            "prompt_tokens_details": {"cached_tokens": cached},
            "completion_tokens_details": {"reasoning_tokens": reasoning},
        }


def write(request: TurnRequest, turn: Turn, random: SeededRandom) -> list[bytes | Fault]:
    reply = _plan(request, turn, random)
    if request.request.stream:
        return stream_events(reply, random)
    return add_faults(jsonio.encode(response_object(reply)), reply.choices[0].items)


def _plan(request: TurnRequest, turn: Turn, random: SeededRandom) -> ChatReply:
    host = host_of(request.request)
    place = _reasoning_place(request, host)
    without_faults = tuple(step for step in turn if not isinstance(step, Fault | script.StreamError))
    created = _FIRST_DAY + random.random.randrange(10_000_000)
    return ChatReply(
        request=request,
        host=host,
        place=place,
        id=f"chatcmpl-{random.word(29)}",
        created=created,
        choices=[
            _ChoiceBuilder(request, random, host, place, index).build(without_faults if index else turn)
            for index in range(request.choices)
        ],
    )


def response_object(reply: ChatReply) -> dict[str, Any]:
    return {
        "id": reply.id,
        "object": "chat.completion",
        "created": reply.created,
        "model": reply.request.request.requested_model,
        "choices": [
            {"index": choice.index, "message": _message(reply, choice), "finish_reason": choice.finish}
            for choice in reply.choices
        ],
        "usage": reply.usage(),
    }


def _message(reply: ChatReply, choice: ChoiceContent) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", **_content(reply, choice), **_reasoning_fields(reply, choice)}
    if calls := [call.to_dict() for call in choice.of(ToolCallItem)]:
        message["tool_calls"] = calls
    if refusals := choice.of(RefusalItem):
        message["refusal"] = "".join(item.text for item in refusals)
    if annotations := [one for item in choice.of(AnnotationsItem) for one in item.annotations]:
        message["annotations"] = annotations
    return message


def _content(reply: ChatReply, choice: ChoiceContent) -> dict[str, Any]:
    if reply.place == "content" and choice.of(ReasoningItem):
        return {"content": _content_parts(choice)}
    text = "".join(join_text(item.text) for item in choice.of(TextItem))
    if text or not (choice.of(ToolCallItem) or choice.of(RefusalItem)):
        return {"content": text}
    form = reply.host.content_with_calls
    return {} if form == "absent" else {"content": None if form == "null" else ""}


def _content_parts(choice: ChoiceContent) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    signatures = iter(choice.signatures)
    for item in choice.items:
        if isinstance(item, ReasoningItem):
            thinking = [{"type": "text", "text": join_text(item.text)}]
            parts.append({"type": "thinking", "thinking": thinking, "closed": True, "signature": next(signatures)})
        elif isinstance(item, TextItem):
            if parts and parts[-1]["type"] == "text":
                parts[-1]["text"] += join_text(item.text)
            else:
                parts.append({"type": "text", "text": join_text(item.text)})
    return parts


def _reasoning_fields(reply: ChatReply, choice: ChoiceContent) -> dict[str, Any]:
    items = choice.of(ReasoningItem)
    text = "".join(join_text(item.text) for item in items)
    if reply.place in ("reasoning_content", "reasoning"):
        return {reply.place: text} if items or reply.always_has_reasoning else {}
    if reply.place == "reasoning_details" and choice.details:
        plain = {"reasoning": text or None} if reply.host.reasoning == "reasoning_details" else {}
        return {**plain, "reasoning_details": [detail for _, detail in choice.details]}
    return {}


# --- streams ----------------------------------------------------------------------------------------------------------


def stream_events(reply: ChatReply, random: SeededRandom) -> list[bytes | Fault]:
    writers = [ChoiceWriter(reply, choice, random) for choice in reply.choices]
    rows = [list(writer.frames()) for writer in writers]
    frames = [frame for row in zip_longest(*rows) for frame in row if frame is not None]
    if any(isinstance(item, StreamFault) for item in reply.choices[0].items):
        return frames
    frames += [writer.end(is_last=writer is writers[-1]) for writer in writers]
    return [*frames, *_usage_frames(reply, writers[-1]), _DONE]


def _usage_frames(reply: ChatReply, writer: ChoiceWriter) -> list[bytes]:
    options = reply.request.request.body.get("stream_options")
    requested = isinstance(options, dict) and options.get("include_usage") is True
    place = reply.host.usage
    if place == "with_choice":
        return [writer.chunk({"role": "assistant", "content": ""}, usage=reply.usage())]
    if place == "always" or (place == "requested" and requested):
        return [writer.chunk({}, choices=[], usage=reply.usage())]
    return []


class ChoiceWriter:
    def __init__(self, reply: ChatReply, choice: ChoiceContent, random: SeededRandom) -> None:
        self.reply, self.choice, self.random, self.host = reply, choice, random, reply.host
        self._signatures = iter(choice.signatures)
        self._after_thinking = False
        self._answer_tokens = 0

    def chunk(self, delta: dict[str, Any], finish: str | None = None, **fields: Any) -> bytes:
        reply = self.reply
        content = {
            "id": reply.id,
            "object": "chat.completion.chunk",
            "created": reply.created,
            "model": reply.request.request.requested_model,
            "choices": [{"index": self.choice.index, "delta": delta, "finish_reason": finish}],
            **fields,
        }
        if self.host.usage == "each":
            content["usage"] = reply.usage(answer_tokens=None if finish else self._answer_tokens)
        return b"data: " + jsonio.encode(content) + b"\n\n"

    def chunks(self, delta: dict[str, Any], pieces: Iterable[str]) -> Iterator[bytes]:
        """Write one chunk for each piece, which takes the place of the mark in the delta."""
        if self.host.usage == "each":
            for piece in pieces:
                self._answer_tokens += max(1, estimate_tokens(piece))
                yield jsonio.encode(piece).join(self.chunk(delta).split(_MARKED))
        else:
            parts = self.chunk(delta).split(_MARKED)  # encoded once: a stream has a thousand chunks
            yield from (jsonio.encode(piece).join(parts) for piece in pieces)

    def frames(self) -> Iterator[bytes | Fault]:
        """Write the content, up to the end or the error that ends it."""
        first = {"role": "assistant", "content": ""}
        yield self.chunk({**first, "reasoning_content": ""} if self.reply.always_has_reasoning else first)
        for item in self.choice.items:
            match item:
                case ReasoningItem():
                    yield from self._reasoning(item)
                case TextItem():
                    yield from self._text(item)
                case ToolCallItem():
                    yield from self._call(item)
                case RefusalItem():
                    yield from self.chunks({"refusal": _MARK}, self.random.pieces(item.text))
                case AnnotationsItem():
                    yield self.chunk({"annotations": item.annotations})
                case StreamFault():
                    yield errors.error_event(self.reply.request.request.provider, item.error)
                    return
                case _:
                    yield item

    def end(self, *, is_last: bool) -> bytes:
        """Write the chunk with the finish reason."""
        fields: dict[str, Any] = {}
        if is_last and self.host.usage == "last":
            fields["usage"] = self.reply.usage()
        if is_last and self.host.usage == "x_groq":
            fields["x_groq"] = {"id": f"req_{self.random.word(26)}", "usage": self.reply.usage()}
        return self.chunk({}, self.choice.finish, **fields)

    def _text(self, item: TextItem) -> Iterator[bytes]:
        pieces = list(self.random.pieces(item.text))
        if self._after_thinking and pieces:
            yield self.chunk({"content": [{"type": "text", "text": pieces.pop(0)}]})
            self._after_thinking = False
        yield from self.chunks({"content": _MARK}, pieces)

    def _reasoning(self, item: ReasoningItem) -> Iterator[bytes]:
        pieces = () if item.hidden else self.random.pieces(item.text)
        if self.reply.place == "content":
            part = {"type": "thinking", "thinking": [{"type": "text", "text": _MARK}], "closed": True}
            yield from self.chunks({"content": [part]}, pieces)
            yield self.chunk({"content": [{**part, "thinking": [], "signature": next(self._signatures)}]})
            self._after_thinking = True
        elif self.reply.place == "reasoning_details":
            yield from self._details(item, pieces)
        else:
            yield from self.chunks({self.reply.place: _MARK}, pieces)

    def _details(self, item: Item, pieces: Sequence[str] | Iterable[str] = ()) -> Iterator[bytes]:
        """Write the details of an item: their texts in pieces, then each token in a chunk of its own."""
        plain = {"reasoning": _MARK} if self.host.reasoning == "reasoning_details" else {}
        for owner, detail in self.choice.details:
            if owner is not item:
                continue
            if key := next((name for name in ("text", "summary") if name in detail), ""):
                bare = {name: value for name, value in detail.items() if name != "signature"}
                yield from self.chunks({**plain, "reasoning_details": [{**bare, key: _MARK}]}, pieces)
            if "data" in detail or "signature" in detail:
                token = {name: value for name, value in detail.items() if name != "text"}
                yield self.chunk({"reasoning_details": [token]})

    def _call(self, call: ToolCallItem) -> Iterator[bytes]:
        head = call.to_dict()
        if self.host.whole_calls:
            yield self.chunk({"tool_calls": [head]})
        else:
            yield self.chunk({"tool_calls": [{**head, "function": {"name": call.name, "arguments": ""}}]})
            rest = {"index": call.index, "function": {"arguments": _MARK}}
            yield from self.chunks({"tool_calls": [rest]}, self.random.pieces(call.args))
        yield from self._details(call)


def _count(request: TurnRequest) -> dict[str, Any]:
    return {"prompt_tokens": request.prompt_tokens}


DIALECT = SimDialect(to_turn_request=to_turn_request, write=write, count=_count)
