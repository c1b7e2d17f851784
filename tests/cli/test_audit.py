"""`audit`, `handover` and `compact`: the requests of a session, checked, for another model and shorter."""

from __future__ import annotations

import json

import pytest

from cli.canned_provider import append_entries
from cli.conftest import stored_sessions
from tenuto import Agent, settings
from tenuto.core.journal import HandedOver, MessageAdded, RequestStarted
from tenuto.core.messages import UserMessage
from tenuto.testing import say, think, turn
from tenuto.wire.write import ENCODER_VERSION

LOST = "not sent: 1 reasoning block; restored if you switch back\n"
MODEL = "sim/anthropic/claude-opus-5-5"


@pytest.fixture
def session(here, tenuto_sim):
    """A session of one request to the simulated Anthropic."""
    tenuto_sim.script(turn(think("Hm."), say("One.")), turn(think("So."), say("Two.")), turn("Three."))
    assert here("run", "Go.", "-m", "sim/anthropic", "-q").code == 0
    return tenuto_sim


def entries():
    return stored_sessions()[0][1]


def test_audit_counts_blocks(here, session):
    before = entries()
    done, other = here("audit"), here("audit", "last", "-m", "sim/openai")
    document = json.loads(here("audit", "last", "--json").out)
    past = "1 past request reproduced byte for byte\n"

    assert (0, f"accepted by sim/anthropic: 3 blocks kept (1 signed)\n{past}", "") == done
    accepted = "accepted by sim/openai: 2 blocks kept, 1 dropped\n"
    assert (0, f"{accepted}{LOST}{past}details: tenuto audit --verbose\n") == other[:2]
    assert "dropped  messages[1].blocks[0]" in here("audit", "-m", "sim/openai", "--verbose").out
    assert (True, "sim/anthropic", 1) == tuple(document[name] for name in ("clean", "target", "compared"))
    assert {"kept"} == {block["outcome"] for block in document["blocks"]}
    assert all(block["pointer"].startswith("/messages/") for block in document["blocks"])
    assert entries() == before


def test_audit_prints_the_cause_of_a_cache_miss(here, tenuto_sim):
    with Agent("sim/anthropic", system="Answer from the manual. " * 300, cache_diagnosis=True) as agent:
        session = agent.session()
        session.send("One.")
        session.send("Two.", instructions="Be brief.")
    done, document = here("audit", session.id), json.loads(here("audit", session.id, "--json").out)

    [miss] = document["cache_misses"]
    assert (miss["part"], miss["provider_reason"]) == ("system", "system_changed")
    assert f"entry {miss['seq']}: " in done.out
    assert "prompt cache: system changed; the provider reports system_changed" in done.out


def test_audit_reports_a_past_request_that_changed(here, session):
    request = RequestStarted("sim/anthropic", digest="0" * 64, encoder_version=ENCODER_VERSION)
    append_entries(settings.store(), "last", [MessageAdded(UserMessage("And?")), request])
    done = here("audit")

    assert done.code == 8
    assert "1 of 2 past requests not reproduced\nchanged: request-changed at entry " in done.out


def test_handover_to_another_model_and_back(here, session):
    """To the same model writes nothing; a model that takes no prefilled answer gets a request after the next message."""
    there = here("handover", "last", "sim/openai")

    assert (0, True) == (there.code, f"switched to sim/openai\n{LOST}" in there.out)
    assert isinstance(entries()[-1].payload, HandedOver)
    before = entries()
    assert "already uses sim/openai" in here("handover", "last", "sim/openai").out
    assert before == entries()
    assert here("resume", "last", "Again.", "-q").out == "Two.\n"
    back = json.loads(here("handover", "last", "sim/anthropic", "--json").out)
    assert ("sim/anthropic", True) == (back["model"], all("location" in loss for loss in back["losses"]))
    assert here("resume", "last", "And?", "-q").out == "Three.\n"
    assert here("audit").code == 0
    other = here("handover", "last", "anthropic/claude-opus-4-6")
    assert (0, False) == (other.code, "Three." in other.out)
    session.assert_clean()


@pytest.fixture
def talked(here):
    """A session with three exchanges."""
    here("run", "I live in Oslo.", "-m", MODEL, "--name", "trip")
    here("resume", "trip", "Find a train.")
    here("resume", "trip", "And a hotel.")


def shown(here):
    return json.loads(here("show", "trip", "--json").out)["entries"]


def test_session_is_compacted_and_shown(here, talked):
    """The view has the summary, `--full` and an export everything; the journal is not changed."""
    before = shown(here)
    planned = here("compact", "trip", "--plan")
    assert (0, True, before) == (planned.code, planned.out.startswith("compaction: "), shown(here))
    done = here("compact", "trip")
    view, full = here("show", "trip").out, here("show", "trip", "--full").out
    exported = here("export", "trip", "--format", "md").out

    assert (0, "", True) == (done.code, done.err, done.out.startswith("compacted: "))
    assert "tenuto show --full has them" in view
    assert "- I live in Oslo." in view
    assert "user (1)" not in view
    assert "user (1)\n  I live in Oslo.\n" in full
    assert "[summary of the entries up to " in full
    assert "Summary of the entries up to " in exported
    assert exported.count("I live in Oslo.") >= 2
    assert before == shown(here)[: len(before)]
    assert here("audit", "trip").code == here("resume", "trip", "Thanks.").code == here("audit", "trip").code == 0


def test_compaction_can_be_undone(here, talked):
    assert "is not compacted" in here("compact", "trip", "--undo").out
    done = json.loads(here("compact", "trip", "--focus", "the hotel", "--json").out)
    undone = here("compact", "trip", "--undo")
    requested = [entry["body"] for entry in shown(here) if entry["kind"] == "compaction_requested"]

    assert done["tokens_before"] > 0
    assert ["the hotel"] == [one["focus"] for one in requested]
    assert (0, True) == (undone.code, "the whole conversation is sent again" in undone.out)
    view = here("show", "trip").out
    assert "user (1)\n  I live in Oslo.\n" in view
    assert "the whole conversation is sent again from here on" in view


def test_compact_needs_older_messages(here):
    here("run", "Hello", "-m", MODEL, "--name", "trip")
    done = here("compact", "trip")

    assert (0, True) == (done.code, done.out.startswith("not compacted: "))
    assert here("compact", "trip", "--plan").out == "compaction: nothing to compact\n"
