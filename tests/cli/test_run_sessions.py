"""Which session `run` and `resume` continue, its name, its model and its directory."""

from __future__ import annotations

import json
import re

import pytest

from cli.conftest import stored_sessions
from tenuto.cli.options import expand_model
from tenuto.cli.session.models import model_ids
from tenuto.testing import call, deny, think, turn


def names():
    """Return the names of all sessions, the last one first."""
    return [one.name for one, _ in stored_sessions()]


def entries(here):
    return json.loads(here("show", "--json").out)["entries"]


def first_text(request):
    content = request.body["messages"][0]["content"]
    return content if isinstance(content, str) else content[0]["text"]


def test_run_continues_the_named_session(here, tenuto_sim):
    """By name, prefix of the id or position, or the last one."""
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
    assert begun == [first_text(request) for request in tenuto_sim.requests[2:]]
    assert 2 == len(names())
    tenuto_sim.assert_clean()


def test_name_of_a_session(here, tenuto_sim, monkeypatch):
    """A continued session can be named; a name that another process takes meanwhile does not end the run."""

    async def free(*_):
        """Report that no session has the name."""

    tenuto_sim.script(*[turn("Yes.")] * 3)
    here("run", "Hi")
    for _ in range(2):  # the second time, the session has the name
        assert 0 == here("run", "-c", "Hi", "-n", "weather").code
    assert ["weather"] == names()
    monkeypatch.setattr("tenuto.cli.session.open.check_name_is_free", free)
    done = here("run", "Hi", "-n", "weather")

    assert (0, "Yes.\n") == done[:2]
    assert "the session has no name: another session is called 'weather'" in done.err


def test_ephemeral_session_is_not_stored(here, tenuto_sim, tools):
    """There is no hint; a pending call cannot be allowed later."""
    tenuto_sim.script(turn("Yes."))
    done = here("run", "Hi", "--ephemeral")
    tenuto_sim.script(turn(call("blast", {"where": "here"})))
    waits = here("run", "Go!", "--ephemeral", "-T", "tools:blast")

    assert (0, "Yes.\n", "") == done
    assert (6, "") == waits[:2]
    assert "not saved (--ephemeral); allow such calls up front with --allow" in waits.err
    assert [] == names()


def test_settings_do_not_change_a_continued_session(here, tenuto_sim, monkeypatch, config):
    here("run", "Hi", "-m", "sim/openai")
    config('effort = "high"\nsystem = "Be brief."\nmax_tokens = 500\n')
    monkeypatch.setenv("TENUTO_MODEL", "sim/gemini")
    done = here("run", "-c", "Hi", "--json")
    new = here("run", "Hi", "--json")

    assert (0, "sim/openai") == (done.code, json.loads(done.out)["model"])
    assert (0, "sim/gemini") == (new.code, json.loads(new.out)["model"])
    assert "Be brief." in json.dumps(tenuto_sim.requests[-1].body)
    assert "Be brief." not in json.dumps(tenuto_sim.requests[-2].body)


def test_switching_reports_losses_once(here, tenuto_sim):
    """Before the request, and not again with each later one."""
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
    commands = [("run", "Hi", "-m", "claude-sonnet-4-5"), ("resume", "last", "And?", "-m", "claude-opus-4-6")]
    commands += [("handover", "last", "claude-opus-4-6"), ("audit", "last", "-m", "claude-opus-4-5")]

    assert [0] * 4 == [here(*command).code for command in commands]
    models = [entry["body"]["model"] for entry in entries(here) if entry["kind"] in ("configured", "handed_over")]
    assert ["anthropic/claude-sonnet-4-5", "anthropic/claude-opus-4-6"] == models


@pytest.mark.usefixtures("real_providers")
def test_missing_key_writes_nothing(here, tenuto_sim):
    """Neither a new session nor an entry; the last answer is still printed."""
    keyless = "anthropic/claude-sonnet-4-5"
    tenuto_sim.script(turn("One."))
    here("run", "Hi")
    before = entries(here)
    refused = [here("run", "Hi", "-m", keyless), here("run", "-c", "Hi", "-m", keyless)]
    refused += [here("chat", "-m", keyless, stdin="Hi\n")]
    assert before == entries(here)
    here("handover", "last", keyless)
    before = entries(here)
    refused.append(here("resume", "last", "Hi"))
    last = here("resume")

    for done in refused:
        assert (3, "") == done[:2]
        assert "error: no API key for anthropic\n  set ANTHROPIC_API_KEY" in done.err
        assert "resume with" not in done.err
    embedded = here("embed", "--text", "Hi", "-m", "openai/text-embedding-3-small")
    assert (3, True) == (embedded.code, "no API key for openai\n  set OPENAI_API_KEY" in embedded.err)
    assert (0, "One.\n") == last[:2]
    assert (1, before) == (len(names()), entries(here))


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


@pytest.mark.parametrize(
    "typed, full",
    [("sim", "sim/anthropic"), ("fast", "sim/openai"), ("fast:low", "sim/openai"), ("dear", "sim/gemini")],
)
def test_short_names_and_aliases_of_models(here, tenuto_sim, config, typed, full):
    config('[aliases]\nfast = "sim/openai"\ndear = "sim/gemini:high"\n')

    assert full == json.loads(here("run", "Hi", "-m", typed, "--json").out)["model"]
    assert ("low" in typed or typed == "dear") == ("effort" in json.dumps(entries(here)[0]["body"]))


@pytest.mark.parametrize(
    "short, start",
    [("opus", "anthropic/claude-opus-"), ("haiku:low", "anthropic/claude-haiku-"), ("gpt", "openai/gpt-")],
)
def test_short_name_is_the_newest_of_its_family(short, start):
    full = expand_model(short)

    assert (True, ":low" in short) == (full.startswith(start), full.endswith(":low"))
    assert full.partition(":")[0] in model_ids()
    tagged = [f"{id}:free" for id in model_ids() if id.startswith(("ollama/", "openrouter/"))]
    assert tagged == [expand_model(name) for name in tagged] != []
