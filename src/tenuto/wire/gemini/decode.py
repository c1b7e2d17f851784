"""Gemini's generateContent, from the wire: chunks in, events out.

Every chunk is a whole response object that holds a fragment: its text is the next piece, not the text so far. Text
chunks of one kind (thought or not) and with the same other fields grow one block; a signed part is never grown, and
closes what was open. A body that did not stream holds its parts as the model made them, so there nothing is joined.

A reply is complete after a finish reason, or after the reason why the prompt was blocked.
"""

from __future__ import annotations

import functools

import msgspec
from msgspec import UNSET, Raw, UnsetType

from tenuto.core import jsonio
from tenuto.core.blocks import (
    Audio,
    Block,
    CodeExecution,
    GeminiMeta,
    Image,
    ProviderMeta,
    Reasoning,
    ServerToolUse,
    Text,
    ToolUse,
    UrlCitation,
)
from tenuto.core.events import (
    ArgumentsDelta,
    AudioDelta,
    CitationDelta,
    CodeDelta,
    ContentDelta,
    Delta,
    ImageDelta,
    MessageDelta,
    MessageStart,
    SignatureDelta,
    TextDelta,
    ThinkingDelta,
    UsageUpdate,
)
from tenuto.core.messages import AssistantMessage, StopReason, Usage
from tenuto.core.response import ChatResponse, Choice
from tenuto.core.target import Loss, Target
from tenuto.wire.assembler import GROWS, Slot
from tenuto.wire.codec import Decoder, Parts, merge_fields, mint
from tenuto.wire.failures import failure
from tenuto.wire.gemini.arguments import PartialArgs
from tenuto.wire.gemini.grounding import citations
from tenuto.wire.gemini.parts import inner_of, read_part, signature_of
from tenuto.wire.gemini.shapes import (
    CANDIDATE,
    CHUNK,
    DIALECT,
    DONE,
    HOT,
    PART,
    STOP_NUMBERS,
    STOP_NUMBERS_VERTEX,
    STOP_REASONS,
    Fields,
    camel,
)
from tenuto.wire.gemini.usage import normalised

__all__ = ["GeminiDecoder"]

_HOT = HOT.decode
_NULL = Raw(b"null")
_THOUGHT_FALSE = '{"thought":false}'


class _Call:
    """A call whose arguments are still arriving."""

    __slots__ = ("args", "fields", "meta", "slot")

    def __init__(self, slot: Slot, meta: GeminiMeta | None, args: PartialArgs) -> None:
        self.slot = slot
        self.meta = meta
        self.args = args
        self.fields: Fields = {}


class _Turn:
    """One candidate on its way. `kind` is the `thought` flag of the text that may still grow, None if there is none."""

    __slots__ = (
        "call",
        "calls",
        "cited",
        "fields",
        "index",
        "kind",
        "parts",
        "raw_stop",
        "slot",
        "stop",
        "streamed",
        "texts",
    )

    def __init__(self, index: int, parts: Parts) -> None:
        self.index = index
        self.parts = parts
        self.slot: Slot | None = None
        self.kind: bool | UnsetType | None = None
        self.call: _Call | None = None
        self.streamed = False
        self.calls = 0
        self.texts: list[Slot] = []
        self.cited: dict[int, tuple[UrlCitation, ...]] = {}
        self.raw_stop: str | None = None
        self.stop: StopReason | None = None
        self.fields: Fields = {}


class GeminiDecoder(Decoder):
    """Reads one reply in the Gemini dialect."""

    dialect = DIALECT

    def __init__(self, target: Target, *, seed: str = "") -> None:
        super().__init__(target, seed=seed)
        self._turns: dict[int, _Turn] = {}
        self._begun = False
        self._whole = False
        self._id = ""
        self._model = ""
        self._last_id: str | None = None
        self._last_model: str | None = None
        self._usage = b""
        self._total = False
        self._fields: Fields = {}

    # --- the door of the dialect --------------------------------------------------------------------------------------

    def frame(self, _: bytes, data: bytes) -> None:
        try:
            chunk = _HOT(data)
        except msgspec.DecodeError:
            self._cold(data)
            return
        if chunk.response_id != self._last_id or chunk.model_version != self._last_model:
            self._begin(chunk.response_id, chunk.model_version)
        if usage := bytes(chunk.usage_metadata):
            self._count(usage)
        if created := bytes(chunk.create_time):
            self._fields["createTime"] = Raw(created)
        out = self.out
        for candidate in chunk.candidates:
            turn = self._turns.get(candidate.index) or self._turn(candidate.index)
            for part in candidate.content.parts:
                text, thought = part.text, part.thought
                if thought is turn.kind and not part.thought_signature:
                    if text:
                        slot = turn.slot
                        slot.pieces.append(text)  # type: ignore[union-attr]  # there is one while there is a kind
                        delta = ThinkingDelta(text) if thought is True else TextDelta(text)
                        out.append(ContentDelta(turn.index, slot.index, delta))  # type: ignore[union-attr]  # as above
                else:
                    self._on_text(turn, text, thought, part.thought_signature)
            if candidate.finish_reason:
                self._stop(turn, candidate.finish_reason, candidate.finish_reason)

    def body(self, data: bytes) -> None:
        self._whole = data.lstrip()[:1] != b"["  # an array holds the chunks of a stream
        self._cold(data)

    def complete(self) -> bool:
        if self._blocked() and not self._turns:
            turn = self._turn(0)
            turn.stop = "content_filter"
            self.out.append(MessageDelta(0, turn.stop, None))
        elif all(turn.raw_stop is None for turn in self._turns.values()) and not self._blocked():
            return False
        for turn in self._turns.values():
            self._settle(turn)
            self._cite(turn)
        if (usage := self._normalised([])) is not None:
            self.out.append(UsageUpdate(usage))
        return True

    def response(self, *, partial: bool) -> ChatResponse:
        losses = list(self.losses)
        usage = self._normalised(losses)
        return ChatResponse(
            self._id,
            self.target.provider.name,
            self._model,
            tuple(self._choice(turn, partial=partial) for _, turn in sorted(self._turns.items())),
            usage,
            jsonio.as_text(self._usage) if self._usage else "",
            jsonio.object_text(self._fields),
            tuple(losses),
        )

    # --- chunks -------------------------------------------------------------------------------------------------------

    def _cold(self, data: bytes) -> None:
        data = data.strip()
        if not data or data == DONE:
            return
        if data[:1] == b"[":
            for item in jsonio.elements(data):
                self._cold(bytes(item))
            return
        fields = camel(jsonio.members(data), CHUNK)
        if bytes(fields.get("error", _NULL)) != b"null":
            raise failure(data, provider=self.target.provider.name)
        self._begin(jsonio.text_of(fields.pop("responseId", None)), jsonio.text_of(fields.pop("modelVersion", None)))
        usage = bytes(fields.pop("usageMetadata", _NULL))
        if usage != b"null":
            self._count(usage)
        candidates = fields.pop("candidates", _NULL)
        for item in jsonio.elements(candidates) if bytes(candidates) != b"null" else ():
            self._on_candidate(camel(jsonio.members(item), CANDIDATE))
        merge_fields(self._fields, fields.items())

    def _begin(self, id: str, model: str) -> None:
        """Take the reply's id and model from the first chunk that names them; a later change is told, not followed."""
        self._last_id, self._last_model = id, model
        for name, old, new in (("responseId", self._id, id), ("modelVersion", self._model, model)):
            if old and new and old != new:
                self.lose("changed-field", name, f"{old} became {new} within one reply")
        self._id = self._id or id
        self._model = self._model or model
        if not self._begun:
            self._begun = True
            self.out.append(MessageStart(id, model))

    def _count(self, usage: bytes) -> None:
        """Keep the last usage object with a total; some chunks only say what kind of traffic they are."""
        total = b'"totalTokenCount"' in usage or b'"total_token_count"' in usage
        if total or not self._total:
            self._usage, self._total = usage, total

    def _on_candidate(self, fields: Fields) -> None:
        index = _index(fields.pop("index", _NULL))
        turn = self._turns.get(index) or self._turn(index)
        content = fields.pop("content", _NULL)
        if bytes(content) != b"null":
            held = jsonio.members(content)
            parts = held.pop("parts", _NULL)
            items = jsonio.elements(parts) if bytes(parts) != b"null" else []
            if self._whole and "groundingMetadata" in fields:
                turn.cited = citations(fields["groundingMetadata"], _texts(items))
            for item in items:
                self._on_part(turn, item)
            if bytes(held.get("role", _NULL)) == b'"model"':
                del held["role"]
            if held:
                fields["content"] = Raw(jsonio.encode(held))
        reason = fields.pop("finishReason", _NULL)
        merge_fields(turn.fields, fields.items())
        self._on_reason(turn, reason)

    def _on_reason(self, turn: _Turn, reason: Raw) -> None:
        word = jsonio.parse(reason)
        if isinstance(word, int) and not isinstance(word, bool):
            numbers = STOP_NUMBERS_VERTEX if self.target.provider.gemini.vertex else STOP_NUMBERS
            if word != 0:  # the enumeration's zero stands for "nothing said"
                self._stop(turn, str(word), numbers[word] if 0 < word < len(numbers) else "")
        elif word:
            self._stop(turn, jsonio.text_of(reason), jsonio.text_of(reason))

    def _stop(self, turn: _Turn, raw: str, word: str) -> None:
        self._settle_call(turn)
        self._cite(turn)
        self._settle(turn)
        turn.raw_stop = raw
        turn.stop = STOP_REASONS.get(word, "stop")
        if turn.calls and turn.stop == "stop":  # a turn that calls tools ends as any other
            turn.stop = "tool_calls"
        self.out.append(MessageDelta(turn.index, turn.stop, raw))

    def _blocked(self) -> bool:
        feedback = self._fields.get("promptFeedback", _NULL)
        if bytes(feedback)[:1] != b"{":
            return False
        held = jsonio.members(feedback)
        return bytes(held.get("blockReason", held.get("block_reason", _NULL))) not in (b"null", b'""', b"0")

    # --- parts --------------------------------------------------------------------------------------------------------

    def _turn(self, index: int) -> _Turn:
        self._turns[index] = turn = _Turn(index, self.parts(index))
        return turn

    def _on_part(self, turn: _Turn, raw: Raw) -> None:
        fields = camel(jsonio.members(raw), PART)
        call = inner_of(fields, "functionCall")
        if call is not None and self._on_partial(turn, fields, call):
            return
        ordinal = turn.calls
        block = read_part(raw, fields, functools.partial(mint, self.seed, self._id, turn.index, ordinal))
        if isinstance(block, Text | Reasoning):
            self._on_said(turn, block)
        else:
            self._settle(turn)
            self._on_whole(turn, block)

    def _on_text(self, turn: _Turn, text: str, thought: bool | UnsetType, signature: str) -> None:
        meta = GeminiMeta(signature) if signature else None
        if thought is True:
            self._on_said(turn, Reasoning(text, meta=meta))
        else:
            self._on_said(turn, Text(text, meta=meta, extra=_THOUGHT_FALSE if thought is False else ""))

    def _on_said(self, turn: _Turn, block: Text | Reasoning) -> None:
        """Take a piece of text: it grows the open block if both are alike and unsigned, else it begins one."""
        open_slot = turn.slot
        begun = open_slot.block if open_slot is not None else None
        delta = TextDelta(block.text) if isinstance(block, Text) else ThinkingDelta(block.text)
        if open_slot is not None and type(begun) is type(block) and begun.extra == block.extra and block.meta is None:
            if block.text:
                turn.parts.grow(open_slot, block.text, delta)
            return
        self._settle(turn)
        slot = turn.parts.start(msgspec.structs.replace(block, text="", meta=None))
        if isinstance(block, Text):
            turn.texts.append(slot)
        if block.text:
            turn.parts.grow(slot, block.text, delta)
        if block.meta is not None or self._whole:
            if isinstance(block, Text) and slot.index in turn.cited:
                block = msgspec.structs.replace(block, citations=turn.cited[slot.index])
                self._tell_citations(turn, slot, turn.cited[slot.index])
            self._sign(turn, slot, block.meta)
            turn.parts.done(slot, block)
        else:
            turn.slot = slot
            turn.kind = _kind(block)

    def _on_whole(self, turn: _Turn, block: Block) -> None:
        if isinstance(block, ToolUse):
            turn.calls += 1
        field = GROWS.get(type(block))
        value = getattr(block, field) if field is not None else ""
        bare = msgspec.structs.replace(block, meta=None, **({field: ""} if field is not None else {}))
        slot = turn.parts.start(bare)
        if value:
            turn.parts.tell(slot, _DELTAS[type(block)](value))
        self._sign(turn, slot, block.meta)
        turn.parts.done(slot, block)

    def _sign(self, turn: _Turn, slot: Slot, meta: ProviderMeta | None) -> None:
        if isinstance(meta, GeminiMeta):
            turn.parts.tell(slot, SignatureDelta(meta.thought_signature))

    def _settle(self, turn: _Turn) -> None:
        """Close what is open."""
        self._settle_call(turn)
        turn.streamed = False
        if turn.slot is not None:
            turn.parts.done(turn.slot)
            turn.slot = turn.kind = None

    # --- calls that stream --------------------------------------------------------------------------------------------

    def _on_partial(self, turn: _Turn, fields: Fields, call: Fields) -> bool:
        """Take a piece of a call that streams; return False for a call that comes whole."""
        goes_on = bytes(call.get("willContinue", _NULL)) == b"true"
        name = jsonio.text_of(call.get("name"))
        if name:
            if not goes_on and "partialArgs" not in call:
                return False
            self._settle(turn)
            self._open_call(turn, fields, call)
        elif turn.call is None:
            # the empty call that ends a stream of arguments may follow a piece that ended it already
            return turn.streamed and not call and len(fields) == 1
        if turn.call is not None:
            self._grow_call(turn.call, fields, call)
            if not goes_on:
                self._settle_call(turn)
        return True

    def _open_call(self, turn: _Turn, fields: Fields, call: Fields) -> None:
        name = jsonio.text_of(call.pop("name"))
        id = jsonio.text_of(call.pop("id", None))
        given = call.pop("args", _NULL)
        args = PartialArgs(given if bytes(given)[:1] == b"{" else None)
        block = ToolUse(id or mint(self.seed, self._id, turn.index, turn.calls), name, "", minted=not id)
        turn.calls += 1
        turn.call = _Call(turn.parts.start(block), signature_of(fields), args)

    def _grow_call(self, open_call: _Call, fields: Fields, call: Fields) -> None:
        partial = call.pop("partialArgs", _NULL)
        if bytes(partial) != b"null":
            unread = open_call.args.take(partial)
            if unread:
                self.lose("unread-argument", open_call.slot.block.name, ", ".join(unread))  # type: ignore[union-attr]  # a call
        call.pop("willContinue", None)
        meta = signature_of(fields)
        if meta is not None and open_call.meta is not None and meta != open_call.meta:
            self.lose("second-signature", "stream", "a call was signed twice; the first signature counts")
        open_call.meta = open_call.meta or meta
        del fields["functionCall"]
        merge_fields(open_call.fields, fields.items())
        if call:
            merge_fields(open_call.fields, (("functionCall", Raw(jsonio.encode(call))),))

    def _settle_call(self, turn: _Turn) -> None:
        if turn.call is None:
            return
        call, turn.call, turn.streamed = turn.call, None, True
        block = _called(call)
        if block.args:
            turn.parts.tell(call.slot, ArgumentsDelta(block.args))
        self._sign(turn, call.slot, call.meta)
        turn.parts.done(call.slot, block)

    # --- the end ------------------------------------------------------------------------------------------------------

    def _cite(self, turn: _Turn) -> None:
        """Put grounding on the texts that it grounds.

        In a stream it comes after them, mostly with the last piece. A text that is closed by then shows its citations
        in the assembled reply only.
        """
        grounding = turn.fields.get("groundingMetadata")
        if grounding is None or not turn.texts:
            return
        found = citations(grounding, [(slot.index, _text_of(slot)) for slot in turn.texts])
        for slot in turn.texts:
            cited = found.get(slot.index, ())
            block = slot.block
            if isinstance(block, Text) and cited and cited != block.citations:
                slot.block = msgspec.structs.replace(block, citations=cited)
                if not slot.done:
                    self._tell_citations(turn, slot, cited)

    def _tell_citations(self, turn: _Turn, slot: Slot, cited: tuple[UrlCitation, ...]) -> None:
        for citation in cited:
            turn.parts.tell(slot, CitationDelta(citation))

    def _choice(self, turn: _Turn, *, partial: bool) -> Choice:
        assembler = turn.parts.assembler
        blocks = assembler.unfinished() if partial else assembler.finalize()
        if partial and turn.call is not None:
            cut = msgspec.structs.replace(_called(turn.call), meta=None, broken="the arguments were cut off")
            blocks[turn.call.slot.index] = cut
        message = AssistantMessage(
            tuple(blocks),
            turn.stop,
            turn.raw_stop,
            self.origin(self._model),
            jsonio.object_text(turn.fields),
            incomplete=partial,
        )
        return Choice(message, turn.index)

    def _normalised(self, losses: list[Loss]) -> Usage | None:
        return normalised(self._usage, losses) if self._usage else None


def _kind(block: Text | Reasoning) -> bool | UnsetType | None:
    """Say which chunks of the hot path may grow a block; None if its other fields leave that to the cold one."""
    if isinstance(block, Reasoning):
        return None if block.extra else True
    if block.extra:
        return False if block.extra == _THOUGHT_FALSE else None
    return UNSET


def _index(raw: Raw) -> int:
    index = jsonio.parse(raw)
    if index is not None and type(index) is not int:
        raise jsonio.JsonError(f"no index of a candidate: {jsonio.as_text(raw)[:40]}")
    return index or 0


def _texts(items: list[Raw]) -> list[tuple[int, str]]:
    """Return the texts among a body's parts, each with its number."""
    parts = [jsonio.members(item) for item in items]
    said = [(at, fields) for at, fields in enumerate(parts) if bytes(fields.get("thought", _NULL)) != b"true"]
    return [(at, jsonio.text_of(fields.get("text"))) for at, fields in said if "text" in fields]


def _text_of(slot: Slot) -> str:
    block = slot.joined()
    assert isinstance(block, Text)
    return block.text


def _called(call: _Call) -> ToolUse:
    block = call.slot.block
    assert isinstance(block, ToolUse)
    return msgspec.structs.replace(
        block,
        args=call.args.text() if call.args.touched else "",
        no_args=not call.args.touched,
        meta=call.meta,
        extra=jsonio.object_text(call.fields),
    )


def _delta(kind: type[Delta], value: str) -> Delta:
    return kind(value)  # type: ignore[arg-type]  # the table below names those of one text


_DELTAS = {
    ToolUse: functools.partial(_delta, ArgumentsDelta),
    ServerToolUse: functools.partial(_delta, ArgumentsDelta),
    CodeExecution: functools.partial(_delta, CodeDelta),
    Image: functools.partial(_delta, ImageDelta),
    Audio: functools.partial(_delta, AudioDelta),
}
