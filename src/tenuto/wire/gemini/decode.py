"""Decode replies of Gemini's generateContent.

Every chunk is a complete response object with the next fragment of the reply: its text continues the text so far. A
reply is complete after a finish reason, or after the reason why the prompt was blocked.

Text parts of a stream with the same `thought` flag and the same other fields extend one block; a part with a signature,
and a part of a body that did not stream, is a block of its own. Grounding cites text that came earlier, so after the
first grounding the `ContentDone` of texts waits until the candidate ends.
"""

import functools
import itertools
import re
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import Raw, UnsetType

from tenuto.core import jsonio
from tenuto.core.blocks import Block, GeminiMeta, Reasoning, Text, ToolUse, UrlCitation
from tenuto.core.events import (
    CitationDelta,
    ContentDelta,
    MessageDelta,
    SignatureDelta,
    TextDelta,
    ThinkingDelta,
    UsageUpdate,
)
from tenuto.core.jsonio import NULL, Fields, is_list, is_null, is_object, object_or_empty, read_optional_list
from tenuto.core.loss import Loss
from tenuto.core.messages import AssistantMessage, StopReason, Usage
from tenuto.core.provider import Target
from tenuto.core.response import ChatResponse, Choice
from tenuto.wire.assembler import DELTAS, GROWS, BlockSlot, ChoiceBuilder, MergedFields, merge_fields
from tenuto.wire.decoder import Decoder, new_id
from tenuto.wire.gemini import protocol
from tenuto.wire.gemini.parts import part_data, read_part, take_signature
from tenuto.wire.provider_errors import classify_error

_decode_hot_chunk = msgspec.json.Decoder(protocol.HotChunk).decode


# --- one candidate ----------------------------------------------------------------------------------------------------


_STEP = re.compile(r"""\.([^.\[\]]+)|\[(\d{1,9})\]|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\]""")
_ESCAPE = re.compile(r"\\(.)")
_KNOWN_FIELDS = ("jsonPath", "stringValue", "numberValue", "boolValue", "nullValue", "willContinue")
MAX_GAP = 1000  # how far after its end a list may be written to; the elements between are null

Step = str | int


class _StringPieces(list[str]):
    """A string that may still grow."""


class PartialArgs:
    """The arguments of one call, from `args` on. They arrive value by value in any order, each with its JSON path; at
    the end they are compact JSON, with the keys in the order of their appearance and the numbers as the provider wrote
    them.
    """

    def __init__(self, args: Raw | None = None) -> None:
        self._root: Any = args

    def add(self, values: Raw) -> list[str]:
        """Add partial values; return the names of unread fields. Raise `JsonError` for a value without valid path."""
        items = [protocol.to_camel_case(jsonio.members(item), protocol.PART_FIELDS) for item in jsonio.elements(values)]
        for fields in items:
            self._add_value(fields)
        return [name for fields in items for name in fields if name not in _KNOWN_FIELDS]

    def text(self) -> str:
        """Return the arguments as JSON text; empty before the first one."""
        return "" if self._root is None else jsonio.as_text(jsonio.encode(_join_strings(self._root)))

    def _add_value(self, fields: Fields) -> None:
        steps = _parse_path(jsonio.text_of(fields.get("jsonPath")))
        self._root = container = _as_container(self._root, steps[0])
        for step, next_step in itertools.pairwise(steps):
            container[step] = _as_container(_get(container, step), next_step)
            container = container[step]
        last = steps[-1]
        string = fields.get("stringValue")
        if string is None:
            number, boolean = fields.get("numberValue"), fields.get("boolValue")
            value = boolean if is_null(number) else number
            container[last] = None if is_null(value) else value
            return
        old = _get(container, last)
        if not isinstance(old, _StringPieces):
            container[last] = old = _StringPieces()
        old.append(jsonio.text_of(string))


def _parse_path(path: str) -> list[Step]:
    if not path.startswith("$"):
        raise jsonio.JsonError(f"invalid path of an argument: {path[:80]!r}")
    offset, steps = 1, list[Step]()
    while offset < len(path):
        step = _STEP.match(path, offset)
        if step is None or len(steps) >= jsonio.MAX_DEPTH:
            raise jsonio.JsonError(f"invalid path of an argument: {path[:80]!r}")
        name, index, single, double = step.groups()
        steps.append(int(index) if index else name or _ESCAPE.sub(r"\1", single or double or ""))
        offset = step.end()
    if not steps or isinstance(steps[0], int):
        raise jsonio.JsonError(f"the path of an argument must start with a name: {path[:80]!r}")
    return steps


def _as_container(value: Any, step: Step) -> Any:
    """Return `value` as the object or list that `step` leads into; replace any other value by an empty one."""
    if isinstance(step, str):
        if isinstance(value, Raw) and is_object(value):
            return jsonio.members(value)
        return value if isinstance(value, dict) else {}
    if isinstance(value, Raw) and is_list(value):
        value = jsonio.elements(value)
    items = value if isinstance(value, list) and not isinstance(value, _StringPieces) else []
    if step > len(items) + MAX_GAP:
        raise jsonio.JsonError(f"an argument at index {step} of a list of {len(items)}")
    items.extend([None] * (step + 1 - len(items)))
    return items


def _get(container: Any, step: Step) -> Any:
    return container.get(step) if isinstance(step, str) else container[step]


def _join_strings(value: Any) -> Any:
    if isinstance(value, _StringPieces):
        return "".join(value)
    if isinstance(value, dict):
        return {name: _join_strings(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_join_strings(inner) for inner in value]
    return value


Json = dict[str, Any]
# a stored document has no URI, only the name of its store
_URI_FIELDS = ("uri", "sourceUri", "source_uri", "imageUri", "documentName", "fileSearchStore", "file_search_store")


class CandidateDecoder:
    """Builds the message of one candidate. `call_id` makes call ids; `joins_text`: text extends the open block."""

    def __init__(self, parts: ChoiceBuilder, call_id: Callable[[int], str], *, joins_text: bool) -> None:
        self.index = parts.choice
        self.slot: BlockSlot | None = None  # the open text or reasoning
        self.thought_flag: bool | UnsetType | None = None
        """The `thought` of hot parts that extend `slot`; None: hot parts do not extend it."""
        self.fields = MergedFields()
        self.raw_stop: str | None = None
        self.stop_reason: StopReason | None = None
        self._parts = parts
        self._call_id = call_id
        self._joins_text = joins_text
        self._call_count = 0
        self._open_call: tuple[BlockSlot, PartialArgs] | None = None  # a call whose arguments arrive in several parts
        self._after_streamed_call = False
        self._uncited: list[BlockSlot] = []  # closed texts whose `ContentDone` waits for citations
        self._grounding = b"null"  # the grounding that was last converted to citations

    def add_part(self, raw: Raw) -> None:
        fields = protocol.to_camel_case(jsonio.members(raw), protocol.PART_FIELDS)
        call = part_data(fields, "functionCall")
        if call is not None and self._add_call_piece(fields, call):
            return
        block = read_part(raw, fields, functools.partial(self._call_id, self._call_count))
        if isinstance(block, Text | Reasoning):
            self.add_text(block)
        else:
            self._call_count += isinstance(block, ToolUse)
            self._add_block(block)

    def add_text(self, block: Text | Reasoning) -> None:
        """Extend the open block if both have the same type and fields; else start a block. Signed text is not joined."""
        if block.meta is not None or not self._joins_text:
            self._add_block(block)
            return
        slot = self.slot
        if slot is None or type(slot.block) is not type(block) or slot.block.extra != block.extra:
            self._close_open()
            self.slot = slot = self._parts.start(msgspec.structs.replace(block, text=""))
            self.thought_flag = None
        if block.text:
            self._parts.append(slot, block.text)

    def _add_block(self, block: Block) -> None:
        self._close_open()
        field = GROWS.get(type(block))
        bare = msgspec.structs.replace(block, meta=None, **({field: ""} if field else {}))
        self._finish(self._parts.start(bare), block)

    def _finish(self, slot: BlockSlot, block: Block) -> None:
        """Finish a block that is complete: its text or data is one delta."""
        field = GROWS.get(type(block))
        if field is not None and (value := getattr(block, field)):
            self._parts.emit(slot, DELTAS[type(block)](value))
        if isinstance(block.meta, GeminiMeta):
            self._parts.emit(slot, SignatureDelta(block.meta.thought_signature))
        self._finish_slot(slot, block)

    def _finish_slot(self, slot: BlockSlot, block: Block | None) -> None:
        if "groundingMetadata" in self.fields and isinstance(slot.block, Text):
            self._parts.assembler.finish(slot, block)
            self._uncited.append(slot)
        else:
            self._parts.finish(slot, block)

    def set_finish_reason(self, raw: str, name: str) -> None:
        """End the candidate. `raw` is the provider's text or number, `name` the finish reason that it means."""
        self.close()
        if self.raw_stop and self.raw_stop != raw:
            place = f"candidates[{self.index}].finishReason"
            self._parts.record_loss("changed-field", place, f"{self.raw_stop} became {raw} within one reply")
        self.raw_stop = raw
        self.stop_reason = protocol.STOP_REASONS.get(name, "error" if name.startswith("MALFORMED_") else "stop")
        if self._call_count and self.stop_reason == "stop":  # Gemini has no finish reason for tool calls
            self.stop_reason = "tool_calls"
        self._parts.out.append(MessageDelta(self.index, self.stop_reason, raw))

    def blocks(self, *, partial: bool) -> tuple[Block, ...]:
        """Return the blocks. `partial`: with the open ones, without their signatures."""
        assembler = self._parts.assembler
        if not partial:
            return tuple(assembler.finalize())
        blocks = assembler.unfinished()
        if self._open_call is not None:
            slot, args = self._open_call
            cut_off = msgspec.structs.replace(
                _join_call(slot, args), meta=None, args_error="the arguments were cut off"
            )
            blocks[slot.index] = cut_off
        return tuple(blocks)

    def close(self) -> None:
        """Close all blocks and add the citations. Texts that are done are not changed."""
        self._close_open()
        grounding = self.fields.get("groundingMetadata", NULL)
        citations: dict[int, tuple[UrlCitation, ...]] = {}
        if bytes(grounding) != self._grounding:
            self._grounding = bytes(grounding)
            blocks = enumerate(self._parts.assembler.unfinished())
            citations = cite_texts(grounding, [(i, block.text) for i, block in blocks if isinstance(block, Text)])
        for slot in self._uncited:
            block_citations = citations.pop(slot.index, ())
            for citation in block_citations:
                self._parts.emit(slot, CitationDelta(citation))
            block = slot.block
            if block_citations:
                block = msgspec.structs.replace(block, citations=block_citations)
            self._parts.finish(slot, block)
        self._uncited.clear()
        if citations:
            self._record_loss("late-citations", f"grounding of finished texts: {', '.join(map(str, citations))}")

    def _close_open(self) -> None:
        """Close the open text and the open call."""
        self._close_call()
        self._after_streamed_call = False
        if self.slot is not None:
            self._finish_slot(self.slot, None)
            self.slot = None

    def _add_call_piece(self, fields: Fields, data: Fields) -> bool:
        """Add `data`, the fields of `functionCall`, to a streamed call; return False if it is a complete call."""
        continues = bytes(data.get("willContinue", NULL)) == b"true"
        if jsonio.text_of(data.get("name")):
            if "partialArgs" not in data and not (continues and self._joins_text):
                return False
            self._close_open()
            name, id = jsonio.text_of(data.pop("name")), jsonio.text_of(data.pop("id", None))
            args = data.pop("args", NULL)
            block = ToolUse(id or self._call_id(self._call_count), name, "", id_generated=not id)
            self._call_count += 1
            self._open_call = (self._parts.start(block), PartialArgs(args if is_object(args) else None))
        elif self._open_call is None:
            # An empty call ends the arguments. It may follow a part that has ended them already.
            return self._after_streamed_call and not data and len(fields) == 1
        assert self._open_call is not None
        slot, partial_args = self._open_call
        data.pop("willContinue", None)
        values = data.pop("partialArgs", NULL)
        if not is_null(values) and (unread := partial_args.add(values)):
            self._record_loss("unread-argument", ", ".join(unread))
        meta = take_signature(fields)
        if meta is not None and slot.block.meta not in (None, meta):
            self._record_loss("second-signature", "a call has two signatures; the first one counts")
        slot.block = msgspec.structs.replace(slot.block, meta=slot.block.meta or meta)
        del fields["functionCall"]
        if data:
            fields["functionCall"] = Raw(jsonio.encode(data))
        merge_fields(slot.extra(), fields.items())
        if not continues:
            self._close_call()
        return True

    def _close_call(self) -> None:
        if self._open_call is not None:
            slot, args = self._open_call
            self._open_call, self._after_streamed_call = None, True
            self._finish(slot, _join_call(slot, args))

    def _record_loss(self, kind: str, detail: str) -> None:
        self._parts.record_loss(kind, f"choices[{self.index}]", detail)


def _join_call(slot: BlockSlot, args: PartialArgs) -> Block:
    text = args.text()
    return msgspec.structs.replace(slot.joined(), args=text, args_missing=not text)


def cite_texts(metadata: Raw, texts: Sequence[tuple[int, str]]) -> dict[int, tuple[UrlCitation, ...]]:
    """Return the citations of each text part by its index. `texts` are (index of the part, text), in order.

    The offsets of a stream count over the joined text, and the part index is often missing, so the text of a segment
    decides where possible.
    """
    grounding = jsonio.parse(metadata)
    if not isinstance(grounding, dict) or not texts:
        return {}
    chunks = _objects(grounding, "groundingChunks", "grounding_chunks")
    citations: dict[int, list[UrlCitation]] = {}
    for support in _objects(grounding, "groundingSupports", "grounding_supports"):
        segment = support.get("segment")
        segment = segment if isinstance(segment, dict) else {}
        indices = support.get("groundingChunkIndices", support.get("grounding_chunk_indices"))
        part_citations = citations.setdefault(_find_part(segment, texts), [])
        for index in indices if isinstance(indices, list) else ():
            chunk = chunks[index] if isinstance(index, int) and 0 <= index < len(chunks) else {}
            uri, title = _read_chunk(chunk)
            if uri is not None:
                start, end = _offset(segment, "start"), _offset(segment, "end")
                part_citations.append(UrlCitation(uri, title, _text(segment), start, end))
    return {part: tuple(part_citations) for part, part_citations in citations.items() if part_citations}


def _objects(fields: Json, *names: str) -> list[Json]:
    """Return the first list of these names. Other values than objects count as empty, so that indices stay valid."""
    items: list[Any] = next((fields[name] for name in names if isinstance(fields.get(name), list)), [])
    return [item if isinstance(item, dict) else {} for item in items]


def _read_chunk(chunk: Json) -> tuple[str | None, str | None]:
    """Return the URI and the title of a chunk."""
    source = next((value for value in chunk.values() if isinstance(value, dict)), {})
    title = source.get("title")
    uri = next((source[name] for name in _URI_FIELDS if isinstance(source.get(name), str)), None)
    return uri, title if isinstance(title, str) else None


def _text(segment: Json) -> str | None:
    text = segment.get("text")
    return text if isinstance(text, str) else None


def _offset(segment: Json, end: str) -> int | None:
    """Return an offset. A start of 0 is left out on the wire."""
    offset = segment.get(f"{end}Index", segment.get(f"{end}_index", 0 if end == "start" and segment else None))
    return offset if isinstance(offset, int) and not isinstance(offset, bool) else None


def _find_part(segment: Json, texts: Sequence[tuple[int, str]]) -> int:
    """Find the part of a segment: where its text is at its offset, else where its text occurs, else by index."""
    part_index = segment.get("partIndex", segment.get("part_index", 0))
    candidates = sorted(texts, key=lambda text: text[0] != part_index)
    segment_text, start = _text(segment), _offset(segment, "start") or 0
    if segment_text:
        encoded = segment_text.encode("utf-8", "surrogatepass")
        for part, text in candidates:
            if text.encode("utf-8", "surrogatepass")[start : start + len(encoded)] == encoded:
                return part
        for part, text in candidates:
            if segment_text in text:
                return part
    return candidates[0][0] if candidates[0][0] == part_index else texts[-1][0]


# --- the reply --------------------------------------------------------------------------------------------------------


class GeminiDecoder(Decoder):
    dialect = protocol.DIALECT

    def __init__(self, target: Target, *, seed: str = "", audio_format: str = "") -> None:
        super().__init__(target, seed=seed, audio_format=audio_format)
        self._candidates: dict[int, CandidateDecoder] = {}
        self._joins_text = True  # the reply streams, so that its text parts are fragments
        self._identity: tuple[str, str] | None = None  # the id and the model in the last chunk
        self._usage = b""  # the JSON text of the usage object that counts
        self._usage_has_total = False
        self._counts: tuple[Usage | None, list[Loss]] | None = None  # the usage as counts, once the reply is complete
        self._fields = MergedFields()
        self._is_blocked = False

    def frame(self, _: bytes, data: bytes) -> None:
        try:
            chunk = _decode_hot_chunk(data)
        except (msgspec.DecodeError, UnicodeDecodeError):
            self._on_chunk(data)
            return
        if (chunk.response_id, chunk.model_version) != self._identity:
            self._set_identity(chunk.response_id, chunk.model_version)
        if chunk.usage_metadata is not protocol.ABSENT:
            self._set_usage(bytes(chunk.usage_metadata))
        if chunk.create_time is not protocol.ABSENT:
            self._fields["createTime"] = chunk.create_time
        for item in chunk.candidates:
            candidate = self._candidates.get(item.index) or self._add_candidate(item.index)
            for part in item.content.parts:
                text, thought = part.text, part.thought
                slot = candidate.slot
                if slot is not None and thought is candidate.thought_flag and not part.thought_signature:
                    if text:
                        slot.pieces.append(text)
                        delta = ThinkingDelta(text) if thought is True else TextDelta(text)
                        self.out.append(ContentDelta(candidate.index, slot.index, delta))
                else:
                    candidate.add_text(_to_block(part))
                    candidate.thought_flag = thought
            if item.finish_reason:
                candidate.set_finish_reason(item.finish_reason, item.finish_reason)

    def body(self, data: bytes) -> None:
        self._joins_text = data.lstrip()[:1] == b"["  # an array has the chunks of a stream
        self.frame(b"", jsonio.check_depth(data))

    @property
    def only_usage_missing(self) -> bool:
        candidates = self._candidates.values()
        return bool(candidates) and all(candidate.raw_stop is not None for candidate in candidates)

    def complete(self) -> bool:
        if not self._has_ended():
            return False
        for candidate in self._candidates.values() if self._candidates else (self._add_candidate(0),):
            candidate.close()
            if self._is_blocked and candidate.raw_stop is None:
                candidate.stop_reason = "content_filter"
                self.out.append(MessageDelta(candidate.index, candidate.stop_reason, None))
        self._counts = protocol.USAGE_TABLE.read(self._usage)
        if self._counts[0] is not None:
            self.out.append(UsageUpdate(self._counts[0]))
        return True

    def response(self, *, partial: bool) -> ChatResponse:
        usage, losses = self._counts or protocol.USAGE_TABLE.read(self._usage)
        choices = []
        for index, candidate in sorted(self._candidates.items()):
            blocks, extra = candidate.blocks(partial=partial), candidate.fields.text()
            stop, raw_stop = candidate.stop_reason, candidate.raw_stop
            message = AssistantMessage(tuple(blocks), stop, raw_stop, self.origin(), extra, partial)
            choices.append(Choice(message, index))
        return self.make_response(choices, usage, jsonio.as_text(self._usage), self._fields.text(), losses)

    def _has_ended(self) -> bool:
        return self._is_blocked or any(candidate.raw_stop is not None for candidate in self._candidates.values())

    def _on_chunk(self, data: bytes) -> None:
        """Read any chunk, or an array of chunks."""
        data = data.strip()
        if data[:1] == b"[" and data != b"[DONE]":
            for item in jsonio.elements(data):
                self._on_chunk(bytes(item))
            return
        members = self.parse_object(data, ended=self._has_ended())
        if members is None:
            return
        fields = protocol.to_camel_case(members, protocol.CHUNK_FIELDS)
        if not is_null(fields.get("error")):
            raise classify_error(data)
        id, model = (jsonio.text_of(fields.pop(name, None)) for name in ("responseId", "modelVersion"))
        self._set_identity(id, model)
        self._set_usage(bytes(fields.pop("usageMetadata", NULL)))
        for item in read_optional_list(fields.pop("candidates", None)):
            self._on_candidate(protocol.to_camel_case(jsonio.members(item), protocol.CANDIDATE_FIELDS))
        feedback = object_or_empty(fields.get("promptFeedback"))
        block_reason = bytes(feedback.get("blockReason", feedback.get("block_reason", NULL)))
        if block_reason != b"null":
            self._is_blocked = block_reason not in (b'""', b"0")
        merge_fields(self._fields, fields.items())

    def _on_candidate(self, fields: Fields) -> None:
        raw_index = fields.pop("index", NULL)
        index = jsonio.parse(raw_index) or 0
        if type(index) is not int:
            raise jsonio.JsonError(f"the index of a candidate is not an integer: {jsonio.as_text(raw_index)[:40]}")
        candidate = self._candidates.get(index) or self._add_candidate(index)
        content = fields.pop("content", NULL)
        members = {} if is_null(content) else jsonio.members(content)
        parts = read_optional_list(members.pop("parts", None))
        if bytes(members.get("role", NULL)) == b'"model"':
            del members["role"]
        if members:
            fields["content"] = Raw(jsonio.encode(members))
        raw_reason = fields.pop("finishReason", NULL)
        merge_fields(candidate.fields, fields.items())  # before the parts: grounding delays their end
        for part in parts:
            candidate.add_part(part)
        reason = jsonio.parse(raw_reason)
        if type(reason) is int:
            numbers = protocol.STOP_NUMBERS_VERTEX if self.target.provider.gemini.vertex else protocol.STOP_NUMBERS
            if reason != 0:  # 0 is FINISH_REASON_UNSPECIFIED: no reason yet
                candidate.set_finish_reason(str(reason), numbers[reason] if 0 < reason < len(numbers) else "")
        elif reason:
            text = jsonio.text_of(raw_reason)
            candidate.set_finish_reason(text, text)

    def _set_identity(self, id: str, model: str) -> None:
        """Set the reply's id and model from the first chunk that has them; a change is a loss."""
        self._identity = (id, model)
        self.record_change("responseId", self.id, id)
        self.record_change("modelVersion", self.model, model)
        self.id, self.model = self.id or id, self.model or model
        self.emit_start()

    def _set_usage(self, usage: bytes) -> None:
        """Set the usage to the last object with a total; some chunks have only the traffic type."""
        if b'"totalTokenCount"' in usage or b'"total_token_count"' in usage:
            self._usage, self._usage_has_total = usage, True
        elif not self._usage_has_total and usage != b"null":
            self._usage = usage

    def _add_candidate(self, index: int) -> CandidateDecoder:
        def call_id(ordinal: int) -> str:
            return new_id(self.seed, self.id, index, ordinal)

        self._candidates[index] = candidate = CandidateDecoder(self.parts(index), call_id, joins_text=self._joins_text)
        return candidate


def _to_block(part: protocol.HotPart) -> Text | Reasoning:
    meta = GeminiMeta(part.thought_signature) if part.thought_signature else None
    if part.thought is True:
        return Reasoning(part.text, meta=meta)
    return Text(part.text, meta=meta, extra=protocol.THOUGHT_FALSE if part.thought is False else "")
