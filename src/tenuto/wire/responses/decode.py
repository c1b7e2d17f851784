"""Responses bytes to events and a reply.

State is kept by `output_index`: an item's id may change from event to event, and indices may skip. The finished item
(`response.output_item.done`) is the truth about an item; one that never finished is taken from the last event, which
repeats the whole output, and is never counted twice. Blocks stand in the order of the output, whatever came first.

A reply ends with `response.completed` or `response.incomplete`; `response.failed` and `error` are raised. A body that
did not stream and says `queued` or `in_progress` (background mode) is not an error: its message is marked incomplete
and has no stop reason. A compacted history (`response.compaction`) has no status, and so no raw stop word.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import msgspec
from msgspec import Raw

from tenuto.core import jsonio
from tenuto.core.blocks import Audio, Block, Reasoning, Refusal, ServerToolUse, Text, ToolUse
from tenuto.core.events import (
    AudioDelta,
    CitationDelta,
    ContentDelta,
    MessageDelta,
    MessageStart,
    TranscriptDelta,
    UsageUpdate,
)
from tenuto.core.messages import AssistantMessage, StopReason, Usage
from tenuto.core.provider import Target
from tenuto.core.response import ChatResponse, Choice
from tenuto.errors import LLMError, ProtocolError
from tenuto.wire.assembler import BlockSlot
from tenuto.wire.decoder import Decoder, new_id
from tenuto.wire.merge import MergedFields, merge_fields
from tenuto.wire.provider_errors import classify_error
from tenuto.wire.responses.item_builder import OutputBuilder, OutputItem
from tenuto.wire.responses.items import DIALECT, citation_of
from tenuto.wire.responses.protocol import (
    EVENT_FIELDS,
    INCOMPLETE,
    MAX_INDEX,
    PIECES,
    PROGRESS,
    PROGRESS_FIELDS,
    USAGE_TABLE,
    ArgumentsPiece,
    CodePiece,
    InputPiece,
    McpPiece,
    Piece,
    RefusalPiece,
    SummaryPiece,
    TextPiece,
    ThoughtPiece,
    piece_of,
)

__all__ = ["ResponsesDecoder"]

_Fields = dict[str, Raw]
_GROWTH: dict[type[Piece], tuple[str, Block]] = {
    TextPiece: ("message", Text("")),
    RefusalPiece: ("message", Refusal("")),
    SummaryPiece: ("reasoning", Reasoning()),
    ThoughtPiece: ("reasoning", Reasoning()),
    ArgumentsPiece: ("function_call", ToolUse("", "", "")),
    InputPiece: ("custom_tool_call", ToolUse("", "", "", kind="custom")),
    McpPiece: ("mcp_call", ServerToolUse("", "mcp", kind="mcp_call")),
    CodePiece: ("code_interpreter_call", ServerToolUse("", "code_interpreter", kind="code_interpreter_call")),
}
"""The item that a piece belongs to and the block it begins, where nothing announced them."""
_REPEATS: dict[str, tuple[type[Piece], str]] = {
    "response.output_text.done": (TextPiece, "text"),
    "response.refusal.done": (RefusalPiece, "refusal"),
    "response.function_call_arguments.done": (ArgumentsPiece, "arguments"),
    "response.custom_tool_call_input.done": (InputPiece, "input"),
    "response.mcp_call_arguments.done": (McpPiece, "arguments"),
    "response.code_interpreter_call_code.done": (CodePiece, "code"),
}
"""Events that repeat all pieces of one part, and the field that does."""
_PIECE_FIELDS = frozenset({"type", *Piece.__struct_fields__})
_OURS = ("id", "model", "output", "usage", "status")
_PENDING = ("queued", "in_progress")
_UNFINISHED = (*_PENDING, "cancelled")
_NULL = Raw(b"null")
_MAX_SKIPPED = 1000
"""How many parts of reasoning an index may skip: each becomes an empty line."""
_SPEECH = MAX_INDEX
"""The index of speech, which has no output index: after every other."""


class ResponsesDecoder(Decoder):
    """Reads one Responses reply, streamed or whole."""

    dialect = DIALECT

    def __init__(self, target: Target, *, seed: str = "", audio_format: str = "") -> None:
        super().__init__(target, seed=seed, audio_format=audio_format)
        self._parts = self.parts()
        self._output = OutputBuilder(self._parts, self.losses, self._minted)
        self._items = self._output.items
        self._id = ""
        self._early = 0
        self._model = ""
        self._fields = MergedFields()
        self._usage: Usage | None = None
        self._raw_usage = ""
        self._status: str | None = None
        self._stop: StopReason | None = None
        self._begun = False
        self._ended_well = False
        self._unknown: set[str] = set()
        self._audio: OutputItem | None = None
        self._transcript: list[str] = []

    # --- frames -------------------------------------------------------------------------------------------------------

    def frame(self, name: bytes, data: bytes) -> None:
        """Read one event. Pieces of parts that have begun take the short way."""
        try:
            piece = piece_of(data)
        except (msgspec.DecodeError, UnicodeDecodeError):
            self._event(name, data)
            return
        item = self._items.get(piece.output_index)
        if item is None or piece.summary_index != item.line or (slot := item.slots.get(piece.content_index)) is None:
            self._grow(piece)
            return
        text = piece.delta
        slot.pieces.append(text)
        self.out.append(ContentDelta(0, slot.index, piece.tells(text)))

    def _event(self, name: bytes, data: bytes) -> None:
        if data.strip() in (b"", b"[DONE]"):
            return
        fields = self.parse_object(data, ended=self._ended_well)
        if fields is None:
            return
        kind = jsonio.text_of(fields.get("type")) or name.decode("utf-8", "replace")
        if self._ended_well and kind not in PROGRESS and kind != "error":
            self.record_loss("after-the-end", kind, jsonio.as_text(data)[:200])
        else:
            self._dispatch(kind, fields, data)

    def _dispatch(self, kind: str, fields: _Fields, data: bytes) -> None:
        handler = self._handlers.get(kind)
        if handler is not None:
            for strange in fields.keys() - EVENT_FIELDS:
                self._strange("unknown-field", f"{kind}.{strange}", bytes(fields[strange]))
            handler(self, fields)
        elif kind in PIECES:
            self._grow(self._loose_piece(PIECES[kind], fields, "delta"))
        elif kind in _REPEATS:
            self._on_repeat(*_REPEATS[kind], fields)
        elif not kind and bytes(fields.get("error", b"null")) != b"null":
            self._on_error(fields)
        elif kind in PROGRESS:
            for strange in fields.keys() - PROGRESS_FIELDS:
                self._strange("unknown-field", f"{kind}.{strange}", bytes(fields[strange]))
        else:
            self._strange("unknown-event", kind, data)

    def _strange(self, rule: str, what: str, data: bytes) -> None:
        if (known := f"{rule} {what}") not in self._unknown:
            self._unknown.add(known)
            self.record_loss(rule, what, jsonio.as_text(data)[:200])

    def _loose_piece(self, kind: type[Piece], fields: _Fields, text: str) -> Piece:
        """Read a piece that has unknown fields, half characters, or no place of its own."""
        for name in fields.keys() - _PIECE_FIELDS - {text, "name"}:
            self._strange("unknown-field", name, bytes(fields[name]))
        return kind(
            self._index(fields),
            jsonio.text_of(fields.get(text)),
            _number(fields.get("content_index")) or 0,
            _number(fields.get("summary_index")) or 0,
        )

    def _index(self, fields: _Fields) -> int:
        index = _number(fields.get("output_index"))
        if index is None:
            index = self._output.find(fields.get("item_id"))
        return self._output.last() if index is None else index

    def _grow(self, piece: Piece) -> None:
        if self._ended_well:
            self.record_loss("after-the-end", f"output[{piece.output_index}]", piece.delta[:200])
            return
        self._begin()
        kind, block = _GROWTH[type(piece)]
        item = self._items.get(piece.output_index) or self._output.open(piece.output_index, kind)
        if item.done:
            self._strange("late-piece", f"output[{item.index}]", piece.delta.encode("utf-8", "replace"))
            return
        text = piece.delta
        if kind == "reasoning":
            slot = self._output.part(item, 0, block)
            line = max(piece.summary_index, piece.content_index)
            if line - item.line > _MAX_SKIPPED:
                raise jsonio.JsonError(f"part {line} of reasoning follows part {item.line}")
            text = "\n" * (line - item.line) + text  # parts of reasoning are lines of one block
            item.line = max(line, item.line)
        else:
            slot = self._output.part(item, piece.content_index, block)
        self._parts.append(slot, text, piece.tells(text))

    def _on_repeat(self, kind: type[Piece], field: str, fields: _Fields) -> None:
        """Take from a repetition what the pieces left out; some hosts send no pieces at all."""
        piece = self._loose_piece(kind, fields, field)
        item = self._items.get(piece.output_index)
        if item is None or not item.done:
            slot = item.slots.get(piece.content_index) if item is not None else None
            had = "".join(slot.pieces) if slot is not None else ""
            if piece.delta.startswith(had) and len(piece.delta) > len(had):
                piece.delta = piece.delta[len(had) :]
                self._grow(piece)

    # --- items --------------------------------------------------------------------------------------------------------

    def _on_added(self, fields: _Fields) -> None:
        self._begin()
        self._output.announce(self._place(fields), fields["item"])

    def _on_done(self, fields: _Fields) -> None:
        self._begin()
        self._output.conclude(self._place(fields), fields["item"])

    def _place(self, fields: _Fields) -> int:
        index = _number(fields.get("output_index"))
        if index is None:
            index = self._output.find(jsonio.members(fields["item"]).get("id"))
        return len(self._items) if index is None else index

    def _on_part(self, fields: _Fields) -> None:
        kind = jsonio.text_of(jsonio.members(fields["part"]).get("type"))
        if kind in ("output_text", "refusal"):
            block = Text("") if kind == "output_text" else Refusal("")
            self._begin()
            item = self._output.open(self._index(fields), "message")
            self._output.part(item, _number(fields.get("content_index")) or 0, block)

    def _on_annotation(self, fields: _Fields) -> None:
        item = self._items.get(self._index(fields))
        slot = item.slots.get(_number(fields.get("content_index")) or 0) if item is not None else None
        cited = fields.get("annotation", Raw(b"null"))
        if item is not None and slot is not None and bytes(cited)[:1] == b"{":
            item.cited.add(bytes(cited))
            self._parts.emit(slot, CitationDelta(citation_of(cited)))
        else:
            self.record_loss("orphan-annotation", "output", jsonio.as_text(cited)[:200])

    def _on_audio(self, fields: _Fields) -> None:
        text = jsonio.text_of(fields.get("delta"))
        if (slot := self._sound(text)) is not None:
            self._parts.append(slot, text, AudioDelta(text))

    def _on_transcript(self, fields: _Fields) -> None:
        text = jsonio.text_of(fields.get("delta"))
        if (slot := self._sound(text)) is not None:
            self._transcript.append(text)
            self._parts.emit(slot, TranscriptDelta(text))

    def _sound(self, delta: str) -> BlockSlot | None:
        """Return the slot of the speech, which belongs to no item; None, with a loss, if the reply has ended."""
        if self._audio is None:
            self._begin()
            self._audio = self._output.open(_SPEECH, "audio")
        if self._audio.done:
            self._strange("late-piece", "audio", delta.encode("utf-8", "replace"))
            return None
        return self._output.part(self._audio, 0, Audio())

    def _on_audio_done(self, fields: _Fields) -> None:
        """Speech and its words end by themselves, in either order: the end of the reply closes both."""

    # --- the reply ----------------------------------------------------------------------------------------------------

    def _on_error(self, fields: _Fields) -> None:
        raise classify_error(jsonio.encode(fields), provider=self.target.provider.name)

    def _on_state(self, fields: _Fields) -> None:
        response = jsonio.members(fields["response"])
        self._note(response)
        output = response.get("output", Raw(b"[]"))
        self._early = max(self._early, len(jsonio.elements(output)) if bytes(output)[:1] == b"[" else 0)

    def _on_end(self, fields: _Fields) -> None:
        self._end(jsonio.members(fields["response"]), jsonio.text_of(fields["type"]).removeprefix("response."))

    def body(self, data: bytes) -> None:
        """Read a body that did not stream: the list of items, as the last event of a stream repeats it."""
        fields = jsonio.members(data)
        if "output" not in fields and bytes(fields.get("status", b"null")) == b"null":
            if bytes(fields.get("error", b"null")) != b"null":
                raise classify_error(data, provider=self.target.provider.name)
            raise ProtocolError("a body without output", provider=self.target.provider.name, frame=data)
        self._end(fields, None)

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            self.out.append(MessageStart(self._id, self._model or self.target.model))

    def _note(self, response: _Fields) -> None:
        """Take the fields of the response object, which several events carry."""
        id, model = jsonio.text_of(response.get("id")), jsonio.text_of(response.get("model"))
        for name, held, word in (("id", self._id, id), ("model", self._model, model)):
            if held and word and word != held:
                self._strange("changed-field", name, jsonio.encode(f"{held} became {word} within one reply"))
        self._id, self._model = id or self._id, model or self._model
        rest = response.copy()
        for name in _OURS:
            rest.pop(name, None)
        merge_fields(self._fields, rest.items())
        self._begin()

    def _end(self, response: _Fields, word: str | None) -> None:
        self._note(response)
        output = response.get("output")
        if output is not None and output != _NULL:
            self._output.backfill(jsonio.elements(output))
        if (gone := self._early - len(self._items)) > 0:
            self.record_loss("stream-differs", "output", f"{gone} items that an early event listed never came")
        self._status = jsonio.text_of(response.get("status")) or word
        if "failed" in (word, self._status):
            self._stop = "error"
            self._count(response.get("usage"))
            raise self._failed(response)
        if self._audio is not None:
            self._close_audio(self._audio)
        self._output.close()
        self._ended_well = True
        self._stop = self._reason()
        self.out.append(MessageDelta(0, self._stop, self._status))
        self._count(response.get("usage"))

    def _close_audio(self, item: OutputItem) -> None:
        heard = item.slots[0].joined()
        words = "".join(self._transcript)
        self._output.settle(item, [msgspec.structs.replace(heard, transcript=words) if words else heard])

    def _count(self, usage: Raw | None) -> None:
        if usage is None or bytes(usage)[:1] != b"{":
            return
        self._raw_usage = jsonio.as_text(usage)
        self._usage, losses = USAGE_TABLE.read(usage)
        self.losses += losses
        if self._usage is not None:
            self.out.append(UsageUpdate(self._usage))

    def _failed(self, response: _Fields) -> LLMError:
        told = response.get("error")
        if told is None or bytes(told)[:1] != b"{":
            told = Raw(jsonio.encode({"message": "the provider reports that the response failed"}))
        error = classify_error(jsonio.encode({"error": told}), provider=self.target.provider.name)
        error.raw = jsonio.as_text(jsonio.encode(response))
        return error

    def _reason(self) -> StopReason | None:
        if self._status in _PENDING:
            return None
        if self._status == "cancelled":
            return "error"
        if self._status == "incomplete":
            return INCOMPLETE.get(self._why(), "error")
        kinds = {type(block) for block in self._output.blocks(partial=False)}
        if Refusal in kinds:
            return "content_filter"
        return "tool_calls" if ToolUse in kinds else "stop"

    def _why(self) -> str:
        details = self._fields.get("incomplete_details")
        if details is None or bytes(details)[:1] != b"{":
            return ""
        return jsonio.text_of(jsonio.members(details).get("reason"))

    @property
    def ended(self) -> bool:
        """Whether the event came that holds the whole reply."""
        return self._ended_well

    def complete(self) -> bool:
        """Tell whether the reply's last event came; `[DONE]` alone is none."""
        return self._ended_well

    def response(self, *, partial: bool) -> ChatResponse:
        """Assemble the reply. `incomplete_details` stands on the message, everything else beside it."""
        beside = self._fields.written()
        details = beside.get("incomplete_details")
        extra: _Fields = {}
        if details is not None and details != _NULL:
            extra = {"incomplete_details": beside.pop("incomplete_details")}
        message = AssistantMessage(
            self._output.blocks(partial=partial),
            self._stop,
            self._status,
            self.origin(self._model),
            jsonio.object_text(extra),
            incomplete=partial or self._status in _UNFINISHED,
        )
        return ChatResponse(
            self._id,
            self.target.provider.name,
            self._model or self.target.model,
            (Choice(message),),
            self._usage,
            self._raw_usage,
            jsonio.object_text(beside),
            tuple(self.losses),
        )

    def _minted(self, index: int) -> str:
        return new_id(self.seed, self._id, 0, index)

    _handlers: ClassVar[dict[str, Callable[[ResponsesDecoder, _Fields], None]]] = {
        "error": _on_error,
        "response.created": _on_state,
        "response.queued": _on_state,
        "response.in_progress": _on_state,
        "response.completed": _on_end,
        "response.incomplete": _on_end,
        "response.failed": _on_end,
        "response.cancelled": _on_end,
        "response.output_item.added": _on_added,
        "response.output_item.done": _on_done,
        "response.content_part.added": _on_part,
        "response.output_text.annotation.added": _on_annotation,
        "response.output_text_annotation.added": _on_annotation,
        "response.audio.delta": _on_audio,
        "response.audio.done": _on_audio_done,
        "response.audio.transcript.delta": _on_transcript,
        "response.audio.transcript.done": _on_audio_done,
    }


def _number(value: Raw | None) -> int | None:
    found = jsonio.parse(value) if value is not None else None
    if not isinstance(found, int) or isinstance(found, bool):
        return None
    if found >= MAX_INDEX:
        raise jsonio.JsonError(f"index {found} is out of range")
    return found
