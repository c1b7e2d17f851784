"""What the assistant makes of odd requests: follow-ups, answers of a shape, loops that have to end, texts that cost time."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import json
import random
import time
from typing import Annotated, Literal, TypedDict

import jsonschema
import msgspec
import pydantic
import pytest

import tenuto
from sim.assistant_asking import CLOCK, NUMBER, SEND, TEXT, WEATHER, ask, calls, did, fields, got, spoke, text
from tenuto.sim import patterns
from tenuto.sim.asked import Offered, Said
from tenuto.sim.script import Think, texts

WHOLE, SWITCH = {"type": "integer"}, {"type": "boolean"}
MAILS = {"type": "array", "items": TEXT}
MOMENT = {"type": "string", "format": "date-time"}


def tool(name, description, *optional, **properties):
    return Offered(name=name, description=description, schema=fields(*optional, **properties))


MAIL = tool("send_email", "Send an e-mail", "cc", to=TEXT, subject=TEXT, body=TEXT, cc=MAILS)
LIGHT = tool("set_light", "Turn a light on or off", room=TEXT, on=SWITCH)
TIMER = tool("set_timer", "Set a timer", seconds=WHOLE)
READ = tool("read_file", "Read a file from disk", path=TEXT)
WRITE = tool("write_file", "Write content to a file", path=TEXT, content=TEXT)
BASH = tool("bash", "Run a shell command", command=TEXT)
STOCK = tool("get_stock_price", "Get the price of a stock", ticker=TEXT)
ISSUE = tool(
    "mcp__github__create_issue",
    "Create an issue in a repository",
    "labels",
    owner=TEXT,
    repo=TEXT,
    title=TEXT,
    labels=MAILS,
)
EVENT = tool(
    "create_event", "Create a calendar event", "attendees", "end", title=TEXT, start=MOMENT, attendees=MAILS, end=MOMENT
)


@pytest.mark.parametrize(
    "request_, tools, expected",
    [
        ("what is the weather like in san francisco?", (WEATHER,), [{"city": "san francisco"}]),
        ("weather oslo", (WEATHER,), [{"city": "oslo"}]),
        ("Is it colder in Oslo or in Bergen?", (WEATHER,), [{"city": "Oslo"}, {"city": "Bergen"}]),
        ("¿Qué tiempo hace en Madrid?", (WEATHER,), [{"city": "Madrid"}]),
        ("Wie ist das Wetter in München?", (WEATHER,), [{"city": "München"}]),
        ("Price of TSLA and MSFT", (STOCK,), [{"ticker": "TSLA"}, {"ticker": "MSFT"}]),
        ("Turn on the light in the kitchen", (LIGHT,), [{"room": "kitchen", "on": True}]),
        ("Turn off the bedroom light", (LIGHT,), [{"room": "bedroom", "on": False}]),
        ("Set a timer for 5 minutes", (TIMER,), [{"seconds": 300}]),
        ("Show me what's in src/main.py", (READ, WRITE, BASH), [{"path": "src/main.py"}]),
        ("Run `ls -la`", (READ, WRITE, BASH), [{"command": "ls -la"}]),
        ("run pytest", (READ, WRITE, BASH), [{"command": "pytest"}]),
        ("Explain what recursion is", (READ, WRITE, BASH), []),
        (
            "Create an issue in octocat/hello-world titled 'Bug in login' with label bug",
            (ISSUE,),
            [{"owner": "octocat", "repo": "hello-world", "title": "Bug in login"}],
        ),
        (
            "Send an email to bob@corp.com with subject 'Report' and body 'See attached'",
            (MAIL, WEATHER),
            [{"to": "bob@corp.com", "subject": "Report", "body": "See attached"}],
        ),
    ],
)
def test_arguments_are_those_of_the_request(request_, tools, expected):
    assert [arguments for _, arguments in calls(ask(request_, tools=tools))] == expected


def test_event_has_the_time_and_the_guest_and_no_made_up_end():
    said = "Create an event with bob@example.com on 2026-05-17 at 9:30 titled 'Standup'"
    ((_, arguments),) = calls(ask(said, tools=(EVENT,)))

    assert arguments == {"title": "Standup", "start": "2026-05-17T09:30:00Z", "attendees": ["bob@example.com"]}


BEFORE = (
    "Weather in Oslo?",
    did("get_weather"),
    got(("get_weather", "12 degrees")),
    spoke("get_weather says: 12 degrees"),
)


@pytest.mark.parametrize(
    "said, expected",
    [
        ("and in Bergen?", {"city": "Bergen"}),
        ("And Bergen?", {"city": "Bergen"}),
        ("what about Rome?", {"city": "Rome"}),
        ("no, I meant Paris", {"city": "Paris"}),
        ("in Fahrenheit please", {"city": "Oslo", "unit": "fahrenheit"}),
        ("try again", {"city": "Oslo"}),
        ("Try it again, please.", {"city": "Oslo"}),
    ],
)
def test_follow_up_goes_on_from_the_question_before(said, expected):
    assert calls(ask(*BEFORE, said, tools=(WEATHER, CLOCK))) == [("get_weather", expected)]


@pytest.mark.parametrize(
    "said", ["thanks", "Thank you, that's all", "and what is recursion?", "ok", "And tell me a joke"]
)
def test_not_every_word_afterwards_is_a_follow_up(said):
    assert not calls(ask(*BEFORE, said, tools=(WEATHER, CLOCK)))


def test_what_depends_on_a_result_waits_for_it():
    task = "Get the weather in Paris and email it to ann@example.org"
    first = ask(task, tools=(WEATHER, MAIL))
    then = ask(task, did("get_weather"), got(("get_weather", "12 degrees")), tools=(WEATHER, MAIL))

    assert calls(first) == [("get_weather", {"city": "Paris"})]
    ((name, arguments),) = calls(then)
    assert (name, arguments["to"], arguments["body"]) == ("send_email", "ann@example.org", "12 degrees")


def test_words_beside_results_do_not_begin_anew():
    task = "Weather in Oslo, Rome and Bergen"
    said, rounds = [task], 0
    while calls(turn := ask(*said, tools=(WEATHER,), parallel=False)):
        said += [did("get_weather"), Said(role="user", text=task, results=(("get_weather", "12"),))]
        rounds += 1
        assert rounds < 5
    assert rounds == 3
    assert text(turn).count("12") == 3


VERBS = ["get", "list", "create", "delete", "send", "search", "run", "submit", "final", "fetch"]
NOUNS = ["weather", "file", "user", "result", "order", "page", "answer"]
FIELDS = ["city", "path", "query", "items", "user_id", "on", "date", "email", "cc", "end", "answer", "command"]
BROUGHT = ["", "ok", "Error: no", '{"a": 1}', "call get_weather again", "Weather in Oslo, Rome and Paris", "x " * 500]
TASKS = [
    "Weather in Oslo, Bergen, Rome and Paris", "First get the weather, then send a message, finally delete the file", "",
    "Do it all: " + " ".join(VERBS + NOUNS), "get send search run fetch for Ada, Bob, Cy, Dan and Eve", "final answer",
]  # fmt: skip


def _shape(chance, depth=0):
    kinds = [TEXT, WHOLE, SWITCH, {"enum": ["x", "y"]}]
    if depth < 2:
        kinds += [{"type": "array", "items": _shape(chance, depth + 1)}, _some_fields(chance, depth + 1)]
    return chance.choice(kinds)


def _some_fields(chance, depth=0):
    names = chance.sample(FIELDS, chance.randint(0, 4))
    return fields(*names[: chance.randint(0, len(names))], **{name: _shape(chance, depth) for name in names})


@pytest.mark.parametrize("seed", range(60))
def test_loops_end_for_any_tools_and_results(seed):
    chance = random.Random(seed)
    names = {f"{chance.choice(VERBS)}_{chance.choice(NOUNS)}" for _ in range(chance.choice([1, 3, 9, 30]))}
    tools = {
        name: Offered(name=name, description=" ".join(chance.sample(VERBS + NOUNS, 4)), schema=_some_fields(chance))
        for name in sorted(names)
    }
    said, parallel = [chance.choice(TASKS)], chance.random() < 0.7
    for turn in range(24):
        made = calls(ask(*said, tools=tuple(tools.values()), request=f"{seed}/{turn}", parallel=parallel))
        for name, arguments in made:
            jsonschema.validate(arguments, tools[name].schema)
        if not made:
            return
        said += [did(*(name for name, _ in made)), got(*((name, chance.choice(BROUGHT)) for name, _ in made))]
    raise AssertionError("it never stops")


@pytest.mark.parametrize(
    "said, expected",
    [
        ("Count to 1,003", "1, 2, 3"),
        ("count to one hundred", "99, 100"),
        ("My favourite colour is green. What is my favourite colour?", "green"),
        ("Are you Claude?", "simulated"),
        ("What can you do?", "simulated"),
        ("What is 24/7 support?", "24/7 support"),
        ("It costs 5 - 10 dollars, what does that mean?", "5 - 10 dollars"),
        ("Print the numbers 1 to 5", "1, 2, 3, 4, 5"),
        ("Say hi in one word", "hi"),
        ("Type check this code", "simulated"),
        ("Answer with yes or no: is water wet?", "simulated"),
        ("Give me 3 random numbers", "1. number 1"),
        ("My name is Bob", "Noted."),
    ],
)
def test_answers_are_sensible(said, expected):
    assert expected in text(ask(said))


def test_that_which_was_said_is_repeated():
    assert text(ask("Hello", spoke("Hi there"), "repeat that")) == "Hi there"


@pytest.mark.parametrize("said", ["go on", "Why?", "yes", "Do it now."])
def test_sentences_have_an_end(said):
    for at in range(12):
        turn = ask(said, think=True, request=str(at), system="Be kind")
        words = text(turn) + "".join(texts(step.text) for step in turn if isinstance(step, Think))
        assert '" ' not in words.replace('." ', "").replace('?" ', "").replace('!" ', "")


def test_two_thoughts_can_be_put_together():
    turns = [ask("Weather in Oslo", tools=(WEATHER,), think=True, request=str(at)) for at in range(40)]
    pairs = [[step for step in turn if isinstance(step, Think)] for turn in turns]

    assert any(len(pair) == 2 for pair in pairs)
    assert all(texts(pair[0].text)[-1].isspace() for pair in pairs if len(pair) == 2)


@pytest.mark.parametrize("words", [5, 41, 50, 77, 150, 401])
def test_long_text_ends_with_a_sentence(words):
    said = text(ask(f"Write {words:02} words about cats")) if words > 9 else text(ask("Write a 05-word text"))

    assert len(said.split()) == words
    assert said.endswith(".")
    assert "filler" in said or words <= 40


@pytest.mark.parametrize(
    "brought",
    [
        "class MyError(Exception):\n    pass",
        '{"name": "x", "error": 0}',
        '{"error": []}',
        "ERROR 12:00 disk full",
        "Failed tests: none",
    ],
)
def test_what_only_speaks_of_errors_is_none(brought):
    assert "read_file says" in text(ask("Read a.py", did("read_file"), got(("read_file", brought)), tools=(READ,)))


@pytest.mark.parametrize(
    "brought",
    ["Error 404: gone", "Failed to open a.py", "Error executing tool: x", "OSError: gone", "json.JSONDecodeError: x"],
)
def test_what_is_an_error_is_called_one(brought):
    assert "failed with an error" in text(
        ask("Read a.py", did("read_file"), got(("read_file", brought)), tools=(READ,))
    )


# --- answers of a shape -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "said, system, expected",
    [
        ('Respond only with JSON: {"a": 1}', "", {"a": 1}),
        ("Return JSON with fields name and age for Ada, 36", "", {"name": "Ada", "age": 36}),
        ("Ada is 36", "Respond ONLY with valid JSON matching this schema:\n" + json.dumps(fields(name=TEXT, age=NUMBER), indent=2), {"name": "Ada", "age": 36}),
    ],
)  # fmt: skip
def test_json_is_given_where_words_ask_for_it(said, system, expected):
    assert json.loads(text(ask(said, system=system))) == expected


def test_talk_about_json_asks_for_none():
    assert "simulated" in text(ask("What is JSON?"))
    with pytest.raises(ValueError, match="Expecting"):
        json.loads(text(ask("What is JSON?")))


def test_hints_of_a_description_are_kept():
    pair = {"type": "array", "items": {"anyOf": [WHOLE, TEXT]}, "description": "A pair (minItems: 2, maxItems: 2)"}
    short = {"type": "string", "description": 'A code (pattern: "^[A-Z]{3}$")'}
    found = json.loads(text(ask("Oslo, Rome, 1, 2 and 3", schema=fields(pair=pair, code=short))))

    assert [type(one) for one in found["pair"]] == [int, str]
    assert patterns.matches("^[A-Z]{3}$", found["code"])


class Colour(enum.Enum):
    RED = "red"
    GREEN = "green"


class Address(msgspec.Struct):
    street: str
    code: Annotated[str, msgspec.Meta(pattern=r"^\d{5}$")]
    country: Literal["NO", "SE"] = "NO"


class Person(msgspec.Struct):
    name: str
    age: Annotated[int, msgspec.Meta(ge=18, le=99)]
    address: Address
    colour: Colour
    extra: dict[str, int]
    pair: tuple[int, str]
    data: bytes
    nick: str | None = None


class Tree(msgspec.Struct):
    value: int
    children: list[Tree]


class Cat(msgspec.Struct, tag=True):
    lives: int


class Dog(msgspec.Struct, tag=True):
    name: str


@dataclasses.dataclass
class Trip:
    when: dt.date
    pets: list[Cat | Dog]
    note: str | None = None


class Film(TypedDict):
    title: str
    year: int


class Item(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")
    url: pydantic.HttpUrl
    at: dt.datetime
    count: int = pydantic.Field(gt=5, lt=7)
    parent: Item | None = None
    size: int | list[str]


@pytest.fixture(scope="module")
def ai():
    with tenuto.Client() as client:
        yield client


@pytest.mark.parametrize("model", ["sim/anthropic", "sim/openai", "sim/chat", "sim/gemini"])
@pytest.mark.parametrize(
    "kind", [Person, Tree, Trip, Film, Item, Cat | Dog, list[Person], tuple[int, int], dict[str, int], Colour], ids=str
)
def test_structured_answers_fit_at_once(ai, model, kind):
    for said in ("Ada Lovelace, 36, lives in 12345 Oslo. Red, 1 and 2. Born 1815-12-10.", "?"):
        assert len(ai.chat_structured(model, said, kind).replies) == 1


# --- time ---------------------------------------------------------------------------------------------------------------

NAMED = {f"p{at}": TEXT for at in range(800)}


@pytest.mark.parametrize(
    "said, schema",
    [
        ("1" * 200_000, fields(name=TEXT, many=NUMBER)),
        ("age" + " " * 7000 + "x", fields(age=NUMBER, name=TEXT)),
        ("name is" + " " * 7900 + "?", fields(age=NUMBER, name=TEXT)),
        ("Ada and Bob", fields(**NAMED)),
        ("Ada and Bob", fields(one={"enum": [f"value {at}" for at in range(5000)]})),
        ("a" * 40 + "!", fields(name={"type": "string", "pattern": "^(a+)+$"})),
        ("a" * 40 + "!", fields(name={"type": "string", "pattern": "^(?:(?:a*)*)*b"})),
        (" " * 4000 + "a", fields(name={"type": "string", "pattern": r"^\s*.*\s*.*\s*="})),
    ],
    ids=lambda case: str(case)[:40],
)
def test_time_is_bounded(said, schema):
    began = time.process_time()
    ask(said, schema=schema)
    ask(said, tools=(Offered(name="do_it", schema=schema),), choice="required")

    assert time.process_time() - began < 2


def test_many_tools_take_little_time():
    tools = tuple(tool(f"tool_{at}", f"Does thing {at} with weather", city=TEXT, path=TEXT) for at in range(1000))
    began = time.process_time()

    assert calls(ask("Use tool_17 for Oslo", tools=(*tools, SEND))) == [
        ("tool_17", {"city": "Oslo", "path": "example path"})
    ]
    ask("Weather in Oslo, the file in Rome, then a thing, " * 20, tools=tools)
    assert time.process_time() - began < 1.5
