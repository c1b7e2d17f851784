"""What the simulated model does unasked: it calls what fits, with what fits; it reads, answers and stops."""

from __future__ import annotations

import json
import time

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.assistant_asking import (
    CLOCK,
    CODE,
    COMPARE,
    FINAL,
    MULTIPLY,
    NUMBER,
    SEARCH,
    SEND,
    SHELL,
    TEXT,
    WEATHER,
    ask,
    calls,
    did,
    fields,
    got,
    spoke,
    text,
)  # fmt: skip
from tenuto.sim import sums
from tenuto.sim.mint import tokens
from tenuto.sim.script import Call, RunCode, Say, Search, Think, texts


@pytest.mark.parametrize(
    "request_, tools, expected",
    [
        ("What's the weather in Oslo?", (WEATHER,), [("get_weather", {"city": "Oslo"})]),
        ("weather in Oslo in Fahrenheit", (WEATHER, CLOCK), [("get_weather", {"city": "Oslo", "unit": "fahrenheit"})]),
        ("What TIME is it in New York", (WEATHER, CLOCK), [("get_time", {"city": "New York"})]),
        ("Weather in Oslo and Bergen?", (WEATHER, CLOCK), [("get_weather", {"city": "Oslo"}), ("get_weather", {"city": "Bergen"})]),
        ("Compare Oslo, Bergen and Rome", (COMPARE,), [("compare", {"cities": ["Oslo", "Bergen", "Rome"]})]),
        ("The weather in Oslo and the time in Tokyo", (WEATHER, CLOCK), [("get_weather", {"city": "Oslo"}), ("get_time", {"city": "Tokyo"})]),
        ("the weather and the time in Tokyo", (WEATHER, CLOCK), [("get_weather", {"city": "Tokyo"}), ("get_time", {"city": "Tokyo"})]),
        ("And in Paris?", (WEATHER,), [("get_weather", {"city": "Paris"})]),
        ("Use get_time for Rome", (WEATHER, CLOCK), [("get_time", {"city": "Rome"})]),
        ("what is 6 times 7?", (MULTIPLY,), [("multiply", {"a": 6, "b": 7})]),
        ("Run the query SELECT 1", (SHELL,), [("run_query", "Run the query SELECT 1")]),
        ("Hello!", (WEATHER, CLOCK), []),
        ("Say 'the weather is fine'", (WEATHER,), []),
        ("Explain recursion", (WEATHER, CLOCK), []),
        ("Is Oslo a big city?", (WEATHER, CLOCK), []),
        ("Call get_time for Rome, and tell me a joke", (WEATHER, CLOCK), [("get_time", {"city": "Rome"})]),
    ],
)  # fmt: skip
def test_calls_what_the_request_speaks_of(request_, tools, expected):
    assert calls(ask(request_, tools=tools)) == expected


@pytest.mark.parametrize(
    "choice, expected", [("none", []), ("required", ["get_weather"]), ("get_time", ["get_time"]), ("auto", [])]
)
def test_choice_is_obeyed_even_where_nothing_fits(choice, expected):
    turn = ask("Tell me about recursion", tools=(WEATHER, CLOCK), choice=choice)

    assert [name for name, _ in calls(turn)] == expected
    assert bool(text(turn)) == (not expected)


def test_none_means_none():
    assert not calls(ask("What's the weather in Oslo?", tools=(WEATHER,), choice="none"))


def test_arguments_fit_even_where_nothing_was_said():
    for tool in (WEATHER, CLOCK, SEND, MULTIPLY, COMPARE, FINAL):
        for said in ("", "go on", "x" * 500):
            ((name, arguments),) = calls(ask(said, tools=(tool,), choice=tool.name))
            assert name == tool.name
            jsonschema.validate(arguments, tool.schema)


def loop(task, *tools, most=8, **asked):
    """Answer every call until the assistant stops; return the calls of each turn, and the last text."""
    said, rounds = [task], []
    for _ in range(most):
        turn = ask(*said, tools=tools, request=str(len(said)), **asked)
        rounds.append([name for name, _ in calls(turn)])
        if not rounds[-1]:
            return rounds, text(turn)
        said += [did(*rounds[-1]), got(*((name, f"{name} says 12 degrees") for name in rounds[-1]))]
    raise AssertionError("it never stops")


@pytest.mark.parametrize(
    "task, asked, rounds",
    [
        ("Weather in Oslo, Rome and Bergen", {}, [["get_weather"] * 3, []]),
        ("Weather in Oslo, Rome and Bergen", {"parallel": False}, [["get_weather"], ["get_weather"], ["get_weather"], []]),
        ("First get the weather in Oslo, then send a message to Bob about it", {}, [["get_weather"], ["send_message"], []]),
        ("Get the weather in Oslo. After that, get the time in Rome", {}, [["get_weather"], ["get_time"], []]),
        ("Hello", {}, [[]]),
    ],
)  # fmt: skip
def test_loops_end(task, asked, rounds):
    found, last = loop(task, WEATHER, CLOCK, SEND, **asked)

    assert found == rounds
    assert ("12 degrees" in last) == (len(rounds) > 1)


def test_one_call_at_a_time_goes_on_with_the_next_name():
    first = ask("Weather in Oslo and Bergen", tools=(WEATHER,), parallel=False)
    second = ask(
        "Weather in Oslo and Bergen", did("get_weather"), got(("get_weather", "12")), tools=(WEATHER,), parallel=False
    )

    assert calls(first) == [("get_weather", {"city": "Oslo"})]
    assert calls(second) == [("get_weather", {"city": "Bergen"})]


def test_later_call_carries_what_the_first_brought():
    task = "First get the weather in Oslo, then send a message to Bob about it"
    turn = ask(task, did("get_weather"), got(("get_weather", "12 degrees")), tools=(WEATHER, SEND))

    assert calls(turn) == [("send_message", {"to": "Bob", "body": "12 degrees"})]


def test_forced_calls_come_to_the_tool_that_ends_it():
    task, done = "What is the weather in Oslo?", (did("get_weather"), got(("get_weather", "12 degrees")))
    turn = ask(task, *done, tools=(CLOCK, FINAL, WEATHER), choice="required")

    assert calls(ask(task, tools=(FINAL, WEATHER), choice="required")) == [("get_weather", {"city": "Oslo"})]
    assert calls(turn) == [("final_result", {"city": "Oslo", "report": "12 degrees"})]


def test_new_request_calls_again():
    said = (
        "Weather in Oslo",
        did("get_weather"),
        got(("get_weather", "12")),
        spoke("It is 12."),
        "And the weather in Rome?",
    )

    assert calls(ask(*said, tools=(WEATHER,))) == [("get_weather", {"city": "Rome"})]


def test_results_are_quoted_and_errors_called_errors():
    good, long = ("get_weather", "12 degrees, cloudy"), ("get_time", "tick " * 1000)
    turn = ask("Weather and time in Oslo", did("get_weather", "get_time"), got(good, long), tools=(WEATHER, CLOCK))

    assert "12 degrees, cloudy" in text(turn)
    assert "tick tick" in text(turn)
    assert len(text(turn)) < 600
    for broken in (
        "Error: no such city",
        '{"error": "no such city"}',
        "ValueError: no such city",
        "Traceback (most recent call last): no such city",
    ):
        turn = ask("Weather in Oslo", did("get_weather"), got(("get_weather", broken)), tools=(WEATHER,))
        assert "failed with an error" in text(turn)
        assert "no such city" in text(turn)
    for fine in ("no errors found", '{"error": null, "degrees": 12}', ""):
        turn = ask("Weather in Oslo", did("get_weather"), got(("get_weather", fine)), tools=(WEATHER,))
        assert "error:" not in text(turn)


@pytest.mark.parametrize(
    "said, expected",
    [
        (["What is 27 * 453?"], "12231"),
        (["what's two plus two"], "4"),
        (["What is 7 / 2?"], "3.5"),
        (["2^100000"], "too large"),
        (["1 divided by 0 is?"], "divides by zero"),
        (["Say hello world"], "hello world"),
        (["Reply with exactly 'pong'."], "pong"),
        (["Count to 5"], "1, 2, 3, 4, 5"),
        (["count down from 3"], "3, 2, 1"),
        (["Count from 8 to 11 please"], "8, 9, 10, 11"),
        (["List 3 colours"], "3. "),
        (["What is the capital of France?"], "Paris"),
        (["Summarize: The cat sat. It was warm. Then it left."], "The cat sat. It was warm."),
        (["Translate 'dog' to French"], "cannot translate"),
        (["Who are you?"], "simulated"),
        (["Why is the sky blue?"], "Why is the sky blue?"),
        (["My name is Ada and I like tea", spoke("Hi"), "What is my name?"], "Your name is Ada."),
        (["I'm Grace Hopper", spoke("Hi"), "what's my name"], "Grace Hopper"),
        (["The secret word is pelican.", spoke("ok"), "What is the secret word?"], "pelican"),
        (["Hello", spoke("Hi"), "What is my name?"], "not told me your name"),
        (["I like tea", spoke("Good"), "What did I say?"], "I like tea"),
        ([""], "simulated"),
        ([], "simulated"),
    ],
    ids=lambda case: str(case[-1:]) if isinstance(case, list) else "",
)  # fmt: skip
def test_answers_without_tools(said, expected):
    assert expected in text(ask(*said))


def test_haiku_has_three_lines():
    assert 3 == len(text(ask("Write a haiku about rain")).splitlines())


def test_long_text_has_the_length_asked_for():
    assert 400 == len(text(ask("Write a 400-word essay about rivers")).split())


@pytest.mark.parametrize("most", [5, 20, 60])
@pytest.mark.parametrize(
    "task", ["Why is the sky blue?", "Write a 5000-word story", "Count to 9000", "List 150 animals"]
)
def test_answer_is_not_much_longer_than_allowed(task, most):
    said = text(ask(task, max_tokens=most))

    assert said
    assert tokens(said) < most * 4 + 60


def test_thinking_speaks_of_the_task_and_only_if_asked():
    turn = ask("Weather in Oslo and Bergen", tools=(WEATHER, CLOCK), think=True)
    thought = " ".join(texts(step.text) for step in turn if isinstance(step, Think))

    assert isinstance(turn[0], Think)
    assert all(word in thought for word in ("Weather in Oslo and Bergen", "get_weather", "get_time", '{"city":"Oslo"}'))
    assert 200 < len(thought) < 2000
    assert not any(isinstance(step, Think) for step in ask("Weather in Oslo and Bergen", tools=(WEATHER,)))
    after = ask("Weather in Oslo", did("get_weather"), got(("get_weather", "12 degrees")), tools=(WEATHER,), think=True)
    assert "12 degrees" in texts(after[0].text)
    assert tokens(texts(ask("Why is the sky blue?", think=True, max_tokens=60)[0].text)) <= 21


def test_thoughts_and_words_vary_between_requests_and_never_for_the_same():
    turns = [ask("Weather in Oslo", tools=(WEATHER,), think=True, request=str(at)) for at in range(40)]
    again = [ask("Weather in Oslo", tools=(WEATHER,), think=True, request=str(at)) for at in range(40)]

    assert turns == again
    assert len(set(map(str, turns))) > 10
    assert any(isinstance(step, Say) for turn in turns for step in turn)
    assert {2, 1} == {sum(isinstance(step, Think) for step in turn) for turn in turns}
    assert all(calls(turn) == [("get_weather", {"city": "Oslo"})] for turn in turns)


@pytest.mark.parametrize(
    "task, schema, expected",
    [
        ("Ada Lovelace is 36 and lives in London", fields(name=TEXT, age={"type": "integer"}, city=TEXT), {"name": "Ada Lovelace", "age": 36, "city": "London"}),
        ("What is 2+3?", fields(answer=NUMBER), {"answer": 5}),
        ("Give me JSON with the keys 'name' and 'age' for Bob who is 7 years old", {}, {"name": "Bob", "age": 7}),
    ],
)  # fmt: skip
def test_answer_with_a_schema_is_json_of_the_words(task, schema, expected):
    assert json.loads(text(ask(task, schema=schema))) == expected


def test_any_json_is_an_object():
    assert "12231" in json.loads(text(ask("What is 27 * 453?", schema={})))["answer"]


def test_schema_waits_for_the_tools():
    schema = fields(city=TEXT, summary=TEXT)
    turn = ask(
        "Weather in Oslo", did("get_weather"), got(("get_weather", "12 degrees")), tools=(WEATHER,), schema=schema
    )

    assert calls(ask("Weather in Oslo", tools=(WEATHER,), schema=schema))
    assert json.loads(text(turn)) == {"city": "Oslo", "summary": "12 degrees"}


@pytest.mark.parametrize(
    "task, start, whole",
    [
        ("What is 27 * 453?", "The answer is", "The answer is 12231."),
        ("What is 27 * 453?", "27 *", None),
        ("Say hello world", "hello", "hello world"),
        ("hi", "Sure, ", None),
    ],
)
def test_prefill_is_continued(task, start, whole):
    added = text(ask(task, spoke(start)))

    assert added
    assert whole is None or start + added == whole
    assert not added.startswith(start)


@pytest.mark.parametrize(
    "start", ["{", "[", '{"name":', '{"a": [1, "x', '{"a": 1,', '{"a": {"b', '{"a": [1, 2', '["a", ']
)
def test_prefilled_json_is_closed(start):
    json.loads(start + text(ask("hi", spoke(start))))


def test_search_is_used_with_sources():
    search, *said = ask("Search the web for otter news", tools=(SEARCH,))

    assert isinstance(search, Search)
    assert search.query == "otter news"
    assert all("//example." in one.url or "//www.example." in one.url for one in search.found)
    assert said[0].cites[0].url == search.found[0].url
    assert not any(isinstance(step, Search) for step in ask("Say hello", tools=(SEARCH,)))
    assert not any(
        isinstance(step, Search) for step in ask("Search the web for otters", tools=(SEARCH,), choice="none")
    )
    assert any(isinstance(step, Search) for step in ask("otters", tools=(SEARCH,), choice="required"))


@pytest.mark.parametrize(
    "task, code, output",
    [
        ("Use Python to compute 27 * 453", "print(27 * 453)", "12231\n"),
        ("Compute sqrt(9) + 2^3", "import math\nprint(math.sqrt((9)) + 2**3)", "11\n"),
        ("Run some code", "print('Run some code')", "Run some code\n"),
    ],
)
def test_code_is_run(task, code, output):
    run, said = ask(task, tools=(CODE,))

    assert run == RunCode(code, output)
    assert texts(said.text)


UNITS = [
    "a-", "a.", "A ", "(", "1,", '"', "the ", "A, ", "A and ", "http://", "1 + ", "'a", "a@", "/a", "my a ", "\n", "what is ",
    "count to 9 ", "2^", "!", "list 3 ",
]  # fmt: skip


@pytest.mark.parametrize("unit", UNITS)
def test_long_nonsense_takes_no_time(unit):
    began = time.process_time()
    ask(unit * 8000, tools=(WEATHER, SEND), think=True)
    ask(unit * 8000, schema=fields(name=TEXT, query=TEXT, url=TEXT, many=NUMBER))

    assert time.process_time() - began < 2


SAID = st.one_of(
    st.text(max_size=40),
    st.builds(did, st.sampled_from(["get_weather", "other", ""])),
    st.builds(lambda *result: got(result), st.sampled_from(["get_weather", ""]), st.text(max_size=20)),
    st.builds(spoke, st.one_of(st.text(max_size=20), st.text('{}[]":,a1\\ ', max_size=12))),
)


@given(
    st.lists(SAID, max_size=5),
    st.sampled_from(["auto", "none", "required", "get_time", "nobody"]),
    st.sampled_from([None, {}, fields(name=TEXT, left=NUMBER)]),
    st.booleans(),
)
def test_every_conversation_gets_an_answer(said, choice, schema, think):
    turn = ask(*said, tools=(WEATHER, CLOCK, SEARCH), choice=choice, schema=schema, think=think)

    assert calls(turn) or text(turn) is not None
    assert any(isinstance(step, Say | Call | Search) for step in turn)


@pytest.mark.parametrize(
    "said, value",
    [
        ("What is (2+3)*4 - 1?", "19"), ("15% of 80", "12"), ("square root of 144", "12"), ("sqrt(2)", "1.4142135624"),
        ("the sum of 1,234 and 66", "1300"), ("10 mod 3", "1"), ("7 squared", "49"), ("what is 5!", "120"), ("-3 - -4", "1"),
        ("1/3 = ?", "0.3333333333"), ("2 x 3", "6"), ("what is 2 ** -2", "0.25"), ("what is 0.1 + 0.2", "0.3"),
        ("subtract 3 from ten", "7"), ("what is 4^0.5", "2"), ("what is (-1)^999999999", "-1"),
        ("what is on 2024-05-01?", None), ("call +1-555-123-4567", None), ("pages 3-5 please", None), ("version 3.1 - news", None),
        ("no sum at all", None), ("I am 30!", None),
    ],
)  # fmt: skip
def test_sums(said, value):
    found = sums.find(said)

    assert (found and found.value is not None and sums.told(found.value)) == value


@pytest.mark.parametrize(
    "said",
    [
        "9^9^9^9",
        "2^100000",
        "(" * 90 + "1+1",
        "(" * 90 + "1+1" + ")" * 90,
        "300! * 300! * 300!",
        "1/0 + 1",
        "5 % 0",
        "(-8)^0.5",
        "1+2)+(3",
        "9" * 70 + "+1",
    ],
)
def test_sums_have_bounds(said):
    assert sums.find(said).value is None
    assert sums.find(said).why
