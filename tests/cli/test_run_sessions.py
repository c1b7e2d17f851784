"""Which session `run` and `resume` go on with, what it is called, whom it asks, and where it is kept."""

from __future__ import annotations

import asyncio
import json
import re
import shlex

import pytest

from tenuto import settings
from tenuto.cli.options import expand_model
from tenuto.cli.session.models import model_ids
from tenuto.store.open import open_store
from tenuto.testing import call, deny, think, turn

TOOL = '''
from tenuto import tool

@tool(approval=True)
def blast(where: str) -> str:
    """Blast."""
    return "boom"
'''


def listed():
    """The names of all the sessions that are kept, the last one first."""

    async def names():
        async with open_store(settings.store()) as store:
            return [one.name for one in (await store.sessions(archived=None)).sessions]

    return asyncio.run(names())


def entries(here):
    return json.loads(here("show", "--json").out)["entries"]


def first_said(request):
    """What a conversation begins with, as the provider is told."""
    content = request.body["messages"][0]["content"]
    return content if isinstance(content, str) else content[0]["text"]


def test_run_continues_the_named_session(here, tenuto_sim):
    """The last one, one by its name, by how its id begins, or by its place."""
    tenuto_sim.script(*[turn("Yes.")] * 4)
    first = json.loads(here("run", "first", "-n", "weather", "--json").out)["session"]
    here("run", "second")
    for how in (
        ["-c"],
        ["--session", "weather"],
        ["--session", first[:12]],
        ["--session", "~1"],
        ["--session", "last"],
    ):
        assert (0, "Yes.\n") == here("run", "more", *how)[:2]

    begun = ["second", "first", "first", "second", "second"]  # what went on is the last one from then on
    assert begun == [first_said(request) for request in tenuto_sim.requests[2:]]
    assert 2 == len(listed())
    tenuto_sim.assert_clean()


@pytest.mark.parametrize("name", ["weather", "a b", "Öl"])
def test_taken_name_is_refused_before_a_request(here, tenuto_sim, name):
    here("run", "Hi", "-n", name)
    again = here("run", "Hi", "-n", name)

    assert [name] == listed()
    assert (2, "") == again[:2]
    assert f"another session is called {name!r}: 01" in again.err
    assert f"(--session {shlex.quote(name)})" in again.err
    assert 1 == len(tenuto_sim.requests)


def test_continued_session_can_be_named(here, tenuto_sim):
    tenuto_sim.script(*[turn("Yes.")] * 3)
    here("run", "Hi")
    for _ in range(2):  # the second time it is called so already
        assert 0 == here("run", "-c", "Hi", "-n", "weather").code

    assert ["weather"] == listed()


def test_name_taken_meanwhile_does_not_end_the_run(here, tenuto_sim, monkeypatch):
    async def not_yet(*_):
        """Nobody has the name at this moment."""

    tenuto_sim.script(turn("Yes."))
    here("run", "Hi", "-n", "weather")
    monkeypatch.setattr("tenuto.cli.session.open.check_name_is_free", not_yet)
    done = here("run", "Hi", "-n", "weather")

    assert (0, "Yes.\n") == done[:2]
    assert "the session has no name: another session is called 'weather'" in done.err


def test_ephemeral_session_is_not_stored(here, tenuto_sim, module):
    """Not even a hint; a call that waits for somebody's word waits in vain, and that is said."""
    tenuto_sim.script(turn("Yes."), turn(call("blast", {"where": "here"})))
    done = here("run", "Hi", "--ephemeral")
    tenuto_sim.script(turn(call("blast", {"where": "here"})))
    waits = here("run", "Go!", "--ephemeral", "-T", f"{module(TOOL)}:blast")

    assert (0, "Yes.\n", "") == done
    assert (6, "") == waits[:2]
    assert "not saved (--ephemeral); allow such calls up front with --allow" in waits.err
    assert [] == listed()


MISUSED = [
    (["run", "-c", "--session", "x", "Hi"], "use either --continue or --session"),
    (["run", "-c", "--ephemeral", "Hi"], "use either --continue or --ephemeral"),
    (["run", "--session", "x", "--ephemeral", "Hi"], "use either --session or --ephemeral"),
    (["run", "--ephemeral", "-n", "x", "Hi"], "use either --ephemeral or --name"),
    (["run", "--ephemeral", "--store", "x.db", "Hi"], "use either --ephemeral or --store"),
    (["run", "--json", "--jsonl", "Hi"], "use either --json or --jsonl"),
    (["run", "--jsonl", "--out", "x", "Hi"], "use either --out or --jsonl"),
    (["run", "-n", "last", "Hi"], "'last' is not a name"),
    (["run", "-n", "~3", "Hi"], "'~3' is not a name"),
    (["run", "-n", " x", "Hi"], "is not a name"),
    (["run", "-c", "-s", "Be brief.", "Hi"], "--system only applies to new sessions"),
    (["run", "-c", "--effort", "low", "Hi"], "--effort only applies to new sessions"),
    (["resume", "last", "-o", "seed=1"], "--option only applies to new sessions"),
    (["resume", "last", "--max-tokens", "100"], "--max-tokens only applies to new sessions"),
    (["run", "Hi", "-m", "sim/anthropic:huge"], "unknown effort 'huge' (none, minimal, low, medium, high, xhigh, max)"),
    (["resume", "last", "-m", "sim/openai:high"], "effort cannot change on resume"),
    (["resume", "last", "-m", "grok"], "'grok' is not a model name: use provider/model, such as xai/"),
    (["run", "Hi", "--timeout", "0"], "'--timeout': 0.0 is not in the range x>0.\n"),
    (["run", "Hi", "--fallback", "sim/openai,grok"], "'grok' is not a model name: use provider/model"),
    (["run", "Hi", "--session", ""], "--session is empty"),
    (["run", "Hi", "-n", ""], "--name is empty"),
    (["resume", ""], "SESSION is empty"),
    (["chat", ""], "SESSION is empty"),
    (["run", "Hi", "--takeover"], "--takeover needs a session"),
    (["run", "Hi", "--store", "/nowhere/x.db"], "--store: directory '/nowhere' does not exist"),
    (["run", "Hi", "--store", "/"], "--store: '/' is a directory: use the name of a file"),
]


def test_contradicting_options_write_nothing(here, tenuto_sim):
    here("run", "Hi")
    before = len(entries(here))
    for arguments, message in MISUSED:
        done = here(*arguments)

        assert (2, "") == done[:2], arguments
        assert message in done.err
        assert 2 == len(done.err.splitlines()), done.err
    assert 1 == len(tenuto_sim.requests)
    assert (before, 1) == (len(entries(here)), len(listed()))


def test_settings_do_not_change_a_continued_session(here, tenuto_sim, monkeypatch, tmp_path):
    """It is neither handed over nor refused for what stands in a file."""
    here("run", "Hi", "-m", "sim/openai")
    (tmp_path / "home").mkdir(exist_ok=True)
    (tmp_path / "home" / "config.toml").write_text('effort = "high"\nsystem = "Be brief."\nmax_tokens = 500\n')
    monkeypatch.setenv("TENUTO_MODEL", "sim/gemini")
    done = here("run", "-c", "Hi", "--json")
    new = here("run", "Hi", "--json")

    assert (0, "sim/openai") == (done.code, json.loads(done.out)["model"])
    assert (0, "sim/gemini") == (new.code, json.loads(new.out)["model"])
    assert "Be brief." in json.dumps(tenuto_sim.requests[-1].body)
    assert "Be brief." not in json.dumps(tenuto_sim.requests[-2].body)


def test_switching_reports_losses_once(here, tenuto_sim):
    """Before it is asked; what is lost is said when it is lost, and not with every question."""
    tenuto_sim.script(turn(think("Hm."), "One."), turn("Two."), turn("Three."), turn("Four."))
    here("run", "first")
    second = here("resume", "last", "second", "-m", "sim/openai")
    third = here("run", "-c", "third", "-m", "sim/openai", "--json")
    fourth = here("resume", "last", "fourth")
    kinds = [entry["kind"] for entry in entries(here)]

    assert [(0, "Two.\n"), (0, "Four.\n")] == [second[:2], fourth[:2]]
    assert re.search(r"(?m)^! switched to sim/openai\nnot sent: 1 reasoning block", second.err)
    assert "lost:" not in fourth.err
    assert ("sim/openai", 1) == (json.loads(third.out)["model"], kinds.count("handed_over"))
    assert {"AnthropicMeta", "3 characters of reasoning"} <= {
        loss["detail"] for loss in json.loads(third.out)["losses"]
    }
    tenuto_sim.assert_clean()


@pytest.mark.usefixtures("real_providers")
def test_fallback_answers(here, tenuto_sim, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "some-key")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", f"{tenuto_sim.base_url}/nowhere")
    tenuto_sim.script(turn("At last."))
    done = here("run", "Hi", "-m", "anthropic/claude-sonnet-4-5", "--fallback", "sim/openai, sim/gemini")

    assert (0, "At last.\n") == done[:2]
    assert "! switched to sim/openai" in done.err


def test_bare_model_name_resolves_to_its_owner(here, tenuto_sim, monkeypatch):
    """In run, resume, handover and audit; the session keeps the full name."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "some-key")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", tenuto_sim.base_url)
    tenuto_sim.script(turn("One."), turn("Two."), turn("Three."))
    done = [here("run", "Hi", "-m", "claude-sonnet-4-5"), here("resume", "last", "And?", "-m", "claude-opus-4-6")]
    done += [here("resume", "last", "And?", "-m", "claude-opus-4-6"), here("audit", "last", "-m", "claude-opus-4-5")]
    handed = here("handover", "last", "claude-opus-4-6", "--json")
    kept = entries(here)

    assert [(0, "One.\n"), (0, "Two.\n"), (0, "Three.\n")] == [one[:2] for one in done[:3]]
    assert 0 == done[3].code
    assert "anthropic/claude-sonnet-4-5" == next(
        entry["body"]["model"] for entry in kept if entry["kind"] == "configured"
    )
    assert ["anthropic/claude-opus-4-6"] == [entry["body"]["model"] for entry in kept if entry["kind"] == "handed_over"]
    assert [] == json.loads(handed.out)["losses"]


@pytest.fixture
def keyless(monkeypatch):
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    return "anthropic/claude-sonnet-4-5"


@pytest.mark.usefixtures("real_providers")
def test_missing_key_writes_nothing(here, tenuto_sim, keyless):
    """Neither of a session that would begin, nor to one that goes on; and the last answer can be had all the same."""
    tenuto_sim.script(turn("One."))
    new = here("run", "Hi", "-m", keyless)
    assert [] == listed()
    here("run", "Hi")
    before = entries(here)
    handed = here("run", "-c", "Hi", "-m", keyless)
    assert before == entries(here)
    here("handover", "last", keyless)
    before = entries(here)
    goes_on, owes_nothing = here("resume", "last", "Hi"), here("resume")
    assert before == entries(here)

    for done in (new, handed, goes_on):
        assert (3, "") == done[:2]
        assert "error: no API key for anthropic\n  set ANTHROPIC_API_KEY" in done.err
        assert "resume with" not in done.err
    assert (0, "One.\n") == owes_nothing[:2]


def test_a_model_that_is_not_there_names_near_ones(here, tenuto_sim):
    tenuto_sim.script(turn(deny(404, times=0)))
    done = here("run", "Hi", "-m", "sim/mistral")
    unknown = here("run", "Hi", "-m", "sim/mistrall")

    assert (2, 2) == (done.code, unknown.code)
    assert re.search(r"(?m)^  use .*; check the model name or pass another with -m", done.err)
    assert "use sim/mistral" in unknown.err


def test_resumed_session_works_in_its_own_directory(here, tenuto_sim, tmp_path, monkeypatch):
    tenuto_sim.script(turn(call("write_file", {"path": "a.txt", "content": "x"})), turn("Done."))
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "one")
    first = here("run", "Write.", "-T", "write_file", "-n", "writer")
    monkeypatch.chdir(tmp_path / "two")
    second = here("resume", "last", "--approve", "auto")

    assert (first.code, second.code) == (6, 0)
    assert [(tmp_path / name / "a.txt").exists() for name in ("one", "two")] == [True, False]
    assert "no such session in this directory; using 01" in second.err
    assert f' "writer" ({tmp_path}/one)\n' in second.err


def test_last_is_a_session_of_this_directory(here, tenuto_sim, tmp_path, monkeypatch):
    """A session without tools belongs to every directory."""
    tenuto_sim.script(*[turn("Yes.")] * 4)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        here("run", name, "-T", "read_file", "-n", name)
    here("run", "without tools", "-n", "free")
    titles = {}
    for name in ("two", "one"):
        monkeypatch.chdir(tmp_path / name)
        titles[name] = [json.loads(here("show", back, "--json").out)["session"]["name"] for back in ("last", "~1")]

    assert {"two": ["free", "two"], "one": ["free", "one"]} == titles


def test_resume_with_a_prompt_suggests_run(here):
    here("run", "Hi")
    done = here("resume", "and 2+2?")

    assert (7, True) == (done.code, "did you mean: tenuto run -c 'and 2+2?'" in done.err)


@pytest.mark.parametrize(
    "typed, full",
    [("sim", "sim/anthropic"), ("fast", "sim/openai"), ("fast:low", "sim/openai"), ("dear", "sim/gemini")],
)
def test_short_names_and_aliases_of_models(here, tenuto_sim, tmp_path, typed, full):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "config.toml").write_text('[aliases]\nfast = "sim/openai"\ndear = "sim/gemini:high"\n')

    assert full == json.loads(here("run", "Hi", "-m", typed, "--json").out)["model"]
    assert ("low" in typed or typed == "dear") == ("effort" in json.dumps(entries(here)[0]["body"]))


def test_tag_is_part_of_the_model_name():
    ids = [id for id in model_ids() if id.startswith(("ollama/", "openrouter/"))]

    assert ids
    assert [f"{id}:free" for id in ids] == [expand_model(f"{id}:free") for id in ids]


@pytest.mark.parametrize(
    "short, start",
    [("opus", "anthropic/claude-opus-"), ("haiku:low", "anthropic/claude-haiku-"), ("gpt", "openai/gpt-")],
)
def test_short_name_is_the_newest_of_its_family(short, start):
    full = expand_model(short)

    assert (True, ":low" in short) == (full.startswith(start), full.endswith(":low"))
    assert full.partition(":")[0] in model_ids()
