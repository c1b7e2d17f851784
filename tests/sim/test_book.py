"""The rule book is whole: every rule is checked, or says why it cannot be; and what is written of it is what is known."""

from __future__ import annotations

import csv
import importlib
import os
import re
from pathlib import Path

import pytest

from tenuto.core.rules import rule, rules
from tenuto.sim import cross
from tenuto.sim.judging import Broken, Checks, judge

CORPUS = Path(os.environ.get("TENUTO_CORPUS") or Path(__file__).parents[3] / "shared" / "corpus")
BOOK = CORPUS.parent / "rules.csv"
FOLDERS = {
    "anthropic-messages": "anthropic", "openai-responses": "responses", "openai-chat": "chat", "gemini": "gemini",
}  # fmt: skip


def checks(dialect: str) -> Checks:
    return importlib.import_module(f"tenuto.sim.{FOLDERS[dialect]}.voice").VOICE.checks


def unchecked(dialect: str) -> dict[str, str]:
    if dialect == "cross":
        return cross.UNCHECKED
    return importlib.import_module(f"tenuto.sim.{FOLDERS[dialect]}.rules").UNCHECKED


@pytest.mark.parametrize("dialect", FOLDERS)
def test_every_rule_is_checked_or_says_why_not(dialect):
    own = {found.id for found in rules().values() if found.dialect == dialect}

    assert own == {*checks(dialect), *unchecked(dialect)}
    assert not checks(dialect).keys() & unchecked(dialect)
    assert all(unchecked(dialect).values())


@pytest.mark.parametrize("dialect", FOLDERS)
def test_the_core_of_the_book_is_checked_whole(dialect):
    core = {found.id for found in rules().values() if found.dialect == dialect and found.tier == "core"}

    assert core <= checks(dialect).keys()


def test_rules_across_providers_say_which_rules_hold_them():
    own = {found.id for found in rules().values() if found.dialect == "cross"}

    assert own == cross.UNCHECKED.keys()
    for why in cross.UNCHECKED.values():
        assert all(named in rules() for named in re.findall(r"[A-Z]{3}-[A-Z]+-\d\d", why))


def test_every_rule_can_be_told():
    for found in rules().values():
        assert found.scope, found.id
        assert found.when, found.id
        assert found.source, found.id
        assert re.fullmatch(r"20\d\d(?:-\d\d)?", found.as_of), found.id
        assert found.confidence in ("recorded", "documented", "practice", "inferred"), found.id
        assert found.remedy or found.severity != "refused", found.id
        if found.severity == "refused" and found.dialect != "cross":
            assert found.status >= 400 or "200" in found.when + found.scope or found.status == 200, found.id


@pytest.mark.skipif(not BOOK.exists(), reason="no book of rules beside the recordings")
def test_the_book_has_every_rule_that_is_known():
    with BOOK.open(encoding="utf-8", newline="") as lines:
        known = {row["id"]: row for row in csv.DictReader(lines)}

    assert known.keys() == rules().keys()
    for id, row in known.items():
        found = rule(id)
        assert (found.dialect, found.severity) == (row["dialect"], row["severity"]), id
        assert {"": "later"}.get(row["tier"], row["tier"]) == found.tier, id
        assert found.confidence == row["confidence"], id
        if row["text"] == "verbatim":
            texts = [re.sub(r"\s+", " ", text).strip() for text in found.says]
            whole = re.sub(r"\s+", " ", row["message"])
            assert found.trust == "verbatim", id
            assert any(text and text[:40] in whole for text in texts), (id, texts)
        assert found.when != row["condition"], f"{id}: its condition is told in somebody else's words"


def test_names_are_filled_in_and_strange_ones_left():
    found = rule("ANT-THINK-01")

    assert found.text(i=3, j=0) == "messages.3.content.0.thinking.signature: Field required"
    assert found.pointer(i=3, j=0) == "/messages/3/content/0/signature"
    assert "{j}" in found.text(i=3)


def test_the_first_refusal_ends_it_and_what_was_tried_is_told():
    table = Checks()
    table.holds("ANT-THINK-15")(lambda _: [Broken("ANT-THINK-15", {"i": 1})])
    table.holds("ANT-THINK-01")(lambda _: [None, None])
    table.holds("ANT-THINK-03")(lambda _: [])
    table.holds("ANT-THINK-02")(lambda _: [None, Broken("ANT-THINK-02", {"i": 1, "j": 0})])
    table.holds("ANT-MSG-01")(lambda _: [Broken("ANT-MSG-01", {"i": 1, "j": 0})])

    verdict = judge(None, table)

    assert verdict.refusal == Broken("ANT-THINK-02", {"i": 1, "j": 0})
    assert [broken.rule for broken in verdict.noted] == ["ANT-THINK-15"]
    assert verdict.tried == ("ANT-THINK-15", "ANT-THINK-01", "ANT-THINK-02")


def test_a_rule_is_checked_in_one_place_and_must_be_in_the_book():
    table = Checks()
    table.holds("ANT-THINK-01")(lambda _: [])
    with pytest.raises(ValueError, match="twice"):
        table.holds("ANT-THINK-01")(lambda _: [])
    with pytest.raises(KeyError):
        table.holds("ANT-THINK-99")
