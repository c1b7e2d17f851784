"""`--schema`: structured output, which is checked; an answer that does not fit is printed, and the exit code is 8."""

from __future__ import annotations

import json

import pytest

from tenuto.testing import call, deny, refuse, say, think, turn

CITY = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "people": {"type": "integer", "minimum": 0}},
    "required": ["name", "people"],
    "additionalProperties": False,
}
TYPES = """
import msgspec

class City(msgspec.Struct):
    name: str
    people: int
"""


@pytest.fixture
def city(tmp_path, module):
    """A file with a schema, and a module with the type."""
    (tmp_path / "city.json").write_text(json.dumps(CITY))
    return module(TYPES)


def test_an_answer_that_fits_is_printed_as_the_model_wrote_it(here, tenuto_sim, city):
    """The provider is told of the schema where it takes one; a type says the same as a file."""
    written = '{"name": "Oslo",\n "people": 717710}'
    tenuto_sim.script(turn(think("Hm."), say(written)))
    file, kind = here("run", "Which?", "--schema", "city.json"), here("run", "Which?", "--schema", f"{city}:City", "-q")
    told = json.loads(here("run", "Which?", "--schema", "city.json", "--json").out)

    assert (0, f"{written}\n") == file[:2] == kind[:2]
    assert file.err.startswith("Hm.\nresume with")
    assert (written, {"name": "Oslo", "people": 717710}) == (told["text"], told["data"])
    assert all("people" in json.dumps(request.body["output_config"]) for request in tenuto_sim.requests)
    tenuto_sim.assert_clean()


UNFIT = [
    (say('{"name": "Oslo", "people": -1}'), "/people: expected at least 0, got number -1"),
    (say('{"people": "many"}'), '/people: expected integer, got string "many"; (root): property "name" is missing'),
    (say("It is Oslo."), "not JSON: "),
    (refuse("I won't."), "the model refused"),
]


@pytest.mark.parametrize("step, where", UNFIT, ids=["limit", "several", "words", "refusal"])
def test_an_answer_that_does_not_fit_is_printed_and_says_where(here, tenuto_sim, city, step, where):
    tenuto_sim.script(turn(step))
    done = here("run", "Which?", "--schema", "city.json", "-m", "sim/openai")
    told = here("run", "Which?", "--schema", "city.json", "-m", "sim/openai", "--json")
    document = json.loads(told.out)

    assert 8 == done.code == told.code == document["exit_code"]
    assert f"{document['text']}\n" == done.out
    assert "error: the answer does not fit the schema" in done.err
    assert where in done.err
    assert (None, "SchemaMismatch", "completed") == (document["data"], document["error"]["type"], document["status"])
    assert "resume with: tenuto resume 01" in done.err


def test_a_session_that_goes_on_is_told_the_schema_in_words(here, tenuto_sim, city):
    """What a session asks with stays as it is; one that was begun with the schema needs no words."""
    tenuto_sim.script(turn("Hello."), turn('{"name": "Oslo", "people": 1}'))
    here("run", "Hi")
    told = here("resume", "last", "Which?", "--schema", "city.json", "-q")
    tenuto_sim.script(turn('{"name": "Oslo", "people": 1}'), turn('{"name": "Bergen"}'))
    here("run", "Which?", "--schema", "city.json")
    again = here("run", "-c", "And?", "--schema", f"{city}:City")
    later = here("resume", "--schema", "city.json")
    words = ["Respond ONLY" in json.dumps(request.body["messages"][-1]) for request in tenuto_sim.requests]

    assert (0, '{"name": "Oslo", "people": 1}\n') == told[:2]
    assert [False, True, False] == words[:3]
    assert (2, "") == again[:2]  # the type's schema is another one: it has a title
    assert "started with another schema" in again.err
    assert (0, '{"name": "Oslo", "people": 1}\n') == later[:2]


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
    """Also after an error."""
    tenuto_sim.script(turn("Four."))
    for code in (0, 1):
        one, lines = json.loads(here("run", "2 + 2?", "--json").out), lines_of(here("run", "2 + 2?", "--jsonl"))
        last = {name: value for name, value in lines[-1].items() if name not in ("seq", "type")}

        assert list(one) == list(last)
        assert {**one, "session": ""} == {**last, "session": ""}
        assert code == last["exit_code"]
        tenuto_sim.script(turn(deny(400, message="No!", times=0)))


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


def test_jsonl_hides_thinking_and_starts_with_a_handover(here, tenuto_sim):
    tenuto_sim.script(turn(think("A secret."), "One."), turn(think("A secret."), "Two."))
    here("run", "first")
    done = here("run", "-c", "second", "-m", "sim/openai", "--jsonl", "--hide-thinking")
    lines = lines_of(done)

    assert ["handover", "run.start"] == [line["type"] for line in lines[:2]]
    assert ("sim/openai", "sim/anthropic") == (lines[0]["model"], lines[0]["before"])
    assert lines[0]["losses"]
    assert (False, "Two.") == ("secret" in done.out, lines[-1]["text"])
