"""Rules for contents and parts: roles, order, what is empty, media, and which answer belongs to which call."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tenuto.sim.gemini.opening import Opened, Placed, Side
from tenuto.sim.gemini.signatures import claims, kind
from tenuto.sim.judging import Broken, Checks

__all__ = ["CHECKS"]

CHECKS = Checks()
_Found = Iterator[Broken | None]
_ROLES = ("user", "model")
_MEDIA = re.compile(
    r"image/(?:png|jpeg|webp|heic|heif|gif|bmp|avif)|(?:audio|video|text)/[\w.+-]+"
    r"|application/(?:pdf|json|xml|javascript|x-javascript|typescript|x-typescript|x-python|rtf|x-ipynb\+json|yaml|x-yaml)"
)
_WHOLE, _PAPER = 100 * 1024 * 1024, 50 * 1024 * 1024
_TOLD = re.compile(r"\s*\[(?:reasoning|thinking|thought)\b", re.IGNORECASE)


def _parts(opened: Opened) -> Iterator[Placed]:
    for side in opened.sides:
        yield from side.parts


# --- roles and what is empty ------------------------------------------------------------------------------------------


@CHECKS.holds("GEM-PART-02")
def _something_is_said(opened: Opened) -> _Found:
    if not opened.contents:
        yield Broken("GEM-PART-02", variant=2 if opened.vertex else 1, at="/contents")
    for i, content in enumerate(opened.contents):
        kept = bool(content.get("parts"))
        yield None if kept else Broken("GEM-PART-02", {"i": i}, variant=2 if opened.vertex else 0)


@CHECKS.holds("GEM-TURN-03")
def _roles(opened: Opened) -> _Found:
    for i, content in enumerate(opened.contents):
        role = content.get("role", "" if opened.vertex else "user")
        yield None if role in _ROLES else Broken("GEM-TURN-03", {"i": i})


@CHECKS.holds("GEM-PART-01")
def _parts_have_data(opened: Opened) -> _Found:
    for placed in _parts(opened):
        if not kind(placed.part):
            yield Broken("GEM-PART-01", placed.at)
        elif opened.vertex and placed.part.get("text") == "" and not placed.signature:
            yield Broken("GEM-PART-01", placed.at, variant=1)
        else:
            yield None


@CHECKS.holds("GEM-PART-03")
def _system_has_data(opened: Opened) -> _Found:
    if opened.vertex:
        return
    for j, part in enumerate((opened.body.get("systemInstruction") or {}).get("parts") or []):
        yield None if kind(part) else Broken("GEM-PART-03", {"j": j})


@CHECKS.holds("GEM-PART-05")
def _thoughts_in_plain_sight(opened: Opened) -> _Found:
    for placed in _parts(opened):
        text = placed.part.get("text")
        if text and opened.contents[placed.i].get("role") == "model":
            told = _TOLD.match(text) and not placed.part.get("thought")
            yield Broken("GEM-PART-05", placed.at) if told else None


# --- media ------------------------------------------------------------------------------------------------------------


def _blobs(opened: Opened) -> Iterator[tuple[Placed, str, dict[str, Any]]]:
    """Yield everything that has a media type: the part it stands in, its place, itself."""
    for placed in _parts(opened):
        home = f"/contents/{placed.i}/parts/{placed.j}"
        inner = (placed.part.get("functionResponse") or {}).get("parts") or []
        places = [(home, placed.part)]
        places += [(f"{home}/functionResponse/parts/{n}", part) for n, part in enumerate(inner)]
        for at, part in places:
            for name in ("inlineData", "fileData"):
                if name in part:
                    yield placed, f"{at}/{name}", part[name]


@CHECKS.holds("GEM-MEDIA-01")
def _media_types(opened: Opened) -> _Found:
    for placed, at, blob in _blobs(opened):
        told = blob.get("mimeType", "")
        if _MEDIA.fullmatch(told) or (not told and "fileUri" in blob):
            yield None
        else:
            yield Broken("GEM-MEDIA-01", {**placed.at, "t": told}, at=f"{at}/mimeType")


@CHECKS.holds("GEM-MEDIA-02")
def _media_size(opened: Opened) -> _Found:
    sizes = [(len(blob.get("data", "")) * 3 // 4, blob.get("mimeType", "")) for _, _, blob in _blobs(opened)]
    if not sizes:
        return
    whole = sum(size for size, _ in sizes)
    paper = sum(size for size, told in sizes if told == "application/pdf")
    if whole > _WHOLE or paper > _PAPER:
        yield Broken("GEM-MEDIA-02", {"n": _PAPER if paper > _PAPER else _WHOLE})
    else:
        yield None


@CHECKS.holds("GEM-MEDIA-03")
def _media_in_answers(opened: Opened) -> _Found:
    for placed in _parts(opened):
        if (placed.part.get("functionResponse") or {}).get("parts"):
            yield Broken("GEM-MEDIA-03", placed.at) if opened.facts.generation < 3 else None


# --- order and pairs --------------------------------------------------------------------------------------------------


@CHECKS.holds("GEM-TURN-01")
def _calls_follow_the_user(opened: Opened) -> _Found:
    for at, side in enumerate(opened.sides):
        if side.role == "model" and (calls := side.having("functionCall")):
            yield None if at else Broken("GEM-TURN-01", {"i": calls[0].i})


@CHECKS.holds("GEM-TURN-04")
def _first_and_last(opened: Opened) -> _Found:
    if not opened.sides:
        return
    first, last = opened.sides[0], opened.sides[-1]
    yield Broken("GEM-TURN-04", {"i": 0}) if first.role == "model" else None
    ended = last.role == "model" and not opened.facts.prefill
    final = len(opened.contents) - 1
    yield Broken("GEM-TURN-04", {"i": final}, variant=1, at=f"/contents/{final}/role") if ended else None


def _pairs(opened: Opened) -> Iterator[tuple[Side, list[Placed], list[Placed]]]:
    """Yield every side that answers or ought to: itself, the calls before it, and its answers."""
    calls: list[Placed] = []
    for side in opened.sides:
        answers = side.having("functionResponse")
        if side.role == "user":
            if calls or answers:
                yield side, calls, answers
            calls = []
        else:
            calls = side.having("functionCall")
    if calls:
        yield opened.sides[-1], calls, []


@CHECKS.holds("GEM-TURN-02")
def _as_many_answers_as_calls(opened: Opened) -> _Found:
    for side, calls, answers in _pairs(opened):
        if len(calls) == len(answers):
            yield None
        else:
            yield Broken("GEM-TURN-02", {"i": answers[0].i if answers else side.i})


@CHECKS.holds("GEM-TURN-05")
def _answers_alone(opened: Opened) -> _Found:
    if opened.facts.generation >= 3:
        return
    for i, content in enumerate(opened.contents):
        answers = ["functionResponse" in part for part in content.get("parts") or []]
        if any(answers):
            yield None if all(answers) else Broken("GEM-TURN-05", {"i": i})


@CHECKS.holds("GEM-TURN-06")
def _answers_name_their_call(opened: Opened) -> _Found:
    if opened.facts.generation < 3.5 or not opened.request.model:
        return
    for _, calls, answers in _pairs(opened):
        told = any(placed.part["functionResponse"].get("id") for placed in answers)
        by_id = told and all(_id(opened, call) for call in calls)  # else by their names and their order
        waiting = [
            (_id(opened, call) if by_id else "", str(call.part["functionCall"].get("name", ""))) for call in calls
        ]
        for placed in answers:
            yield _paired(placed, waiting, by_id=by_id)


def _paired(placed: Placed, waiting: list[tuple[str, str]], *, by_id: bool) -> Broken | None:
    """Take the call that is answered off the list of ids and names."""
    answer = placed.part["functionResponse"]
    name, id = answer.get("name", ""), answer.get("id", "") if by_id else ""
    if not name or name not in [known for _, known in waiting]:
        place = f"/contents/{placed.i}/parts/{placed.j}/functionResponse/name"
        return Broken("GEM-TURN-06", {**placed.at, "name": name}, variant=1, at=place)
    if (id, name) not in waiting:
        return Broken("GEM-TURN-06", {**placed.at, "id": id})
    waiting.remove((id, name))
    return None


def _id(opened: Opened, call: Placed) -> str:
    """Return the id that a call has, or had when it was made."""
    told = str(call.part["functionCall"].get("id", ""))
    made = None if told or not call.signature else claims(call.signature, opened.request.seals)
    return told or (made.id if made else "")
