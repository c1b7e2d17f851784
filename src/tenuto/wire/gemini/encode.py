"""Gemini's generateContent, to the wire: a request in, bytes out."""

from __future__ import annotations

from typing import Any, TypeGuard

from msgspec import Raw

from tenuto.core import jsonio
from tenuto.core.blocks import (
    Audio,
    Block,
    Document,
    GeminiMeta,
    Image,
    Opaque,
    Reasoning,
    Refusal,
    ServerToolResult,
    ServerToolUse,
    Text,
    ToolUse,
)
from tenuto.core.loss import Loss
from tenuto.core.messages import (
    AssistantMessage,
    Content,
    Message,
    SystemMessage,
    ToolResult,
    ToolResults,
    UserMessage,
)
from tenuto.core.provider import Target, WireRequest
from tenuto.core.request import ChatRequest
from tenuto.wire.body_builder import BodyBuilder, extra_fields, raw_object
from tenuto.wire.gemini.media import media_part
from tenuto.wire.gemini.options import write_options
from tenuto.wire.gemini.parts import DATA, completed, write_part
from tenuto.wire.gemini.protocol import DIALECT, RESPONSE_ONLY, SKIP_SIGNATURE
from tenuto.wire.token_scope import IssuerCheck
from tenuto.wire.urls import model_path

__all__ = ["encode", "verbatim"]

Wire = dict[str, Any]
_RESOLUTIONS = {"low": "MEDIA_RESOLUTION_LOW", "high": "MEDIA_RESOLUTION_HIGH"}


def encode(request: ChatRequest, target: Target, losses: tuple[Loss, ...] = ()) -> WireRequest:
    """Write a request that is already adapted and fitted to its target. The same request gives the same bytes."""
    draft = BodyBuilder(request, target, losses)
    contents = _Contents(draft)
    for at, message in enumerate(request.transcript):
        contents.take(message, f"messages[{at}]")
    if system := "\n\n".join(contents.system):
        draft.body["systemInstruction"] = {"parts": [{"text": system}]}
    draft.body["contents"] = contents.finish()
    write_options(draft)
    verb = "streamGenerateContent?alt=sse" if request.stream else "generateContent"
    return draft.finish(f"{model_path(target.model)}:{verb}")


def verbatim(message: AssistantMessage) -> list[Any]:
    """Write the parts of a received message as they were received; those of a stream as the decoder joined them."""
    return [write_part(block) for block in message.blocks]


class _Contents:
    """The contents as they are written: neighbours of one role share one, answers to calls have one of their own."""

    def __init__(self, draft: BodyBuilder) -> None:
        self._draft = draft
        self._calls: dict[str, tuple[int, ToolUse]] = {}
        self._order = 0
        self._answers: list[tuple[int, Wire]] = []
        self._media: list[Wire] = []
        self.system: list[str] = []
        self._written: list[Wire] = []
        self._issued = IssuerCheck(draft.target)
        self._own_calls: set[int] = set()
        """The identities of the calls that the target made itself."""
        self._answered: Wire | None = None
        """The content that holds the last answers."""
        self._unsaid = ""
        """Where in the transcript an empty user turn is."""
        """Whether the user had a turn and nothing to say in it: then something must stand for it."""

    def take(self, message: Message, place: str) -> None:
        match message:
            case UserMessage():
                self._flush()
                self._say("user", self._asked(message.content, place), place)
                if message.name:
                    self._draft.record_loss("unsupported-parameter", f"{place}.name", message.name)
            case ToolResults():
                for at, result in enumerate(message.results):
                    self._answer(result, f"{place}.results[{at}]")
            case AssistantMessage():
                self._flush()
                parts = self._turn(message, place)
                if not parts:
                    self._draft.leave_out_if_empty(message, place)
                self._say("model", parts, place)
            case SystemMessage():
                self._instruct(message, place)

    def finish(self) -> list[Wire]:
        """Return the contents; calls of the current turn that Gemini did not sign get the word that excuses it."""
        self._flush()
        self._write_placeholder()
        traits = self._draft.target.traits
        if "level" in traits.thinking:
            self._excuse_unsigned_calls(only_foreign=False)
        elif not traits.known:
            self._excuse_unsigned_calls(only_foreign=True)
        return self._written

    def _instruct(self, message: SystemMessage, place: str) -> None:
        if self._written or self._answers:
            self._draft.record_loss("system-hoisted", place, "instructions in mid-conversation moved to the top")
        if text := str(message):
            self.system.append(text)

    def _write_placeholder(self) -> None:
        """Write a placeholder for an empty user turn, so that two turns of the model are not merged."""
        if self._unsaid:
            self._written.append({"role": "user", "parts": [{"text": self._draft.placeholder(self._unsaid)}]})
            self._unsaid = ""

    def _say(self, role: str, parts: list[Any], place: str) -> None:
        last = self._written[-1] if self._written else None
        if not parts:
            if role == "user" and (last is None or last["role"] != "user"):
                self._unsaid = place
            return
        if role == "model":
            self._write_placeholder()
            last = self._written[-1] if self._written else None
        self._unsaid = ""
        if last is not None and last["role"] == role and last is not self._answered:
            last["parts"].extend(parts)
        else:
            self._written.append({"role": role, "parts": parts})

    def _excuse_unsigned_calls(self, *, only_foreign: bool) -> None:
        """Excuse the first call of each step since the user last spoke; of an unknown model, those it did not make."""
        start = len(self._written)
        while start and not (self._written[start - 1]["role"] == "user" and _speaks(self._written[start - 1])):
            start -= 1
        for at in range(start, len(self._written)):
            calls = (part for part in self._written[at]["parts"] if isinstance(part, dict) and "functionCall" in part)
            first = next(calls, None)
            if first is None or (only_foreign and id(first) in self._own_calls):
                continue
            if "thoughtSignature" not in first:
                first["thoughtSignature"] = SKIP_SIGNATURE
                name = first["functionCall"].get("name", "")
                self._draft.record_loss(
                    "missing-signature", f"contents[{at}]", f"the call of {name} was not signed here"
                )

    # --- what is said to the model ------------------------------------------------------------------------------------

    def _asked(self, content: str | tuple[Content, ...], place: str) -> list[Any]:
        if isinstance(content, str):
            return [{"text": content}] if content else []
        return self._parts(content, place)

    def _parts(self, parts: tuple[Content, ...], place: str) -> list[Any]:
        written = (self._part(part, f"{place}.content[{at}]") for at, part in enumerate(parts))
        return [part for part in written if part is not None]

    def _part(self, part: Content, place: str) -> Wire | Raw | None:
        if isinstance(part, Opaque):
            return self._opaque(part, place)
        if not isinstance(part, Audio) and part.cache:
            self._draft.record_loss("unsupported-parameter", f"{place}.cache", part.cache)
        if isinstance(part, Text):
            return completed(part, {"text": part.text}) if part.text else None
        written: Wire | None = media_part(part)
        if written is None and isinstance(part, Document) and part.text:
            written = {"text": part.text}
        if written is None:
            self._draft.record_loss("unsupported-content", place, f"{type(part).__name__.lower()} without data")
            return None
        self._asides(part, written, place)
        return completed(part, written)

    def _asides(self, part: Image | Audio | Document, written: Wire, place: str) -> None:
        """Write, or lose, what stands beside a picture's or document's data."""
        if isinstance(part, Image) and part.detail in _RESOLUTIONS:
            if "level" in self._draft.target.traits.thinking:
                written["mediaResolution"] = {"level": _RESOLUTIONS[part.detail]}
            else:
                self._draft.record_loss("unsupported-parameter", f"{place}.detail", part.detail)
        for name in ("title", "context", "citations") if isinstance(part, Document) else ():
            if value := getattr(part, name):
                self._draft.record_loss("unsupported-parameter", f"{place}.{name}", repr(value)[:200])

    def _opaque(self, block: Opaque, place: str) -> Raw | None:
        if block.dialect != DIALECT or block.raw.strip() == "{}":
            self._draft.record_loss("unreadable-block", place, "a block of another dialect, or one without any data")
            return None
        return Raw(block.raw.encode("utf-8", "surrogatepass"))

    # --- what tools gave ----------------------------------------------------------------------------------------------

    def _answer(self, result: ToolResult, place: str) -> None:
        order, call = self._calls.get(result.tool_use_id, (self._order + 1, None))
        written: Wire = {"name": call.name if call is not None else result.tool_use_id}
        if call is not None and not call.id_generated:
            written["id"] = call.id
        content = (Text(result.content),) if isinstance(result.content, str) else result.content
        text = "\n".join(part.text for part in content if _is_text(part))
        written["response"] = self._body(text, is_error=result.is_error)
        media = self._parts(tuple(part for part in content if not _is_text(part)), place)
        traits = self._draft.target.traits
        if media and traits.known and "level" not in traits.thinking:
            self._draft.record_loss("media-moved", place, "what a tool showed stands in a content of its own")
            self._media.extend(media)
        elif media:
            written["parts"] = media
        self._answers.append((order, {"functionResponse": {**written, **extra_fields(result.extra)}}))

    def _body(self, text: str, *, is_error: bool) -> Wire:
        if self._draft.target.provider.gemini.result_body == "content":
            return {"content": text, "error": is_error}
        structured = text.lstrip()[:1] in ("{", "[") and not jsonio.problem(text)
        said = Raw(text.strip().encode("utf-8", "surrogatepass")) if structured else text
        return {"error" if is_error else "output": said}

    def _flush(self) -> None:
        """Write the answers that have gathered, in the order of their calls."""
        if self._answers:
            self._answers.sort(key=lambda answer: answer[0])
            self._answered = {"role": "user", "parts": [answer for _, answer in self._answers]}
            self._written.append(self._answered)
            self._say("user", self._media, "")
            self._answers, self._media = [], []

    # --- what the model said ------------------------------------------------------------------------------------------

    def _turn(self, message: AssistantMessage, place: str) -> list[Any]:
        own = message.origin is not None and self._issued[message.origin]
        parts: list[Any] = []
        for at, block in enumerate(message.blocks):
            if isinstance(block, ToolUse):
                self._order += 1
                self._calls[block.id] = (self._order, block)
            part = self._block(block, f"{place}.blocks[{at}]", own=own)
            if part is not None:
                parts.append(part)
            if own and isinstance(part, dict) and "functionCall" in part:
                self._own_calls.add(id(part))
        return parts

    def _block(self, block: Block, place: str, *, own: bool) -> Wire | Raw | None:
        match block:
            case Text():
                return _said(block) if block.text or isinstance(block.meta, GeminiMeta) else None
            case Reasoning():
                return self._reasoning(block, place, own=own)
            case ToolUse():
                return self._call(block, place)
            case Opaque():
                return self._opaque(block, place)
            case Refusal(text=text):
                return {"text": text} if text else None
            case ServerToolUse(kind=kind) | ServerToolResult(kind=kind) if kind not in ("toolCall", "toolResponse"):
                self._draft.record_loss("unsupported-content", place, f"a provider's tool of another dialect: {kind}")
                return None
            case Image() | Audio() | Document() if not own:
                return self._shown(block, place)
        try:
            return _sendable(write_part(block))
        except KeyError:
            self._draft.record_loss("unsupported-content", place, f"{type(block).__name__} in an assistant's turn")
            return None

    def _shown(self, block: Image | Audio | Document, place: str) -> Wire | None:
        """Write a picture, sound or document that another model made."""
        written: Wire | None = media_part(block)
        if written is None and isinstance(block, Audio) and block.transcript:
            written = {"text": block.transcript}
        if written is None:
            self._draft.record_loss("unsupported-content", place, f"{type(block).__name__.lower()} without data")
            return None
        return _sendable(completed(block, written))

    def _reasoning(self, block: Reasoning, place: str, *, own: bool) -> Wire | Raw | None:
        """Write a thought: signed ones, and the target's own. Others are left out."""
        if isinstance(block.meta, GeminiMeta) or (own and block.text):
            return _said(block)
        self._draft.record_loss("unsigned-reasoning", place, "reasoning without a signature is left out")
        return None

    def _call(self, block: ToolUse, place: str) -> Wire | Raw:
        written = _sendable(write_part(block))
        call = written["functionCall"]
        if "args" in call and not block.args_missing and raw_object(block.args or "{}") is None:
            self._draft.record_loss("arguments-not-an-object", place, block.args_error or "wrapped for replay")
            readable = block.kind == "function" and not jsonio.problem(block.args)
            name = "value" if readable else "input" if block.kind == "custom" else "INVALID_JSON"
            call["args"] = {name: call["args"] if readable else block.args}
        return written


def _is_text(part: Content) -> TypeGuard[Text | Document]:
    """Tell whether a part is text, or a document that is nothing else: an answer's own parts hold media only."""
    return isinstance(part, Text) or (isinstance(part, Document) and bool(part.text) and media_part(part) is None)


def _speaks(content: Wire) -> bool:
    """Tell whether the user says something: a turn begins with a text, not with a picture alone."""
    return any(isinstance(part, dict) and part.get("text") for part in content["parts"])


def _said(block: Text | Reasoning) -> Wire | Raw:
    """Write a text or a thought; only other fields can hold what a request refuses."""
    return _sendable(write_part(block)) if block.extra else write_part(block)


def _sendable(part: Wire | Raw) -> Wire:
    """Take off a part what a request refuses: fields of responses, and nulls. A signature alone goes as empty text."""
    assert isinstance(part, dict)
    kept = _without(part, "")
    for name, value in kept.items():
        if isinstance(value, dict):
            kept[name] = _without(value, f"{name}.")
    return kept if not DATA.isdisjoint(kept) else {**kept, "text": ""}


def _without(fields: Wire, above: str) -> Wire:
    return {
        name: value
        for name, value in fields.items()
        if f"{above}{name}" not in RESPONSE_ONLY and not (isinstance(value, Raw) and bytes(value) == b"null")
    }
