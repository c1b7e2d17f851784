"""`--jsonl`: every event as one JSON line, the document of `--json` last."""

from __future__ import annotations

import json

import pytest

from tenuto.testing import call, deny, say, think, turn


def lines_of(done):
    return [json.loads(line) for line in done.out.splitlines()]


@pytest.mark.parametrize("model", ["anthropic", "openai", "gemini", "chat"])
def test_jsonl_has_each_event_whole(here, tenuto_sim, tools, model):
    text = "A sentence that occurs nowhere else."
    tenuto_sim.script(turn(think("Hm."), say("I dig."), call("dig", {"depth": 12345})), turn(say(text)))
    done = here("run", "Dig!", "-T", "tools:dig", "-m", f"sim/{model}", "--jsonl")
    lines = lines_of(done)
    *events, result = lines
    stored = json.loads(here("show", "--json").out)["entries"]
    replies = [entry["body"]["message"]["blocks"] for entry in stored if entry["kind"] == "reply_received"]
    done_lines = [line for line in events if line["type"] == "message.done"]

    assert (0, "noise\n") == (done.code, done.err)
    assert list(range(1, len(lines) + 1)) == [line["seq"] for line in lines]
    assert {result["session"]} == {line["session"] for line in lines}
    assert ("result", text, "completed", 0) == tuple(result[name] for name in ("type", "text", "status", "exit_code"))
    assert replies == [line["response"]["choices"][0]["message"]["blocks"] for line in done_lines]
    parts = [line["part"] for line in events if line["type"] == "content.done"]
    assert parts == [block for blocks in replies for block in blocks]
    assert ["12345 m deep"] == [line["result"]["content"] for line in events if line["type"] == "tool.done"]


def test_jsonl_ends_with_the_document_of_json(here, tenuto_sim):
    """With the same members, in the same order."""
    tenuto_sim.script(turn("Four."))
    one, lines = json.loads(here("run", "2 + 2?", "--json").out), lines_of(here("run", "2 + 2?", "--jsonl"))
    last = {name: value for name, value in lines[-1].items() if name not in ("seq", "type")}

    assert list(one) == list(last)
    assert {**one, "session": ""} == {**last, "session": ""}


def test_jsonl_has_pending_calls(here, tenuto_sim, tools):
    tenuto_sim.script(turn(call("blast", {"where": "here"})), turn("Blasted."))
    first = here("run", "Go!", "-T", "tools:blast", "--jsonl")
    later = lines_of(here("resume", "-T", "tools:blast", "--jsonl", "--approve", "auto"))
    [approval] = [line for line in lines_of(first) if line["type"] == "approval"]
    [finished] = [line for line in later if line["type"] == "tool.done"]

    assert (6, "blast") == (first.code, approval["call"]["name"])
    assert ["blast"] == [one["name"] for one in lines_of(first)[-1]["pending"]]
    assert "here is gone" == finished["result"]["content"]


def test_jsonl_nests_events_of_sub_agents(here, tenuto_sim, tools):
    tenuto_sim.script(turn(call("helper", {"prompt": "help"})), turn("Helped."), when="please")
    tenuto_sim.script(turn(call("dig", {"depth": 7})), turn("Seven."), when="help")
    lines = lines_of(here("run", "please", "-T", "tools:helper", "--jsonl"))
    nested = [line for line in lines if line["type"] == "sub_agent"]

    assert {lines[0]["session"]} == {line["session"] for line in lines}
    assert 1 == len({line["sub_session"] for line in nested})
    assert ["7 m deep"] == [
        line["event"]["result"]["content"] for line in nested if line["event"]["type"] == "tool.done"
    ]


def test_jsonl_hides_thinking(here, tenuto_sim):
    tenuto_sim.script(turn(think("A secret."), say("Four.")))
    for model in ("sim/anthropic", "sim/openai"):
        done = here("run", "2 + 2?", "--jsonl", "--hide-thinking", "-m", model)

        assert "secret" not in done.out
        assert "Four." == lines_of(done)[-1]["text"]


def test_jsonl_ends_with_the_error(here, tenuto_sim):
    tenuto_sim.script(turn(deny(400, message="No!", times=0)))
    done = here("run", "Hi", "--jsonl")
    last = lines_of(done)[-1]

    assert (1, "result", 1, "BadRequest") == (done.code, last["type"], last["exit_code"], last["error"]["type"])
    assert "error: sim: No!" in done.err


def test_jsonl_starts_with_a_handover(here, tenuto_sim):
    tenuto_sim.script(turn(think("Hm."), "One."), turn("Two."))
    here("run", "first")
    lines = lines_of(here("run", "-c", "second", "-m", "sim/openai", "--jsonl"))

    assert ["handover", "run.start"] == [line["type"] for line in lines[:2]]
    assert ("sim/openai", "sim/anthropic") == (lines[0]["model"], lines[0]["before"])
    assert lines[0]["losses"]
