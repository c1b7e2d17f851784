"""Thought signatures: each goes back with the part it came on, to whoever gave it, once."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tenuto.audit.gemini_given import Given, is_stand_in, ledger, part_data, plain
from tenuto.audit.gemini_parts import Content, Part, contents, has_three, joined, runs, turn_start
from tenuto.audit.looking import Broken, Checks, Sent, once

__all__ = ["CHECKS"]

CHECKS = Checks()

_BASE64 = re.compile(r"[A-Za-z0-9+/]*")


# --- calls that have none ---------------------------------------------------------------------------------------------


@once
def _steps(sent: Sent) -> list[tuple[Part, bool]]:
    """Return the first call of each step of the current turn, and whether an earlier step was signed."""
    said = contents(sent) if sent.target.traits.tools else []  # those that only draw are not asked for any
    start = turn_start(said)
    found, signed = [], False
    for run in joined([content for content in said if content.i > start]):
        for call in run.calls[:1]:
            found.append((call, signed))
            signed = signed or bool(call.token)
    return found


def _unsigned(id: str, part: Part, at: str) -> Broken:
    return Broken(id, {"name": (part.call or {}).get("name", ""), "n": part.i + 1}, at=at)


@CHECKS.holds("GEM-SIG-01")
def _first_step_is_signed(sent: Sent) -> Iterator[Broken]:
    for part, signed_before in _steps(sent):
        if not part.token and not signed_before:
            yield _unsigned("GEM-SIG-01", part, part.token_at)


@CHECKS.holds("GEM-SIG-03")
def _later_steps_are_signed(sent: Sent) -> Iterator[Broken]:
    for part, signed_before in _steps(sent):
        if not part.token and signed_before:
            yield _unsigned("GEM-SIG-03", part, part.at)


@CHECKS.holds("GEM-SIG-09")
def _old_steps_are_signed(sent: Sent) -> Iterator[Broken]:
    for content in _turns_of_the_model(sent):
        calls = [part for part in content.parts if part.call is not None]
        unsigned = calls and not any(part.token for part in content.parts)
        if unsigned and (not sent.given or ledger(sent).lost(content)):
            yield Broken("GEM-SIG-09", at=calls[0].at)


# --- those that are there ---------------------------------------------------------------------------------------------


@once
def _wrong(sent: Sent) -> list[tuple[str, Part]]:
    """Return each part whose signature is wrong, and the rule that says so."""
    watch = _Watch(sent)
    found: list[tuple[str, Part]] = []
    called: tuple[Part, ...] = ()
    for run in runs(sent):
        for part in [part for content in run.contents for part in content.parts if part.token]:
            rule = watch.model(part) if run.role == "model" else _on_the_users(part, called)
            if rule:
                found.append((rule, part))
        called = run.calls
    return found


def _on_the_users(part: Part, called: tuple[Part, ...]) -> str:
    """On an answer a copy of a signature of the calls does no harm; nothing else of the user's is signed."""
    copied = {plain(call.token) for call in called if not is_stand_in(call.token)}
    return "" if part.answer is not None and plain(part.token) in copied else "GEM-SIG-02"


class _Watch:
    """Compares signatures with those that were given, in the order in which they come back."""

    def __init__(self, sent: Sent) -> None:
        self._sent = sent
        self._given = ledger(sent).tokens
        self._bound = has_three(sent)  # older models take a signature on several calls, which was recorded
        self._used: dict[str, int] = {}
        self._reached: dict[int, int] = {}

    def model(self, part: Part) -> str:
        """Return the rule that a part of the model's breaks; empty if it breaks none."""
        token = plain(part.token)
        if is_stand_in(part.token):
            return ""
        used = self._used[token] = self._used.get(token, 0) + 1
        given = self._given.get(token, [])
        if not _BASE64.fullmatch(token):
            return "GEM-SIG-02"
        if not self._sent.given:
            return "GEM-SIG-02" if self._bound and used > 1 else ""
        own = [one for one in given if not one.foreign]
        if not own:
            return "GEM-SIG-02"
        return self._bound_to(part, own, used) if self._bound else ""

    def _bound_to(self, part: Part, own: list[Given], used: int) -> str:
        data = part_data(part.fields)
        fitting = [one for one in own if one.data in (data, ())]
        if used > len(own):
            return "GEM-SIG-02"
        if not fitting and part.get("thought") is True:
            return ""  # the signature of a text on a thought of the same reply, which was recorded as taken
        if not fitting:
            texts = data[0] == "text" and any(one.data[:1] == ("text",) for one in own)
            return "GEM-SIG-05" if texts else "GEM-SIG-02"
        one = fitting[min(used, len(fitting)) - 1]
        late = self._reached.get(one.reply, -1)
        self._reached[one.reply] = max(late, one.block)
        return "GEM-SIG-02" if one.block < late else ""


def _invalid(sent: Sent, id: str, at: str) -> Broken:
    return Broken(id, variant=int(sent.target.provider.gemini.vertex), at=at)


@CHECKS.holds("GEM-SIG-02")
def _signatures_as_given(sent: Sent) -> Iterator[Broken]:
    for id, part in _wrong(sent):
        if id == "GEM-SIG-02":
            yield _invalid(sent, id, part.token_at)


@CHECKS.holds("GEM-SIG-05")
def _signed_texts_as_given(sent: Sent) -> Iterator[Broken]:
    for id, part in _wrong(sent):
        if id == "GEM-SIG-05":
            yield _invalid(sent, id, part.at)


@CHECKS.holds("GEM-SIG-08")
def _no_stand_in(sent: Sent) -> Iterator[Broken]:
    for content in _turns_of_the_model(sent):
        for part in content.parts:
            if is_stand_in(part.token):
                yield Broken("GEM-SIG-08", at=part.token_at)


# --- those that were left out without a refusal -----------------------------------------------------------------------


def _turns_of_the_model(sent: Sent) -> Iterator[Content]:
    return (content for content in contents(sent) if content.role == "model")


@CHECKS.holds("GEM-SIG-06")
def _answers_keep_theirs(sent: Sent) -> Iterator[Broken]:
    for content in _turns_of_the_model(sent):
        if all(part.call is None for part in content.parts) and ledger(sent).lost(content):
            yield Broken("GEM-SIG-06", at=content.parts[-1].at)


@CHECKS.holds("GEM-SIG-07")
def _all_or_none(sent: Sent) -> Iterator[Broken]:
    said = contents(sent)
    start = turn_start(said)
    before = [content for content in said if content.i < start]
    if not any(part.token for content in before for part in content.parts):
        return
    if sent.given:
        bare = [content for content in before if content.role == "model" and ledger(sent).lost(content)]
    else:
        bare = [turn[0] for turn in _turns(before) if not any(part.token for content in turn for part in content.parts)]
    for content in bare:
        yield Broken("GEM-SIG-07", at=content.at)


def _turns(said: list[Content]) -> Iterator[list[Content]]:
    """Yield the model's contents of each turn."""
    turn: list[Content] = []
    for content in said:
        if content.role == "model":
            turn.append(content)
        elif content.asks and turn:
            yield turn
            turn = []
    if turn:
        yield turn
