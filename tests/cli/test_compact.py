"""`compact`, `show --full`, and what a chat and a run print about a compaction."""

from __future__ import annotations

import json

import pytest

MODEL = "sim/anthropic/claude-opus-5-5"


@pytest.fixture
def talked(here):
    """A session with three exchanges."""
    here("run", "I live in Oslo.", "-m", MODEL, "--name", "trip")
    here("resume", "trip", "Find a train.")
    here("resume", "trip", "And a hotel.")


def context(here) -> str:
    return here("show", "trip").out


def test_session_is_compacted_and_shown(here, talked):
    """The view has the summary, `--full` everything; the journal is not changed."""
    before = json.loads(here("show", "trip", "--json").out)["entries"]
    done = here("compact", "trip")
    view, full = context(here), here("show", "trip", "--full").out
    after = json.loads(here("show", "trip", "--json").out)["entries"]

    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("compacted: ")
    assert "tenuto show --full has them" in view
    assert "- I live in Oslo." in view
    assert "user (1)" not in view
    assert "user (1)\n  I live in Oslo.\n" in full
    assert "[summary of the entries up to " in full
    assert [entry["digest"] for entry in before] == [entry["digest"] for entry in after[: len(before)]]
    assert here("audit", "trip").code == 0
    assert here("resume", "trip", "Thanks.").code == 0
    assert here("audit", "trip").code == 0


def test_plan_sends_nothing(here, talked):
    done = here("compact", "trip", "--plan")

    assert (done.code, done.out.startswith("compaction: ")) == (0, True)
    assert "compact" not in here("show", "trip", "--json").out


def test_undo_sends_everything_again(here, talked):
    assert "is not compacted" in here("compact", "trip", "--undo").out
    here("compact", "trip")
    done = here("compact", "trip", "--undo")

    assert (done.code, "the whole conversation is sent again" in done.out) == (0, True)
    assert "user (1)\n  I live in Oslo.\n" in context(here)
    assert "the whole conversation is sent again from here on" in context(here)


def test_focus_and_json(here, talked):
    done = json.loads(here("compact", "trip", "--focus", "the hotel", "--json").out)
    asked = [
        e["body"]
        for e in json.loads(here("show", "trip", "--json").out)["entries"]
        if e["kind"] == "compaction_requested"
    ]

    assert done["tokens_before"] > 0
    assert [one["focus"] for one in asked] == ["the hotel"]


def test_export_has_the_original_and_the_cut(here, talked):
    here("compact", "trip")
    done = here("export", "trip", "--format", "md")

    assert "Summary of the entries up to " in done.out
    assert done.out.count("I live in Oslo.") >= 2


def test_compact_needs_older_messages(here):
    here("run", "Hello", "-m", MODEL, "--name", "trip")
    done = here("compact", "trip")

    assert (done.code, done.out.startswith("not compacted: ")) == (0, True)
    assert here("compact", "trip", "--plan").out == "compaction: nothing to compact\n"
    assert here("compact", "trip", "--plan", "--undo").code == 2
    assert here("compact", "missing").code == 7
