"""What becomes of each block of a transcript in a request.

The blocks are looked for in the body as it goes out, and what is not there must be in the losses. A block that is in
neither is `dropped` with the rule `unaccounted`: a silent loss, which is a fault of ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import chain
from typing import Any

from tenuto.audit.fates_aligning import align
from tenuto.audit.fates_rules import FATE_OF, UNACCOUNTED
from tenuto.audit.fates_slots import Slot, slots_of
from tenuto.audit.fates_units import Unit, units_of
from tenuto.audit.report import BlockFate, Fate
from tenuto.core.blocks import Opaque, Reasoning, ToolUse
from tenuto.core.loss import Location, Loss
from tenuto.core.messages import AssistantMessage, Message, ToolResult
from tenuto.core.provider import Dialect
from tenuto.core.rules import rule as book_rule

__all__ = ["FATE_OF", "Places", "fates", "place_at"]

_STEP = re.compile(r"[^./\[\]]+")
_WORST: tuple[Fate, ...] = ("kept", "translated", "stripped", "dropped")
_SOME = frozenset(("reasoning-unfinished", "reasoning-withheld", "unfinished-call"))
"""Reasons for which some of a message's blocks stay out, and that do not say which."""
_CONTENT = frozenset(("content-refused", "unsupported-block", "unsupported-content", "foreign-block"))
"""Reasons that say in words what kind of thing stays out."""


def fates(
    messages: tuple[Message, ...], body: dict[str, Any], dialect: Dialect, losses: tuple[Loss, ...]
) -> tuple[BlockFate, ...]:
    """Say of each block what becomes of it: assistants' blocks, what is said and shown, tools' results, instructions.

    `body` is the parsed body that `tenuto.wire.write.write_request` made of the messages, `losses` are those it gave. Where
    texts are joined, all have the pointer of the whole. The work grows with the size of the body, and no faster.
    """
    units = list(units_of(messages, dialect))
    slots = slots_of(body, dialect, whole=any(isinstance(unit.held, Opaque) for unit in units))
    books = _Books(messages, units, losses)
    found = align(units, slots, books.doomed(), books.changed())
    if not losses and None not in found:  # as it is with most requests
        return tuple([_kept(unit, slots[at]) for unit, at in zip(units, found, strict=True) if at is not None])
    places = [slots[at] if at is not None else None for at in found]
    books.settle(places)
    return tuple(books.fate(at, slot) for at, slot in enumerate(places))


def place_at(fates: Iterable[BlockFate], pointer: str) -> str:
    """Return the place in the transcript of what stands at a pointer into the body; empty if nothing of it does.

    A pointer into a block finds the block, one that leads to several blocks the first of them. A path as errors spell
    it is taken, too: `messages.3.content.0`, `input[3].id`.
    """
    return Places(fates).at(pointer)


class Places:
    """The places in the transcript of what stands in a body, for whoever asks for many: see `place_at`."""

    def __init__(self, fates: Iterable[BlockFate]) -> None:
        self._fates = tuple(fates)
        self._own: dict[str, str] = {}
        self._above: dict[str, str] = {}
        for fate in self._fates:
            self._own.setdefault(fate.pointer, fate.place)
        self._own.pop("", None)  # what does not go out stands nowhere

    def at(self, pointer: str) -> str:
        """Return the place of what stands at a pointer; empty if nothing of the transcript does."""
        steps = pointer if pointer.startswith("/") else "".join(f"/{step}" for step in _STEP.findall(pointer))
        above = steps
        while above and above not in self._own:
            above = above.rpartition("/")[0]
        return self._own[above] if above else self._below(steps)

    def _below(self, pointer: str) -> str:
        """Return the place of the first block that stands in what a pointer leads to."""
        for fate in self._fates if not self._above else ():
            above = fate.pointer
            while above not in self._above:  # what holds an earlier block has its place, and so has all that holds that
                self._above[above] = fate.place
                above = above.rpartition("/")[0]
        return self._above.get(pointer, "")


class _Books:
    """The losses, by the blocks and messages that they are about."""

    def __init__(self, messages: tuple[Message, ...], units: Sequence[Unit], losses: tuple[Loss, ...]) -> None:
        self._messages = messages
        self._units = units
        self._exact: dict[int, list[Loss]] = {}
        self._parts: dict[int, list[Loss]] = {}
        self._whole: dict[int, list[Loss]] = {}
        self._spare: list[Loss] = []
        self._reasons: dict[int, Loss] = {}
        for loss in losses:
            self._enter(loss)

    @cached_property
    def _numbers(self) -> dict[tuple[int, int], int]:
        return {(unit.message, unit.at): at for at, unit in enumerate(self._units)}

    @cached_property
    def _firsts(self) -> dict[int, int]:
        return {unit.message: at for at, unit in enumerate(self._units) if unit.at == 0}

    @cached_property
    def _runs(self) -> list[int]:
        return _runs(self._messages)

    def _enter(self, loss: Loss) -> None:
        location = loss.location
        if location.message is None:
            return
        message, rest = location.message, location.path
        number = self._numbers.get((message, location.block)) if location.block is not None else None
        if location.block is not None and number is None:
            self._spare.append(loss)
        elif number is not None:
            within = bool(rest) or (loss.kind in _CONTENT and isinstance(self._units[number].held, ToolResult))
            (self._parts if within else self._exact).setdefault(number, []).append(loss)
        elif rest:
            self._parts.setdefault(self._field_of(message, rest, loss), []).append(loss)
        else:
            self._whole.setdefault(message, []).append(loss)

    def _field_of(self, message: int, field: str, loss: Loss) -> int:
        """Return the first block of a message that a lost field may have stood on; its first block, if none tells."""
        first = at = self._firsts.get(message, -1)
        while 0 <= at < len(self._units) and self._units[at].message == message:
            if getattr(self._units[at].held, field, None) == loss.detail:
                return at
            at += 1
        return first

    # --- before the body is looked at ---------------------------------------------------------------------------------

    def doomed(self) -> set[int]:
        """Return the blocks that some loss says are gone."""
        if not self._exact and not self._whole:
            return set()
        return {
            at
            for at, unit in enumerate(self._units)
            if (at in self._exact and self._gone(at)) or (unit.message in self._whole and self._gone_with_all(unit))
        }

    def _gone(self, at: int) -> bool:
        exact = self._exact.get(at, ())
        return any(_fate(loss) == "dropped" and _may_concern(loss, self._units[at]) for loss in exact)

    def _gone_with_all(self, unit: Unit) -> bool:
        whole = self._whole.get(unit.message, ())
        return any(_fate(loss) == "dropped" and loss.kind not in _SOME and _may_concern(loss, unit) for loss in whole)

    def changed(self) -> dict[int, str]:
        """Return the blocks that went out in another form, with their new words where a loss tells them; calls aside,
        for they keep their names.
        """
        return {
            at: next((_words(loss) for loss in losses if loss.kind == "stand-in"), "")
            for at, losses in self._exact.items()
            if any(_fate(loss) == "translated" for loss in losses) and not isinstance(self._units[at].held, ToolUse)
        }

    # --- once it is known what stands where ---------------------------------------------------------------------------

    def settle(self, places: Sequence[Slot | None]) -> None:
        """Find the reason why each missing block is missing.

        A reason whose own block is there after all is about one that stood there once the blocks or messages before it
        had gone: it goes to the first missing block that it fits.
        """
        missing = [at for at, slot in enumerate(places) if slot is None]
        for at in missing:
            if (loss := self._own_reason(at)) is not None:
                self._reasons[at] = loss
        used = set(map(id, self._reasons.values()))
        spare = [loss for loss in chain(self._spare, *self._exact.values()) if id(loss) not in used]
        spare += chain(*self._whole.values())  # these may be about any number of blocks
        self._spare = [loss for loss in spare if _fate(loss) == "dropped"]
        for at in missing:
            if at not in self._reasons:
                self._reasons[at] = self._moved(at) or self._last_resort(at)

    def _own_reason(self, at: int) -> Loss | None:
        unit = self._units[at]
        exact = [loss for loss in self._exact.get(at, ()) if _fate(loss) == "dropped" and _may_concern(loss, unit)]
        if exact:
            return exact[0]
        near = (loss for message in self._near(unit) for loss in self._whole.get(message, ()))
        found = next((loss for loss in near if _fate(loss) == "dropped" and _may_concern(loss, unit)), None)
        if found is None and unit.says_nothing:
            return Loss("empty", Location(unit.message, unit.at), "it says nothing")
        return found or next((loss for loss in self._exact.get(at, ()) if _fate(loss) == "translated"), None)

    def _near(self, unit: Unit) -> Iterable[int]:
        """Yield the block's message, and those that share a turn with it."""
        yield unit.message
        run = self._runs[unit.message]
        for message in range(unit.message + 1, len(self._runs)):
            if self._runs[message] != run:
                return
            yield message

    def _moved(self, at: int) -> Loss | None:
        for number, loss in enumerate(self._spare):
            if _may_concern(loss, self._units[at]):
                return self._spare.pop(number) if loss.location.block is not None else loss
        return None

    def _last_resort(self, at: int) -> Loss:
        """Take a reason that says why something of the block is gone; then the rest said nothing."""
        exact = self._exact.get(at)
        if exact:
            return exact[-1]
        what = "neither in the request nor among its losses"
        return Loss(UNACCOUNTED, Location(self._units[at].message, self._units[at].at), what, "please report it")

    def fate(self, at: int, slot: Slot | None) -> BlockFate:
        """Say what becomes of a block."""
        unit = self._units[at]
        if slot is None:
            loss = self._reasons[at]
            return _told(unit, "translated" if _fate(loss) == "translated" else "dropped", loss, "")
        untouched = at not in self._exact and at not in self._parts and unit.message not in self._whole
        if untouched:
            return _kept(unit, slot)
        exact = self._exact.get(at, ())
        reasons = [loss for loss in exact if _fate(loss) != "dropped" or loss.kind == "left-out"]
        reasons += self._parts.get(at, [])
        reasons += [loss for loss in self._whole.get(unit.message, ()) if _touches(loss, unit)]
        told = [loss for loss in reasons if _fate(loss) != "kept"]
        if not told:
            return _kept(unit, slot)
        worst = max(told, key=lambda loss: _WORST.index(_partly(loss, unit)))
        return _told(unit, _partly(worst, unit), worst, slot.pointer)


def _runs(messages: tuple[Message, ...]) -> list[int]:
    """Number the turns: neighbours that are all the assistant's, or none of them, have one number."""
    runs: list[int] = []
    for at, message in enumerate(messages):
        same = at and isinstance(message, AssistantMessage) == isinstance(messages[at - 1], AssistantMessage)
        runs.append(runs[-1] if same else at)
    return runs


def _fate(loss: Loss) -> Fate:
    return FATE_OF[loss.kind][0] if loss.kind in FATE_OF else "kept"


def _words(loss: Loss) -> str:
    """Return the words that stand for a block: its kind and they are what the loss says, cut where they are long."""
    return loss.detail.partition(": ")[2][:100].strip()


def _partly(loss: Loss, unit: Unit) -> Fate:
    """Say what a loss makes of a block that is there: of what is dropped, it can only have been a part."""
    fate = _fate(loss)
    if fate != "dropped":
        return fate
    return "stripped" if loss.kind == "left-out" or isinstance(unit.held, ToolResult) else "translated"


def _answers(unit: Unit, loss: Loss) -> bool:
    return isinstance(unit.held, ToolResult) and unit.held.tool_use_id[:80] == loss.detail[:80]


def _touches(loss: Loss, unit: Unit) -> bool:
    """Tell whether a loss that names only a message is about this block of it, which was sent."""
    if loss.kind == "call-id-mapped":
        return isinstance(unit.held, ToolUse) and loss.detail.startswith(f"{unit.held.id[:80]} became")
    if loss.kind in ("system-hoisted", "moved-instructions"):
        return unit.stream == "system"
    if loss.kind == "calls-last":
        return isinstance(unit.held, ToolUse)
    if loss.kind in ("content-refused", "unsupported-content"):
        held = unit.held.content if isinstance(unit.held, ToolResult) else (unit.held,)
        return any(type(part).__name__.lower() == loss.detail for part in held if not isinstance(part, str))
    return False


def _may_concern(loss: Loss, unit: Unit) -> bool:
    """Tell whether a loss can be the reason why a block is missing."""
    name = type(unit.held).__name__.lower()
    if loss.kind == "orphan-result":
        return _answers(unit, loss)
    if "reasoning" in loss.kind or loss.kind == "stale-prefix":
        return isinstance(unit.held, Reasoning)
    if loss.kind in _CONTENT:
        what = loss.detail.lower()
        served = name.startswith("servertool") and what.startswith("a provider's tool")
        return served or what.startswith(name) or (name == "opaque" and what.startswith("a block"))
    if loss.kind == "unfinished-call":
        return name.startswith("servertool")
    if loss.kind == "unreadable-block":
        return name == "opaque"
    return True


def _kept(unit: Unit, slot: Slot) -> BlockFate:
    return BlockFate(place=unit.place, kind=unit.kind, fate="kept", pointer=slot.pointer, token=bool(unit.token))


def _told(unit: Unit, fate: Fate, loss: Loss, pointer: str) -> BlockFate:
    book = FATE_OF.get(loss.kind, ("", ""))[1]
    return BlockFate(
        place=unit.place,
        kind=unit.kind,
        fate=fate,
        pointer=pointer,
        rule=loss.kind,
        why=loss.detail,
        remedy=loss.remedy,
        source=f"{book}: {book_rule(book).source}" if book else "",
    )
