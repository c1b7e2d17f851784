"""The plugin for pytest: a fixture that needs nothing but its name."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

import tenuto.testing
from tenuto.sim.script import Cite, Say, Search, SearchResult

TEST = """
import os

import pytest

from tenuto import Client, tool
from tenuto.testing import call, say, think, turn


@tool
def weather(city: str) -> str:
    "Current weather."
    return "12 degrees in " + city


def test_an_agent_of_mine(tenuto_sim):
    tenuto_sim.script(turn(think("hm"), call("weather", {"city": "Oslo"})), turn(say("12 degrees")))
    with Client() as ai:
        reply = ai.chat("sim/anthropic", "Weather?", tools=[weather], effort="high")
        answers = [one.answer(weather(**one.parse())) for one in reply.tool_calls]
        assert ai.chat("sim/anthropic", reply.transcript + answers, tools=[weather], effort="high").text == "12 degrees"
    tenuto_sim.assert_clean()
    assert len(tenuto_sim.requests) == 2
    assert "ANT-THINK-02" in tenuto_sim.exercised
    assert os.environ["TENUTO_SIM_URL"] == tenuto_sim.base_url


def test_the_next_one_has_a_fresh_one(tenuto_sim):
    assert tenuto_sim.requests == []


def test_the_environment_is_as_before():
    assert "TENUTO_SIM_URL" not in os.environ


def test_that_is_not_clean(tenuto_sim):
    tenuto_sim.script("one")
    with Client(middleware=[]) as ai:
        sent = ai.chat("sim/anthropic", "Hi").transcript + "More"
        with pytest.raises(Exception):
            ai.chat("sim/anthropic", sent)
    tenuto_sim.assert_clean()
"""


def test_the_fixture_is_there_without_being_asked_for(tmp_path, monkeypatch):
    monkeypatch.delenv("TENUTO_SIM_URL", raising=False)
    (tmp_path / "test_mine.py").write_text(TEST)
    options = ["-q", "-p", "no:cacheprovider", "-W", "error", "--rootdir", str(tmp_path), str(tmp_path)]
    command = [sys.executable, "-m", "pytest", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)

    assert "3 passed" in done.stdout, done.stdout
    assert "1 failed" in done.stdout
    assert "script: the script has 1 turn" in done.stdout


def test_loading_the_plugin_loads_nothing_else():
    code = "import sys, tenuto.testing.plugin; print(sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(ast.literal_eval(done.stdout))

    assert set() == loaded & {"aiohttp", "asyncio", "msgspec", "tenuto.sim", "tenuto.core", "tenuto.client"}


@pytest.mark.parametrize("name", tenuto.testing.__all__)
def test_every_name_of_testing_can_be_loaded(name):
    found = getattr(tenuto.testing, name)

    assert found.__doc__
    assert name in dir(tenuto.testing)


def test_urls_stand_for_sources():
    from tenuto.testing import say, search

    assert say("a", cites="https://a.test") == say("a", cites=["https://a.test"]) == Say("a", (Cite("https://a.test"),))
    assert search("q", "https://a.test") == Search("q", (SearchResult("https://a.test"),))
