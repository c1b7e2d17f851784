"""Rules for thought signatures: where one has to be, and whether it is the one that was given for its part."""

from __future__ import annotations

from collections.abc import Iterator

from tenuto.core.rules import rule
from tenuto.sim.gemini.opening import Opened, Placed, Side
from tenuto.sim.gemini.signatures import Claims, claims, is_sentinel, kind, substance
from tenuto.sim.judging import Broken, Checks

__all__ = ["CHECKS"]

CHECKS = Checks()
_Found = Iterator[Broken | None]


def _steps(opened: Opened) -> list[Placed]:
    """Return the first call of each of the model's steps in the current turn."""
    return [calls[0] for side in opened.current() if (calls := side.having("functionCall"))]


def _missing(id: str, first: Placed) -> Broken | None:
    if first.signature:
        return None
    fields = {**first.at, "name": first.part["functionCall"].get("name", ""), "n": first.i + 1}
    return Broken(id, fields, says=rule("GEM-SIG-01").text(**fields))


def _strict(opened: Opened) -> bool:
    """Tell whether a call without a signature is refused. Models that draw sign theirs, and do not want them back."""
    return opened.facts.signs == "required" and not opened.facts.draws


@CHECKS.holds("GEM-SIG-01")
def _first_step_is_signed(opened: Opened) -> _Found:
    if _strict(opened):
        for first in _steps(opened)[:1]:
            yield _missing("GEM-SIG-01", first)


@CHECKS.holds("GEM-SIG-03")
def _every_step_is_signed(opened: Opened) -> _Found:
    if _strict(opened):
        for first in _steps(opened)[1:]:
            yield _missing("GEM-SIG-03", first)


@CHECKS.holds("GEM-SIG-02")
def _signatures_are_ours(opened: Opened) -> _Found:
    if opened.facts.signs == "no":
        return
    seen: set[tuple[str, int]] = set()
    before: Side | None = None
    for side in opened.sides:
        signed = [placed for placed in side.parts if placed.signature]
        if side.role == "user":
            for placed in signed:
                yield None if _copied(placed, before) else _corrupted(opened, "GEM-SIG-02", placed)
            continue
        before = side
        latest: dict[str, int] = {}
        for placed in signed:
            if is_sentinel(placed.signature):
                continue
            told = claims(placed.signature, opened.request.seals)
            if told is None or not _belongs(opened, placed, told):
                yield _corrupted(opened, "GEM-SIG-02", placed)
                continue
            mark = told.reply, told.order
            kept = not _bound(opened) or (mark not in seen and latest.get(told.reply, -1) < told.order)
            latest[told.reply] = told.order
            seen.add(mark)
            yield None if kept else _corrupted(opened, "GEM-SIG-02", placed)


def _bound(opened: Opened) -> bool:
    """Tell whether a signature counts for its own part only: Gemini 2.5 takes the one of a call on the others, too."""
    return opened.facts.signs != "no" and opened.facts.generation >= 3


def _belongs(opened: Opened, placed: Placed, told: Claims) -> bool:
    request = opened.request
    if (told.family, told.style, told.account) != (opened.facts.family, request.style.name, request.account):
        return False
    of = kind(placed.part)
    return not _bound(opened) or (of == told.kind and (of == "text" or substance(placed.part) in told.texts))


def _copied(placed: Placed, before: Side | None) -> bool:
    """Tell whether an answer carries a copy of what its call carries, too: superfluous, and taken."""
    calls = before.having("functionCall") if before and "functionResponse" in placed.part else []
    return placed.signature in [call.signature for call in calls]


def _corrupted(opened: Opened, id: str, placed: Placed) -> Broken:
    return Broken(id, placed.at, variant=int(opened.vertex))


@CHECKS.holds("GEM-SIG-05")
def _signed_text_is_as_it_was(opened: Opened) -> _Found:
    """A text's signature is taken on a thought, too: what stands there is not looked at."""
    if not _bound(opened):
        return
    for side in opened.sides:
        for placed in side.parts:
            if side.role == "model" and placed.signature and kind(placed.part) == "text":
                told = claims(placed.signature, opened.request.seals)
                if told is not None:
                    kept = placed.part.get("thought") or substance(placed.part) in told.texts
                    yield None if kept else _corrupted(opened, "GEM-SIG-05", placed)


# --- what is taken, and noted -----------------------------------------------------------------------------------------


@CHECKS.holds("GEM-SIG-06")
def _answers_are_signed(opened: Opened) -> _Found:
    if opened.facts.signs != "required":
        return
    for side in opened.sides:
        if side.role == "model" and side.parts and not side.having("functionCall"):
            kept = any(placed.signature for placed in side.parts)
            yield None if kept else Broken("GEM-SIG-06", side.parts[-1].at)


@CHECKS.holds("GEM-SIG-07")
def _all_thoughts_or_none(opened: Opened) -> _Found:
    if opened.facts.generation < 3.5:
        return
    earlier = [side for side in opened.sides if side.role == "model" and (side.i, 0) < opened.turn]
    signed = [any(placed.signature for placed in side.parts) for side in earlier]
    if any(signed):
        yield None if all(signed) else Broken("GEM-SIG-07", at=f"/contents/{earlier[signed.index(False)].i}")


@CHECKS.holds("GEM-SIG-08")
def _sentinels(opened: Opened) -> _Found:
    for side in opened.sides:
        for placed in side.parts:
            if placed.signature:
                yield Broken("GEM-SIG-08", placed.at) if is_sentinel(placed.signature) else None


@CHECKS.holds("GEM-SIG-09")
def _calls_of_old_models(opened: Opened) -> _Found:
    if opened.facts.generation >= 3:
        return
    for side in opened.sides:
        calls = side.having("functionCall")
        if side.role == "model" and calls:
            kept = any(placed.signature for placed in side.parts)
            yield None if kept else Broken("GEM-SIG-09", calls[0].at)
