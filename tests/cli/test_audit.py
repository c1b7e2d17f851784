"""`audit` and `handover`: what a provider would refuse or not get, before and after a session switches."""

from __future__ import annotations

import asyncio
import json

import pytest

from cli.canned_provider import append_entries
from tenuto import Agent, settings
from tenuto.core.journal import HandedOver, MessageAdded, RequestStarted
from tenuto.core.messages import UserMessage
from tenuto.store.open import open_store
from tenuto.testing import say, think, turn
from tenuto.wire.write import ENCODER_VERSION


@pytest.fixture
def session(here, tenuto_sim):
    """A session of one request to the simulated Anthropic."""
    tenuto_sim.script(turn(think("Hm."), say("One.")), turn(think("So."), say("Two.")), turn("Three."))
    assert here("run", "Go.", "-m", "sim/anthropic", "-q").code == 0
    return tenuto_sim


def entries():
    async def read():
        async with open_store(settings.store()) as store:
            return await store.read(await store.find("last"))

    return asyncio.run(read())


def test_audit_of_the_own_model_is_one_line(here, session):
    done = here("audit")

    assert (0, "") == (done.code, done.err)
    assert (
        "accepted by sim/anthropic: 3 blocks kept (1 signed)\n1 past request reproduced byte for byte\n"
    ) == done.out


def test_audit_counts_blocks_that_another_model_does_not_get(here, session):
    before = entries()
    done, verbose = here("audit", "last", "-m", "sim/openai"), here("audit", "-m", "sim/openai", "--verbose")

    assert (0, 0) == (done.code, verbose.code)
    assert [
        "accepted by sim/openai: 2 blocks kept, 1 dropped",
        "not sent: 1 reasoning block; restored if you switch back",
        "1 past request reproduced byte for byte",
        "details: tenuto audit --verbose",
    ] == done.out.splitlines()
    assert "dropped  messages[1].blocks[0]" in verbose.out
    assert entries() == before


def test_audit_json_has_every_block(here, session):
    document = json.loads(here("audit", "last", "--json").out)

    assert (True, "sim/anthropic", 1) == tuple(document[name] for name in ("clean", "target", "compared"))
    assert [block["outcome"] for block in document["blocks"]] == ["kept"] * len(document["blocks"])
    assert all(block["pointer"].startswith("/messages/") for block in document["blocks"])


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
    there = here("handover", "last", "sim/openai")

    assert there.code == 0
    assert "switched to sim/openai\nnot sent: 1 reasoning block; restored if you switch back\n" in there.out
    assert isinstance(entries()[-1].payload, HandedOver)
    assert here("resume", "last", "Again.", "-q").out == "Two.\n"
    back = json.loads(here("handover", "last", "sim/anthropic", "--json").out)
    assert ("sim/anthropic", True) == (back["model"], all("location" in loss for loss in back["losses"]))
    assert here("resume", "last", "And?", "-q").out == "Three.\n"
    assert here("audit").code == 0
    session.assert_clean()


def test_handover_to_the_same_model_writes_nothing(here, session):
    before = entries()

    assert "already uses sim/anthropic" in here("handover", "last", "sim/anthropic").out
    assert entries() == before


MISUSED = [
    (["handover", "last", "nobody/x"], 2, "unknown provider 'nobody'"),
    (["handover", "last", "openai-chat/gpt-5.2"], 2, ""),
    (["handover", "nowhere", "sim/openai"], 7, "'nowhere'"),
    (["handover", "last"], 2, "Missing argument"),
    (["audit", "nowhere"], 7, "'nowhere'"),
]
MODELS = {
    "nobody/x": "unknown provider 'nobody'",
    "grok": "'grok' is not a model name: use provider/model, such as xai/grok-",
    "": "'' is not a model name: use provider/model, such as sim/anthropic",
    "gpt-oss-120b": "no provider in 'gpt-oss-120b': use cerebras/gpt-oss-120b or sambanova/gpt-oss-120b or",
    "sim/openai:high": "effort cannot change on resume; drop :high",
}


def test_audit_and_handover_reject_unusable_arguments(here, session):
    before = entries()
    models = [
        ([*verb, name], 2, why) for name, why in MODELS.items() for verb in (["audit", "-m"], ["handover", "last"])
    ]
    for arguments, code, message in (*MISUSED, *models):
        done = here(*arguments)

        assert (done.code, done.out) == (code, ""), arguments
        assert message in done.err
    assert entries() == before


def test_audit_and_handover_know_custom_servers(here, session, tmp_path):
    (tmp_path / "home").mkdir(exist_ok=True)
    (tmp_path / "home" / "config.toml").write_text("[providers.mine]\nbase_url = 'http://localhost:1/v1'\n")
    audited, handed = here("audit", "-m", "mine/gpt-oss-120b"), here("handover", "last", "mine/gpt-oss-120b")

    assert (audited.code, handed.code) == (0, 0)
    assert '"target":"mine/gpt-oss-120b"' in here("audit", "--json").out


def test_handover_keeps_the_last_answer(here, session):
    """A model that takes no prefilled answer gets a request only after the next user message."""
    done = here("handover", "last", "anthropic/claude-opus-4-6")

    assert (0, True, False) == (done.code, "1 reasoning block" in done.out, "One." in done.out)


def test_audit_and_handover_without_sessions_are_code_7(here):
    assert (7, 7) == (here("audit").code, here("handover", "last", "sim/openai").code)


def test_audit_and_handover_print_the_same_on_a_terminal(tenuto, tenuto_sim):
    tenuto_sim.script(turn("Hello."))
    tenuto.run("run", "Hi", "-q")
    piped = tenuto.run("audit")
    code, seen = tenuto.terminal("audit").end()
    there = tenuto.run("handover", "last", "sim/openai")
    back = tenuto.terminal("handover", "last", "sim/anthropic").end()

    assert (0, "") == (piped.code, piped.err)
    assert (0, piped.out.split()) == (code, seen.split())
    assert (0, there.out.replace("openai", "anthropic")) == back
