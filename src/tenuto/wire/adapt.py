"""Adapt a transcript to a target.

A token is sent only inside its scope (`token_scope`). A turn that the target issued passes unchanged; the blocks of
other turns are translated (`translate`). For every target, call ids that it would reject are rewritten (`call_ids`),
results directly follow their calls (`pairing`), incomplete turns are dropped, and the first and last messages get the
roles the target requires.

The original transcript does not change, so the first provider later gets everything again. If nothing has to be
adapted, the same message objects are returned. The place of a `Loss` is always one in the original transcript.
"""

from __future__ import annotations

import bisect
import itertools
import re
from collections.abc import Collection, Iterator
from operator import is_, itemgetter

import msgspec
from msgspec.structs import replace

from tenuto.core.blocks import (
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
from tenuto.core.loss import Loss
from tenuto.core.messages import AssistantMessage, Message, SystemMessage, ToolResults, UserMessage
from tenuto.core.provider import Target
from tenuto.wire.call_ids import CallIds
from tenuto.wire.pairing import CallRef, ResultPairs
from tenuto.wire.registry import codec_for
from tenuto.wire.token_scope import IssuerCheck
from tenuto.wire.translate import BlockTranslator

_BEGUN = "(The conversation has begun before this.)"
_BRIDGE = "(The tools have answered.)"
_NOTE = "Notes of the assistant from earlier in this conversation:\n{}"
_PLACE = r"messages\[(\d+)\](?:\.blocks\[(\d+)\])?"  # compiled when there is a loss

_BLOCK = itemgetter(1)  # of a place and its block

Place = tuple[int, int]


class Adapted(msgspec.Struct, frozen=True):
    """Messages that the target accepts, and the losses."""

    messages: tuple[Message, ...]
    losses: tuple[Loss, ...] = ()
    places: tuple[int, ...] = ()
    """The original index of each message; an inserted message has the index of the one it was inserted for."""
    blocks: dict[int, tuple[int, ...]] = {}
    """The original indexes of the blocks of a turn, if they have moved."""

    def given(self, place: str, before: int = 0) -> str:
        """Return the place in the original transcript of a place in these messages.

        `before` messages were inserted in front of them: their original place is empty.
        """
        match = re.match(_PLACE, place)
        if match is None or not (self.places or before):
            return place
        now = int(match[1]) - before
        if not 0 <= now < len(self.messages):
            return ""
        at, moved, rest = self.places[now] if self.places else now, self.blocks.get(now), place[match.end() :]
        if match[2] is None:
            return f"messages[{at}]{rest}"
        block = int(match[2])
        return f"messages[{at}].blocks[{moved[block] if moved is not None and block < len(moved) else block}]{rest}"


def adapt(
    messages: tuple[Message, ...],
    target: Target,
    *,
    notes: bool = False,
    inline: bool = False,
    without: frozenset[Place] = frozenset(),
) -> Adapted:
    """Make `messages` fit for `target`. Total: any transcript, any target.

    Foreign reasoning is left out; with `notes` it is sent in the next user message, if one follows; with `inline` it is
    sent as assistant text `[Reasoning: ...]`. `without` are blocks (message, place in it) that stay out although the target issued them, and with them goes what cannot stand
    without them; of a text or a call that says something by itself, it is only the signature or the id.
    """
    adapting = _Adapter(messages, target, without)
    said = _fix_first_and_last(list(adapting.through(notes=notes, inline=inline)), target, adapting.losses)
    losses = tuple(adapting.losses)
    places, adapted = zip(*said, strict=True) if said else ((), ())
    if _same(adapted, messages):
        return Adapted(messages, losses)
    return Adapted(adapted, losses, places, dict(adapting.moved(said)))


def _same(new: tuple[object, ...], old: tuple[object, ...]) -> bool:
    """Return whether these are the same objects, not just equal ones."""
    return len(new) == len(old) and all(map(is_, new, old))


# --- turns ------------------------------------------------------------------------------------------------------------


class _Turn(msgspec.Struct):
    """A turn to send: its blocks with their original indexes."""

    message: AssistantMessage
    blocks: list[tuple[int, Block]]
    own: bool

    def changed(self, blocks: tuple[Block, ...]) -> AssistantMessage:
        """Return the message with these blocks; the same object if it has them already."""
        return self.message if _same(blocks, self.message.blocks) else replace(self.message, blocks=blocks)


class _Adapter:
    """Adapt one transcript to one target."""

    def __init__(self, messages: tuple[Message, ...], target: Target, without: frozenset[Place]) -> None:
        self.losses: list[Loss] = []
        self._messages = messages
        self._target = target
        self._issued = IssuerCheck(target)
        self._without: dict[int, set[int]] = {}
        for at, place in without:
            self._without.setdefault(at, set()).add(place)
        self._turns: dict[int, _Turn] = {}
        self._calls: list[CallRef] = []
        self._last_user = -1
        for at, message in enumerate(messages):
            if isinstance(message, AssistantMessage):
                self._take(message, at)
            elif isinstance(message, UserMessage):
                self._last_user = at
        self._name_calls()
        self._answers = ResultPairs(messages, self._calls, self.losses)

    def through(self, *, notes: bool, inline: bool) -> Iterator[tuple[int, Message]]:
        """Yield the messages to send, with their original indexes."""
        blocks = BlockTranslator(self._target, self.losses, inline=inline)
        noted: list[str] = []
        for at, message in enumerate(self._messages):
            if isinstance(message, AssistantMessage):
                if at in self._turns:
                    blocks.notes = noted if notes and at < self._last_user else None
                    yield at, self._adapt_turn(at, blocks)
                    if answers := self._answers.results_after(at):
                        yield at, answers
            elif isinstance(message, ToolResults):
                if answers := self._answers.late_results(at):
                    yield at, answers
            elif isinstance(message, UserMessage):
                yield at, self._prepend_notes(message, at, noted)
                noted.clear()
            else:
                yield at, message

    def moved(self, said: list[tuple[int, Message]]) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Yield the index of each turn whose blocks have moved, and the original indexes of the blocks."""
        for now, (at, message) in enumerate(said):
            turn = self._turns.get(at)
            if isinstance(message, AssistantMessage) and turn is not None and len(turn.blocks) == len(message.blocks):
                places = tuple(place for place, _ in turn.blocks)
                if places != tuple(range(len(places))):
                    yield now, places

    def _lose(self, kind: str, place: str, detail: str, remedy: str = "") -> None:
        self.losses.append(Loss(kind, place, detail, remedy))

    # --- which blocks are sent ----------------------------------------------------------------------------------------------

    def _take(self, message: AssistantMessage, at: int) -> None:
        own = message.origin is not None and self._issued[message.origin]
        kept: Collection[int] = range(len(message.blocks))
        if message.incomplete:
            self._lose("incomplete-turn", f"messages[{at}]", f"a reply that was cut off: {str(message)[:80]}")
            kept = ()
        elif at in self._without:
            kept = self._sent_blocks(message, at, own=own)
            blocks = [(place, block) for place, block in enumerate(message.blocks) if place in kept]
            self._turns[at] = _Turn(message, self._remove_tokens(blocks, at, own=own), own)
        else:
            self._turns[at] = _Turn(message, list(enumerate(message.blocks)), own)
        for place, block in enumerate(message.blocks):
            if isinstance(block, ToolUse):
                gone = "" if place in kept else "incomplete-turn" if message.incomplete else "left-out"
                self._calls.append(CallRef(at, place, block, dropped_by=gone))

    def _sent_blocks(self, message: AssistantMessage, at: int, *, own: bool) -> set[int]:
        """Return the indexes of the blocks to send: all but the omitted ones and those that depend on them."""
        named = {place for place in self._without[at] if 0 <= place < len(message.blocks)}
        out = {place for place in named if not is_signed_part(message.blocks[place])}
        hanging = set(_open_calls(message.blocks, out)) - out if own else set[int]()
        for place in sorted(out | hanging):
            kind = type(message.blocks[place]).__name__
            why = "it depends on a block that is omitted" if place in hanging else "the request omits it"
            self._lose("left-out", f"messages[{at}].blocks[{place}]", kind, why)
        return set(range(len(message.blocks))) - out - hanging

    def _remove_tokens(self, blocks: list[tuple[int, Block]], at: int, *, own: bool) -> list[tuple[int, Block]]:
        """Remove signatures and ids from blocks that stay: omitted ones, and the ids of a turn with gaps.

        The parts of a message share its id.
        """
        gaps = own and len(blocks) < len(self._messages_blocks(at))
        out = self._without[at]
        ids = {block.meta.id for place, block in blocks if place in out and isinstance(block.meta, OpenAiMeta)}
        for n, (place, block) in enumerate(blocks):
            where = f"messages[{at}].blocks[{place}]"
            if place in out:
                bare = replace(block.meta, id="") if isinstance(block.meta, OpenAiMeta) else None
                self._lose("left-out", where, "its id" if bare else "its signature", "the request omits it")
                blocks[n] = place, replace(block, meta=bare)
            elif isinstance(block.meta, OpenAiMeta) and block.meta.id and (gaps or block.meta.id in ids):
                self._lose("item-id", where, block.meta.id, "the id requires the omitted blocks")
                blocks[n] = place, replace(block, meta=replace(block.meta, id=""))
        return blocks

    def _messages_blocks(self, at: int) -> tuple[Block, ...]:
        message = self._messages[at]
        assert isinstance(message, AssistantMessage)
        return message.blocks

    # --- how they are sent --------------------------------------------------------------------------------------------------

    def _name_calls(self) -> None:
        ids = CallIds(self._target)
        for call in self._calls:
            if call.dropped_by:
                continue
            call.name = ids.of(call.block.id, call.turn, own=self._turns[call.turn].own)
            if call.name != call.block.id:
                place = f"messages[{call.turn}].blocks[{call.place}]"
                self._lose("call-id-mapped", place, f"{call.block.id[:80]} became {call.name}")
                blocks = self._turns[call.turn].blocks
                at = bisect.bisect_left(blocks, call.place, key=lambda held: held[0])
                blocks[at] = call.place, replace(blocks[at][1], id=call.name)

    def _adapt_turn(self, at: int, blocks: BlockTranslator) -> AssistantMessage:
        turn = self._turns[at]
        message = turn.message
        if turn.own:
            return turn.changed(tuple(map(_BLOCK, turn.blocks)))
        by_hand = message.origin is None
        turn.blocks = blocks.blocks(turn.blocks, at, by_hand=by_hand)
        if codec_for(self._target.dialect).calls_last:
            turn.blocks = self._calls_last(turn.blocks, at)
        made = tuple(map(_BLOCK, turn.blocks))
        if by_hand:
            stopped = message.paused and not _ends_at_server_tool(made)
            return replace(turn.changed(made), raw_stop_reason=None) if stopped else turn.changed(made)
        blocks.fields(message.extra, f"messages[{at}]")
        return replace(message, blocks=made, extra="", origin=None, raw_stop_reason=None)

    def _calls_last(self, blocks: list[tuple[int, Block]], at: int) -> list[tuple[int, Block]]:
        """Move the text that follows a call before the calls of its turn.

        Anthropic has refused text between a call and its result. Thinking blocks and server tools keep their
        positions: a turn that has one after its first call stays as it is.
        """
        first = next((n for n, (_, block) in enumerate(blocks) if isinstance(block, ToolUse)), len(blocks))
        tail = blocks[first:]
        calls = [held for held in tail if isinstance(held[1], ToolUse)]
        texts = [held for held in tail if isinstance(held[1], Text | Refusal)]
        said = any(isinstance(block, Text | Refusal) and block.text for _, block in texts)
        if not said or len(calls) + len(texts) < len(tail):
            return blocks
        self._lose("calls-last", f"messages[{at}]", f"{len(calls)} calls moved after the text of their turn")
        return [*blocks[:first], *texts, *calls]

    def _prepend_notes(self, message: UserMessage, at: int, notes: list[str]) -> UserMessage:
        """Put notes in front of the content of a user message, and remove tokens from it."""
        if not isinstance(message.content, str):
            signed = [place for place, part in enumerate(message.content) if part.meta is not None]
            for place in signed:
                self._lose("foreign-token", f"messages[{at}].content[{place}]", "a token in a user message")
            if signed:
                parts = (replace(part, meta=None, extra="") if part.meta else part for part in message.content)
                message = replace(message, content=tuple(parts))
        if not notes:
            return message
        return replace(message, content=(Text(_NOTE.format("\n\n".join(notes))), *message.parts))


def is_signed_part(block: Block) -> bool:
    """Return whether a block has content besides its signature or id: then only that is omitted."""
    if isinstance(block.meta, OpenAiMeta):
        return isinstance(block, Text | Refusal | ToolUse) and bool(block.meta.id)
    return isinstance(block.meta, GeminiMeta) and not isinstance(block, Reasoning)


def _open_calls(blocks: tuple[Block, ...], out: set[int]) -> Iterator[int]:
    """Find the blocks that the issuer would reject without the blocks at these indexes.

    Reasoning must be followed by another block; in the Messages dialect, removing one signed thinking block invalidates
    the later ones; the details of a reply in the chat dialect, and a server tool call and its result, belong together.
    """
    if not out:
        return
    first = min(out)
    last = max((p for p, b in enumerate(blocks) if p not in out and not isinstance(b, Reasoning)), default=-1)
    details = any(_has_details(blocks[place]) for place in out)
    ids = {block.id for place in out if isinstance(block := blocks[place], ServerToolUse)}
    ids |= {block.tool_use_id for place in out if isinstance(block := blocks[place], ServerToolResult)}
    for place, block in enumerate(blocks):
        if isinstance(block, Reasoning):
            token = type(block.meta).__name__.startswith("Anthropic")
            if place > last or (token and place > first) or (details and _has_details(block)):
                yield place
        elif (isinstance(block, ServerToolUse) and block.id in ids) or (
            isinstance(block, ServerToolResult) and block.tool_use_id in ids
        ):
            yield place


def _has_details(block: Block) -> bool:
    return isinstance(block.meta, ChatMeta) and bool(block.meta.details)


# --- the first and the last message ------------------------------------------------------------------------------------


def _fix_first_and_last(
    said: list[tuple[int, Message]], target: Target, losses: list[Loss]
) -> list[tuple[int, Message]]:
    """Make the user begin and end, and the assistant reply between tool results and user, if the target requires it."""
    order = codec_for(target.dialect).turn_order(target)
    if order.user_first:
        _begin(said, losses)
    if order.alternates:
        _insert_bridge(said, losses)
    if order.user_last or target.traits.prefill == "rejected":
        _end(said, losses)
    return said


def _begin(said: list[tuple[int, Message]], losses: list[Loss]) -> None:
    first = next((at for at, (_, message) in enumerate(said) if not isinstance(message, SystemMessage)), -1)
    place, message = said[first] if first >= 0 else (-1, None)
    if not isinstance(message, AssistantMessage) or _is_summary(message):
        return
    losses.append(Loss("first-turn", f"messages[{place}]", f"the user begins here: {_BEGUN}"))
    said.insert(first, (place, UserMessage(_BEGUN)))


def _is_summary(message: AssistantMessage) -> bool:
    """Return whether a turn begins with a summary of the earlier messages."""
    return isinstance(first := next(iter(message.blocks), None), Marker) and first.kind == "compaction"


def _insert_bridge(said: list[tuple[int, Message]], losses: list[Loss]) -> None:
    spoken = [at for at, (_, message) in enumerate(said) if not _is_empty(message)]
    for before, at in reversed(list(itertools.pairwise(spoken))):
        if isinstance(said[before][1], ToolResults) and isinstance(said[at][1], UserMessage):
            losses.append(
                Loss("bridged-turn", f"messages[{said[at][0]}]", f"the assistant speaks before it: {_BRIDGE}")
            )
            said.insert(at, (said[at][0], AssistantMessage((Text(_BRIDGE),))))


def _is_empty(message: Message) -> bool:
    """Return whether a message is not a turn: instructions, which go to the top, and replies without content."""
    if not isinstance(message, AssistantMessage):
        return isinstance(message, SystemMessage)
    return all(isinstance(b, Reasoning) or (isinstance(b, Text | Refusal) and not b.text) for b in message.blocks)


def _end(said: list[tuple[int, Message]], losses: list[Loss]) -> None:
    at = len(said) - 1
    while at >= 0 and isinstance(said[at][1], SystemMessage | AssistantMessage):
        place, message = said[at]
        if isinstance(message, AssistantMessage):
            if _is_continued(message):
                return
            losses.append(
                Loss("prefill-refused", f"messages[{place}]", str(message)[:200], "end with a user's message")
            )
            del said[at]
        at -= 1


def _is_continued(message: AssistantMessage) -> bool:
    """Return whether a turn stopped in the middle, and the provider continues it."""
    return message.paused or _ends_at_server_tool(message.blocks)


def _ends_at_server_tool(blocks: tuple[Block, ...]) -> bool:
    return isinstance(blocks[-1] if blocks else None, ServerToolUse | ServerToolResult)
