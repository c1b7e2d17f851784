"""`--schema`: an answer of a shape, checked; one that does not fit is printed, and ends with 8."""

from __future__ import annotations

import json

import pytest

from tenuto.testing import call, refuse, say, think, turn

CITY = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "people": {"type": "integer", "minimum": 0}},
    "required": ["name", "people"],
    "additionalProperties": False,
}
TYPES = '''
import msgspec

class City(msgspec.Struct):
    name: str
    people: int

class Odd:
    """Nothing that JSON could be."""
'''


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
    assert file.err.startswith("resume with")
    assert (written, {"name": "Oslo", "people": 717710}) == (told["text"], told["data"])
    assert all("people" in json.dumps(request.body["output_config"]) for request in tenuto_sim.requests)
    tenuto_sim.assert_clean()


@pytest.mark.parametrize("model", ["anthropic", "openai", "gemini", "chat", "deepseek"])
def test_what_is_no_object_comes_out_of_what_it_is_put_in(here, tenuto_sim, tmp_path, model):
    """Providers that hold a model to a schema take objects only; one that takes none is told in words, and may fence."""
    (tmp_path / "numbers.json").write_text('{"type": "array", "items": {"type": "number"}}')
    native = model != "deepseek"
    tenuto_sim.script(turn(say('{"value": [1.10, 2]}' if native else "```json\n[1.10, 2]\n```")))
    asked = ("run", "Count.", "--schema", "numbers.json", "-m", f"sim/{model}")
    done, told = here(*asked, "-q"), json.loads(here(*asked, "--json").out)

    assert (0, "[1.10, 2]\n", "") == (done.code, done.out.replace("]\n\n", "]\n"), done.err)
    assert ("[1.10, 2]", [1.1, 2]) == (told["text"].strip(), told["data"])
    assert native != ("Respond ONLY with valid JSON" in json.dumps(tenuto_sim.requests[0].body))
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


def test_an_answer_that_waits_is_checked_when_it_comes(here, tenuto_sim, city):
    tenuto_sim.script(turn(call("shell", {"command": "true"})), turn('{"name": "Oslo"}'))
    waits = here("run", "Which?", "-T", "shell", "--schema", "city.json")
    done = here("resume", "--schema", "city.json", "--approve", "auto", "-q")

    assert (6, "") == waits[:2]
    assert (8, '{"name": "Oslo"}\n') == done[:2]
    assert 'property "people" is missing' in done.err


def test_the_shape_goes_to_the_file(here, tenuto_sim, tmp_path, city):
    tenuto_sim.script(turn('{"name": "Oslo", "people": 1}'))
    done = here("run", "Which?", "--schema", "city.json", "--out", "answer.json")

    assert (0, "") == done[:2]
    assert {"name": "Oslo", "people": 1} == json.loads((tmp_path / "answer.json").read_text())


MISUSED = [
    ("nowhere.json", "cannot be read: No such file or directory; it is a file, or MODULE:TYPE"),
    ("words.json", "is not JSON: "),
    ("list.json", "it must be an object"),
    ("broken.json", "refers to nothing in it"),
    ("type.json", "unknown type 'strin'; use one of object, array, string"),
    ("no_such_module_x:City", "'no_such_module_x' cannot be imported"),
    ("{types}:Town", "has no 'Town'"),
    ("{types}:Odd", "output type Odd is not supported"),
]


@pytest.mark.parametrize("named, message", MISUSED, ids=[named for named, _ in MISUSED])
def test_what_is_no_schema_is_refused_before_anything_is_asked(here, tenuto_sim, city, tmp_path, named, message):
    (tmp_path / "words.json").write_text("City")
    (tmp_path / "list.json").write_text("[]")
    (tmp_path / "type.json").write_text(
        '{"properties": {"type": {"enum": [{"type": 1}], "items": {"type": ["null", "strin"]}}}}'
    )
    (tmp_path / "broken.json").write_text('{"$ref": "#/nowhere"}')
    done = here("run", "Which?", "--schema", named.format(types=city))

    assert (2, "") == done[:2]
    assert message in done.err
    assert [] == tenuto_sim.requests


def test_the_shape_is_said_once(here, city):
    done = here("run", "Which?", "--schema", "city.json", "-o", "response_format=json_object")

    assert 2 == done.code
    assert "use either" in done.err


def test_schema_module_that_exits_is_code_2(here, tmp_path, monkeypatch):
    (tmp_path / "quits.py").write_text("import sys\nsys.exit(0)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    done = here("run", "Hi", "--schema", "quits:T")

    assert (2, True) == (done.code, "'quits' cannot be imported: SystemExit" in done.err)
