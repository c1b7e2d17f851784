"""Who speaks, which calls are answered, and what a part holds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise

from tenuto.audit.gemini_parts import Content, Part, Run, Wire, contents, field, is_empty, listed, runs, spelt
from tenuto.audit.looking import Broken, Checks, Sent, given_blocks, once
from tenuto.core.blocks import Reasoning

__all__ = ["CHECKS"]

CHECKS = Checks()

_THOUGHT_ALOUD = re.compile(r"\s*(?:\[(?:reasoning|thinking|thought)s?:|<(?:think|thinking|thought)>)", re.IGNORECASE)
_WHOLE_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+")
_NOT_TAKEN = re.compile(
    r"image/(?:jpg|svg\+xml|tiff|x-icon|vnd\..*)"
    r"|application/(?:zip|gzip|octet-stream|msword|vnd\..*|x-(?:zip|tar|gzip).*)"
)
_MOST_BYTES, _MOST_PDF = 100 * 2**20, 50 * 2**20


# --- contents and parts -----------------------------------------------------------------------------------------------


@CHECKS.holds("GEM-PART-02")
def _something_is_said(sent: Sent) -> Iterator[Broken]:
    vertex = sent.target.provider.gemini.vertex
    if sent.body.get("contents") in (None, []):
        yield Broken("GEM-PART-02", variant=2 if vertex else 1, at="/contents")
    for content in contents(sent):
        if content.fields.get("parts") in (None, []):
            yield Broken("GEM-PART-02", {"i": content.i}, variant=2 if vertex else 0, at=f"{content.at}/parts")


@CHECKS.holds("GEM-TURN-03")
def _two_roles(sent: Sent) -> Iterator[Broken]:
    for content in contents(sent):
        role = content.fields.get("role")
        if role is None and not sent.target.provider.gemini.vertex:  # which alone wants one in every content
            continue
        if role not in ("user", "model"):
            yield Broken("GEM-TURN-03", at=f"{content.at}/role")


@CHECKS.holds("GEM-PART-01")
def _a_part_has_data(sent: Sent) -> Iterator[Broken]:
    vertex = sent.target.provider.gemini.vertex
    for content in contents(sent):
        for part in content.parts:
            empty_text = vertex and part.get("text") == "" and not part.token
            if is_empty(part.fields) or (empty_text and is_empty({**part.fields, "text": None})):
                yield Broken("GEM-PART-01", {"i": part.i, "j": part.j}, at=part.at)


@CHECKS.holds("GEM-PART-03")
def _instructions_have_data(sent: Sent) -> Iterator[Broken]:
    told = field(sent.body, "systemInstruction")
    if sent.target.provider.gemini.vertex:
        return
    for j, at, fields in listed(field(told, "parts"), f"/{spelt(sent.body, 'systemInstruction')}/parts"):
        if is_empty(fields):
            yield Broken("GEM-PART-03", {"j": j}, at=at)


@CHECKS.holds("GEM-PART-05")
def _no_thought_aloud(sent: Sent) -> Iterator[Broken]:
    thoughts = {block.text for _, block in given_blocks(sent, Reasoning) if block.text}
    for content in contents(sent):
        for part in content.parts if content.role == "model" else ():
            text = part.text
            if text and (text in thoughts or _THOUGHT_ALOUD.match(text)):
                yield Broken("GEM-PART-05", at=part.at)


# --- turns ------------------------------------------------------------------------------------------------------------


@CHECKS.holds("GEM-TURN-01")
def _calls_follow_the_user(sent: Sent) -> Iterator[Broken]:
    before = ""
    for run in runs(sent):
        if run.calls and before != "user":
            first = next(content for content in run.contents if any(part.call is not None for part in content.parts))
            yield Broken("GEM-TURN-01", at=first.at)
        before = run.role


@CHECKS.holds("GEM-TURN-04")
def _the_user_begins_and_ends(sent: Sent) -> Iterator[Broken]:
    said = runs(sent)
    if not said:
        return
    first, last = said[0], said[-1]
    if first.role == "model" and not first.calls:
        yield Broken("GEM-TURN-04", at=f"{first.contents[0].at}/role")
    if last.role == "model" and sent.target.traits.prefill == "rejected":
        yield Broken("GEM-TURN-04", variant=1, at=f"{last.contents[-1].at}/role")


def _pairs(sent: Sent) -> Iterator[tuple[Run, Run]]:
    """Yield what stands side by side, neighbours joined; before the first and after the last there is nothing."""
    nothing = Run("", ())
    return pairwise((nothing, *runs(sent), nothing))


def _answers(content: Content) -> int:
    return sum(part.answer is not None for part in content.parts)


@CHECKS.holds("GEM-TURN-02")
def _every_call_is_answered_once(sent: Sent) -> Iterator[Broken]:
    for before, after in _pairs(sent):
        calls, answers = before.calls, after.answers
        if len(calls) == len(answers):
            continue
        answering = next((content for content in after.contents if _answers(content)), None)
        content = answering or (after.contents[0] if after.role == "user" else before.contents[-1])
        yield Broken("GEM-TURN-02", at=f"{content.at}/parts")


@CHECKS.holds("GEM-TURN-05")
def _answers_by_themselves(sent: Sent) -> Iterator[Broken]:
    for content in contents(sent):
        if 0 < _answers(content) < len(content.parts):
            yield Broken("GEM-TURN-05", at=f"{content.at}/parts")


@CHECKS.holds("GEM-TURN-06")
def _answers_name_their_calls(sent: Sent) -> Iterator[Broken]:
    for before, after in _pairs(sent):
        calls, answers = [part.call or {} for part in before.calls], after.answers
        if len(calls) != len(answers) or not calls:
            continue
        if any((part.answer or {}).get("id") for part in answers):
            yield from _by_id(calls, answers)
        else:
            yield from _by_order(calls, answers)


def _by_id(calls: list[Wire], answers: Iterable[Part]) -> Iterator[Broken]:
    waiting: dict[str, list[Wire]] = {}
    for made in calls:
        if isinstance(id := made.get("id"), str) and id:
            waiting.setdefault(id, []).append(made)
    for part in answers:
        answer = part.answer or {}
        id = answer.get("id")
        open_calls = waiting.get(id) if isinstance(id, str) else None
        call = open_calls.pop(0) if open_calls else None
        if call is None:
            yield Broken("GEM-TURN-06", at=f"{_answer_at(part)}/id")
        if not answer.get("name"):
            yield Broken("GEM-TURN-06", variant=1, at=f"{_answer_at(part)}/name")
        elif call is not None and answer.get("name") != call.get("name"):
            yield Broken("GEM-TURN-06", variant=1, at=f"{_answer_at(part)}/id")


def _by_order(calls: list[Wire], answers: Iterable[Part]) -> Iterator[Broken]:
    for call, part in zip(calls, answers, strict=True):
        name = (part.answer or {}).get("name")
        if not name or name != call.get("name"):
            yield Broken("GEM-TURN-06", variant=1, at=f"{_answer_at(part)}/name")


def _answer_at(part: Part) -> str:
    return f"{part.at}/{spelt(part.fields, 'functionResponse')}"


# --- media ------------------------------------------------------------------------------------------------------------


@once
def _media(sent: Sent) -> list[tuple[str, Wire]]:
    """Return the media within the request, also those in the answers of functions."""
    held: list[tuple[str, Wire]] = []
    for content in contents(sent):
        for part in content.parts:
            held.append((part.at, part.fields))
            if part.answer is not None and part.answer.get("parts") is not None:
                held += ((at, fields) for _, at, fields in listed(part.answer["parts"], f"{_answer_at(part)}/parts"))
    media = ((at, fields, field(fields, "inlineData")) for at, fields in held)
    return [(f"{at}/{spelt(fields, 'inlineData')}", found) for at, fields, found in media if isinstance(found, dict)]


def _is_taken(mime: str) -> bool:
    return _WHOLE_TYPE.fullmatch(mime) is not None and not _NOT_TAKEN.fullmatch(mime)


@CHECKS.holds("GEM-MEDIA-01")
def _known_media(sent: Sent) -> Iterator[Broken]:
    for at, blob in _media(sent):
        mime = field(blob, "mimeType")
        if mime is None or (isinstance(mime, str) and not _is_taken(mime.partition(";")[0].strip().lower())):
            yield Broken("GEM-MEDIA-01", {"t": mime or ""}, at=f"{at}/{spelt(blob, 'mimeType')}")


@CHECKS.holds("GEM-MEDIA-02")
def _media_fit(sent: Sent) -> Iterator[Broken]:
    total = papers = 0
    for _, blob in _media(sent):
        data = field(blob, "data")
        size = len(data) * 3 // 4 if isinstance(data, str) else 0
        total += size
        papers = max(papers, size if field(blob, "mimeType") == "application/pdf" else 0)
    if total > _MOST_BYTES or papers > _MOST_PDF:
        yield Broken("GEM-MEDIA-02", {"n": _MOST_BYTES if total > _MOST_BYTES else _MOST_PDF})


@CHECKS.holds("GEM-MEDIA-03")
def _no_media_in_answers(sent: Sent) -> Iterator[Broken]:
    for content in contents(sent):
        for part in content.parts:
            if field(part.answer, "parts"):
                yield Broken("GEM-MEDIA-03", at=f"{_answer_at(part)}/parts")
