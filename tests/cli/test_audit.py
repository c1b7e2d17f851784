"""`audit` and `handover`: what would be refused is known before anybody is asked, and a session changes hands."""

from __future__ import annotations

import asyncio
import json
import re

import pytest

from tenuto import settings
from tenuto.core.journal import HandedOver, MessageAdded, RequestStarted
from tenuto.core.messages import UserMessage
from tenuto.core.stored import make_draft
from tenuto.store.open import open_store
from tenuto.testing import say, think, turn
from tenuto.wire.write import ENCODER_VERSION


@pytest.fixture
def talked(here, tenuto_sim):
    """A session of one question, asked of the simulated Anthropic."""
    tenuto_sim.script(turn(think("Hm."), say("One.")), turn(think("So."), say("Two.")), turn("Three."))
    assert here("run", "Go.", "-m", "sim/anthropic", "-q").code == 0
    return tenuto_sim


def entries():
    async def read():
        async with open_store(settings.store()) as store:
            return await store.read(await store.find("last"))

    return asyncio.run(read())


def test_a_session_that_would_be_taken(here, talked):
    done = here("audit")

    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[0].startswith("sim/anthropic (anthropic-messages): accepted; ")
    assert "1 past request written again" in done.out


def test_what_another_would_not_get(here, talked):
    """Nothing is written by asking."""
    before = entries()
    done = here("audit", "last", "-m", "sim/openai")

    assert done.code == 0
    assert "dropped  messages[1].blocks[0]" in done.out
    assert entries() == before


def test_as_a_document(here, talked):
    done = here("audit", "last", "--json")
    document = json.loads(done.out)

    assert done.code == 0
    assert document["clean"] is True
    assert document["target"] == "sim/anthropic"
    assert document["compared"] == 1
    assert [block["outcome"] for block in document["blocks"]] == ["kept"] * len(document["blocks"])
    assert all(block["pointer"].startswith("/messages/") for block in document["blocks"])


def test_a_journal_that_does_not_say_what_was_sent(here, talked):
    """A question that cannot be made again as it was sent is a finding, and the code says so."""
    acts = (
        MessageAdded(UserMessage("And?")),
        RequestStarted("sim/anthropic", digest="0" * 64, encoder_version=ENCODER_VERSION),
    )

    async def falsify():
        async with open_store(settings.store()) as store:
            lease = await store.lease(await store.find("last"))
            lease = await store.append(
                lease, [make_draft(act, id=f"false{at}", time_ms=1) for at, act in enumerate(acts)]
            )
            await store.release(lease)

    asyncio.run(falsify())
    done = here("audit")

    assert done.code == 8
    assert "changed  request-changed" in done.out
    assert "2 past requests written again" in done.out


def test_a_session_goes_on_with_another_model_and_back(here, talked):
    there = here("handover", "last", "sim/openai")

    assert there.code == 0
    assert "switched to sim/openai; " in there.out
    assert "foreign-reasoning" in there.out
    assert isinstance(entries()[-1].payload, HandedOver)
    assert here("resume", "last", "Again.", "-q").out == "Two.\n"
    back = here("handover", "last", "sim/anthropic", "--json")
    assert json.loads(back.out)["model"] == "sim/anthropic"
    assert here("resume", "last", "And?", "-q").out == "Three.\n"
    assert here("audit").code == 0
    talked.assert_clean()


def test_whom_it_asks_already(here, talked):
    before = entries()
    done = here("handover", "last", "sim/anthropic")

    assert (done.code, "already" in done.out) == (0, True)
    assert entries() == before


MISUSED = [
    (["handover", "last", "nobody/x"], 2),
    (["handover", "last", "openai-chat/gpt-5.2"], 2),
    (["handover", "nowhere", "sim/openai"], 7),
    (["handover", "last"], 2),
    (["audit", "nowhere"], 7),
    (["audit", "-m", "nobody/x"], 2),
]


def test_what_cannot_be_meant(here, talked):
    before = entries()
    for arguments, code in MISUSED:
        done = here(*arguments)

        assert (done.code, done.out) == (code, ""), arguments
        assert done.err
    assert entries() == before


NOBODYS = {
    "gpt": "'gpt' is not a model name: use provider/model, such as openai/gpt-",
    "": "'' is not a model name: use provider/model, such as sim/anthropic",
    "gpt-oss-120b": "no provider in 'gpt-oss-120b': use cerebras/gpt-oss-120b or sambanova/gpt-oss-120b or",
    "sim/openai:high": "effort cannot change on resume; drop :high",
}


def test_a_model_that_is_nobodys_names_near_ones(here, talked):
    before = entries()
    for model, why in NOBODYS.items():
        for verb in (["audit", "-m"], ["handover", "last"]):
            done = here(*verb, model)

            assert (done.code, done.out) == (2, ""), (verb, model)
            assert why in done.err
    assert entries() == before


def test_a_server_of_ones_own_is_known(here, talked, tmp_path):
    (tmp_path / "home").mkdir(exist_ok=True)
    (tmp_path / "home" / "config.toml").write_text("[providers.mine]\nbase_url = 'http://localhost:1/v1'\n")
    audited, handed = here("audit", "-m", "mine/gpt-oss-120b"), here("handover", "last", "mine/gpt-oss-120b")

    assert (audited.code, handed.code) == (0, 0)
    assert here("audit", "--json").out.count('"target":"mine/gpt-oss-120b"') == 1


def test_an_answer_is_not_lost_by_being_the_last_word(here, talked):
    """A model that takes no words put in its mouth is not asked before the user has said something."""
    done = here("handover", "last", "anthropic/claude-opus-4-6")

    assert done.code == 0
    assert "foreign-reasoning" in done.out
    assert "One." not in done.out


def test_where_there_are_no_sessions(here):
    assert here("audit").code == 7
    assert here("handover", "last", "sim/openai").code == 7


def test_audit_and_handover_in_a_pipe_and_in_a_terminal(tenuto, tenuto_sim):
    """The same words, and nothing else."""
    tenuto_sim.script(turn("Hello."))
    tenuto.run("run", "Hi", "-q")
    piped = tenuto.run("audit")
    code, seen = tenuto.terminal("audit").end()
    there = tenuto.run("handover", "last", "sim/openai")
    back = tenuto.terminal("handover", "last", "sim/anthropic").end()

    assert (0, "") == (piped.code, piped.err)
    assert (0, piped.out.split()) == (code, seen.split())
    assert re.fullmatch(r"session \w+ switched to sim/openai; \d+ loss(es)?\n(  .*\n)*", there.out)
    assert (0, True) == (back[0], back[1].startswith(there.out.split(" switched")[0]))
    assert "switched to sim/anthropic; 0 losses" in back[1]
