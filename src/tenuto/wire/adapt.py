"""Adapt a transcript to a target.

Tokens are sent only inside their scope (`token_scope`). A turn of the target passes unchanged, other blocks are
translated (`translate`), calls get ids and results (`result_pairs`), and the first and last messages get the roles the
target requires. The original transcript does not change. The location of a `Loss` is always one in the original
transcript.
"""

import bisect
import itertools
from collections.abc import Iterator
from operator import is_, itemgetter
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from tenuto.core.blocks import (
    AnthropicMeta,
    AnthropicRedactedMeta,
    Block,
    ChatMeta,
    GeminiMeta,
    Marker,
    OpenAiMeta,
    Reasoning,
    Refusal,
    ServerToolResult,
    ServerToolUse,
    Text,
    ToolUse,
)
from tenuto.core.loss import Location, Loss
from tenuto.core.messages import AssistantMessage, Message, SystemMessage, ToolResults, UserMessage
from tenuto.core.provider import Target
from tenuto.wire.codec import codec_for
from tenuto.wire.result_pairs import CallIds, CallRef, ResultPairs, remove_tokens
from tenuto.wire.token_scope import issuer_check
from tenuto.wire.translate import BlockTranslator

_BEGUN = "(The conversation has begun before this.)"
_BRIDGE = "(The tools have answered.)"
_NOTE = "Notes of the assistant from earlier in this conversation:\n{}"


class MessageSource(msgspec.Struct, frozen=True):
    message: int
    """Its index in the original transcript; the source of an inserted message is the one it was inserted for."""
    blocks: tuple[Location | None, ...] | None = None
    """The original locations of its blocks, None for an added block. Without it, no block has moved."""


_Outgoing: TypeAlias = "tuple[MessageSource, Message]"


class Adapted(msgspec.Struct, frozen=True):
    """Messages that the target accepts, and the losses."""

    messages: tuple[Message, ...]
    losses: tuple[Loss, ...] = ()
    sources: tuple[MessageSource, ...] = ()  # the source of each message; empty if the messages are the original ones

    def original(self, location: Location, inserted: int = 0) -> Location:
        """Return the location in the original transcript; the first `inserted` messages have none."""
        if location.message is None or not (self.sources or inserted):
            return location
        index, block = location.message - inserted, location.block
        if not 0 <= index < len(self.messages):
            return Location(path=location.path)
        source = self.sources[index] if self.sources else MessageSource(index)
        if block is None or source.blocks is None:
            return Location(source.message, block, location.path)
        origin = source.blocks[block] if block < len(source.blocks) else None
        return Location(source.message) if origin is None else Location(origin.message, origin.block, location.path)


def adapt(
    messages: tuple[Message, ...],
    target: Target,
    *,
    notes: bool = False,
    inline: bool = False,
    without: frozenset[tuple[int, int]] = frozenset(),
) -> Adapted:
    """Make `messages` fit for `target`. Total: any transcript, any target.

    Foreign reasoning is left out; with `notes` it is sent in the next user message, if one follows; with `inline` it is
    sent as assistant text `[Reasoning: ...]`. `without` are blocks (message, block) to omit although the target issued
    them, with the blocks that depend on them; of a text or a call, only the signature or the id is omitted.
    """
    adapter = _Adapter(messages, target, without)
    outgoing = list(adapter.adapt_messages(notes=notes, inline=inline))
    order = codec_for(target.dialect).replay_rules.turn_order(target)
    if order.user_first:
        _begin(outgoing, adapter.losses)
    if order.alternates:
        _insert_bridge(outgoing, adapter.losses)
    if order.user_last or target.traits.prefill == "rejected":
        _end(outgoing, adapter.losses)
    losses = tuple(adapter.losses)
    sources, adapted = zip(*outgoing, strict=True) if outgoing else ((), ())
    return Adapted(messages, losses) if _same(adapted, messages) else Adapted(adapted, losses, sources)


def _same(new: tuple[object, ...], old: tuple[object, ...]) -> bool:
    """Return whether these are the same objects, not just equal ones."""
    return len(new) == len(old) and all(map(is_, new, old))


class _Turn(msgspec.Struct):
    """A turn to send: its blocks with their original indexes."""

    message: AssistantMessage
    blocks: list[tuple[int, Block]]
    is_own: bool  # whether the target issued it


class _Adapter:
    def __init__(self, messages: tuple[Message, ...], target: Target, without: frozenset[tuple[int, int]]) -> None:
        self.losses: list[Loss] = []
        self._messages = messages
        self._target = target
        self._is_issuer = issuer_check(target)
        self._omissions: dict[int, set[int]] = {}
        for at, index in without:
            self._omissions.setdefault(at, set()).add(index)
        self._turns: dict[int, _Turn] = {}
        self._calls: list[CallRef] = []
        self._last_user = -1
        for at, message in enumerate(messages):
            if isinstance(message, AssistantMessage):
                self._add_turn(message, at)
            elif isinstance(message, UserMessage):
                self._last_user = at
        self._assign_call_ids()
        self._results = ResultPairs(messages, self._calls, self.losses)

    def adapt_messages(self, *, notes: bool, inline: bool) -> Iterator[_Outgoing]:
        translator = BlockTranslator(self._target, self.losses, inline=inline)
        reasoning: list[str] = []
        for at, message in enumerate(self._messages):
            if isinstance(message, AssistantMessage):
                if at in self._turns:
                    translator.notes = reasoning if notes and at < self._last_user else None
                    adapted = self._adapt_turn(at, translator)
                    indexes = [index for index, _ in self._turns[at].blocks]
                    is_moved = indexes != list(range(len(indexes)))
                    moved = tuple(Location(at, index) for index in indexes) if is_moved else None
                    yield MessageSource(at, moved), adapted
                    if results := self._results.results_after(at):
                        yield MessageSource(at, results[0]), results[1]
            elif isinstance(message, ToolResults):
                if results := self._results.late_results(at):
                    yield MessageSource(at, results[0]), results[1]
            elif isinstance(message, UserMessage):
                user = message
                for index, part in enumerate(message.parts):
                    if part.meta:
                        self._lose("foreign-token", Location(at, index), "a token in a user message")
                        user = replace(message, content=remove_tokens(message.parts))
                if reasoning:
                    content = (Text(_NOTE.format("\n\n".join(reasoning))), *user.parts)
                    locations = (None, *(Location(at, index) for index in range(len(user.parts))))
                    yield MessageSource(at, locations), replace(user, content=content)
                    reasoning.clear()
                else:
                    yield MessageSource(at), user
            else:
                yield MessageSource(at), message

    def _lose(self, kind: str, location: Location, detail: str, remedy: str = "") -> None:
        self.losses.append(Loss(kind, location, detail, remedy))

    def _add_turn(self, message: AssistantMessage, at: int) -> None:
        is_own = message.origin is not None and self._is_issuer(message.origin)
        blocks = list(enumerate(message.blocks))
        drop_kind = ""
        if message.incomplete:
            self._lose("incomplete-turn", Location(at), f"a reply that was cut off: {str(message)[:80]}")
            drop_kind, blocks = "incomplete-turn", []
        elif at in self._omissions:
            drop_kind, blocks = "left-out", self._omit_blocks(message, at, is_own=is_own)
        indexes = {index for index, _ in blocks} if drop_kind else ()
        for index, block in enumerate(message.blocks):
            if isinstance(block, ToolUse):
                dropped_by = "" if not drop_kind or index in indexes else drop_kind
                self._calls.append(CallRef(at, index, block, dropped_by=dropped_by))
        if not message.incomplete:
            self._turns[at] = _Turn(message, blocks, is_own)

    def _omit_blocks(self, message: AssistantMessage, at: int, *, is_own: bool) -> list[tuple[int, Block]]:
        """Return the blocks without the omitted ones and those that depend on them.

        Of an omitted block with content, only the signature or id is removed. The parts of a message share its id. In a
        turn with gaps, ids are removed, because they require the omitted blocks.
        """
        omissions = self._omissions[at]
        gaps = {index for index in omissions if index in range(len(message.blocks))}
        gaps = {index for index in gaps if not is_signed_part(message.blocks[index])}
        dependents = set(_dependent_blocks(message.blocks, gaps)) - gaps if is_own else set[int]()
        gaps |= dependents
        for index in sorted(gaps):
            reason = "it depends on a block that is omitted" if index in dependents else "the request omits it"
            self._lose("left-out", Location(at, index), type(message.blocks[index]).__name__, reason)
        blocks = [(index, block) for index, block in enumerate(message.blocks) if index not in gaps]
        ids = {block.meta.id for index, block in blocks if index in omissions and isinstance(block.meta, OpenAiMeta)}
        for position, (index, block) in enumerate(blocks):
            location = Location(at, index)
            if index in omissions:
                meta = replace(block.meta, id="") if isinstance(block.meta, OpenAiMeta) else None
                self._lose("left-out", location, "its id" if meta else "its signature", "the request omits it")
                blocks[position] = index, replace(block, meta=meta)
            elif isinstance(block.meta, OpenAiMeta) and block.meta.id and ((is_own and gaps) or block.meta.id in ids):
                self._lose("item-id", location, block.meta.id, "the id requires the omitted blocks")
                blocks[position] = index, replace(block, meta=replace(block.meta, id=""))
        return blocks

    def _assign_call_ids(self) -> None:
        ids = CallIds(self._target)
        for call in self._calls:
            if call.dropped_by:
                continue
            turn = self._turns[call.turn]
            call.name = ids.of(call.block.id, call.turn, own=turn.is_own)
            if call.name != call.block.id:
                location = Location(call.turn, call.place)
                self._lose("call-id-mapped", location, f"{call.block.id[:80]} became {call.name}")
                position = bisect.bisect_left(turn.blocks, call.place, key=itemgetter(0))
                turn.blocks[position] = call.place, replace(turn.blocks[position][1], id=call.name)

    def _adapt_turn(self, at: int, translator: BlockTranslator) -> AssistantMessage:
        turn = self._turns[at]
        message = turn.message
        has_origin = message.origin is not None
        if not turn.is_own:
            turn.blocks = translator.blocks(turn.blocks, at, by_hand=not has_origin)
            if codec_for(self._target.dialect).replay_rules.calls_last:
                turn.blocks = self._calls_last(turn.blocks, at)
        blocks = tuple(block for _, block in turn.blocks)
        if has_origin and not turn.is_own:
            translator.fields(message.extra, Location(at))
            return replace(message, blocks=blocks, extra="", origin=None, raw_stop_reason=None)
        if not _same(blocks, message.blocks):
            message = replace(message, blocks=blocks)
        if not turn.is_own and message.paused and not _ends_at_server_tool(blocks):
            return replace(message, raw_stop_reason=None)
        return message

    def _calls_last(self, blocks: list[tuple[int, Block]], at: int) -> list[tuple[int, Block]]:
        """Move the text that follows a call before the calls of its turn.

        Anthropic has refused text between a call and its result. Signed thinking blocks and server tools keep their
        positions: a turn that has one after its first call stays as it is. Unsigned reasoning is not sent.
        """
        first = next((n for n, (_, block) in enumerate(blocks) if isinstance(block, ToolUse)), len(blocks))
        tail = blocks[first:]
        calls = [entry for entry in tail if isinstance(entry[1], ToolUse)]
        texts = [entry for entry in tail if isinstance(entry[1], Text | Refusal)]
        unsigned = [entry for entry in tail if isinstance(entry[1], Reasoning) and entry[1].meta is None]
        has_text = any(isinstance(block, Text | Refusal) and block.text for _, block in texts)
        if not has_text or len(calls) + len(texts) + len(unsigned) < len(tail):
            return blocks
        self._lose("calls-last", Location(at), f"{len(calls)} calls moved after the text of their turn")
        return [*blocks[:first], *unsigned, *texts, *calls]


def is_signed_part(block: Block) -> bool:
    """Return whether a block has content besides its signature or id: then only that is omitted."""
    if isinstance(block.meta, OpenAiMeta):
        return isinstance(block, Text | Refusal | ToolUse) and bool(block.meta.id)
    return isinstance(block.meta, GeminiMeta) and not isinstance(block, Reasoning)


def _dependent_blocks(blocks: tuple[Block, ...], gaps: set[int]) -> Iterator[int]:
    """Find the blocks that the issuer would reject without these blocks: reasoning at the end of a turn, signed
    thinking after a removed one, the other details of a reply in the chat dialect, the other half of a server tool
    call.
    """
    if not gaps:
        return
    last = max((i for i, block in enumerate(blocks) if i not in gaps and not isinstance(block, Reasoning)), default=-1)
    first = min(gaps)
    lost_details = any(_has_details(blocks[index]) for index in gaps)
    ids = {_server_tool_id(blocks[index]) for index in gaps} - {None}
    for index, block in enumerate(blocks):
        if isinstance(block, Reasoning):
            is_anthropic = isinstance(block.meta, AnthropicMeta | AnthropicRedactedMeta)
            if index > last or (is_anthropic and index > first) or (lost_details and _has_details(block)):
                yield index
        elif _server_tool_id(block) in ids:
            yield index


def _server_tool_id(block: Block) -> str | None:
    if isinstance(block, ServerToolResult):
        return block.tool_use_id
    return block.id if isinstance(block, ServerToolUse) else None


def _has_details(block: Block) -> bool:
    return isinstance(block.meta, ChatMeta) and bool(block.meta.details)


def _begin(outgoing: list[_Outgoing], losses: list[Loss]) -> None:
    first = next((at for at, (_, message) in enumerate(outgoing) if not isinstance(message, SystemMessage)), None)
    if first is None:
        return
    source, message = outgoing[first]
    start = message.blocks[0] if isinstance(message, AssistantMessage) and message.blocks else None
    is_summary = isinstance(start, Marker) and start.kind == "compaction"  # of the earlier messages
    if isinstance(message, AssistantMessage) and not is_summary:
        losses.append(Loss("first-turn", Location(source.message), f"the user begins here: {_BEGUN}"))
        outgoing.insert(first, (MessageSource(source.message, (None,)), UserMessage(_BEGUN)))


def _insert_bridge(outgoing: list[_Outgoing], losses: list[Loss]) -> None:
    turns = [at for at, (_, message) in enumerate(outgoing) if not _is_empty(message)]
    for before, at in reversed(list(itertools.pairwise(turns))):
        if isinstance(outgoing[before][1], ToolResults) and isinstance(outgoing[at][1], UserMessage):
            index = outgoing[at][0].message
            losses.append(Loss("bridged-turn", Location(index), f"the assistant speaks before it: {_BRIDGE}"))
            outgoing.insert(at, (MessageSource(index, (None,)), AssistantMessage((Text(_BRIDGE),))))


def _is_empty(message: Message) -> bool:
    """Return whether a message is not a turn: instructions, which go to the top, and replies without content."""
    if not isinstance(message, AssistantMessage):
        return isinstance(message, SystemMessage)
    return all(isinstance(b, Reasoning) or (isinstance(b, Text | Refusal) and not b.text) for b in message.blocks)


def _end(outgoing: list[_Outgoing], losses: list[Loss]) -> None:
    at = len(outgoing) - 1
    while at >= 0 and isinstance(outgoing[at][1], SystemMessage | AssistantMessage):
        source, message = outgoing[at]
        if isinstance(message, AssistantMessage):
            if message.paused or _ends_at_server_tool(message.blocks):
                return  # the provider continues a turn that stopped in the middle
            detail, remedy = str(message)[:200], "end with a user's message"
            losses.append(Loss("prefill-refused", Location(source.message), detail, remedy))
            del outgoing[at]
        at -= 1


def _ends_at_server_tool(blocks: tuple[Block, ...]) -> bool:
    return isinstance(blocks[-1] if blocks else None, ServerToolUse | ServerToolResult)
