"""Scripts: the same in Python and as JSON, and an error says where."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenuto.sim import script
from tenuto.sim.script import CallTool, Cite, Say, Script, SearchResult, join_text, load
from tenuto.testing import (
    call,
    compact,
    cut,
    deny,
    drip,
    fail,
    image,
    pause,
    refuse,
    run_code,
    say,
    search,
    stall,
    stop,
    think,
    turn,
)

EVERY = (
    think("hm"),
    think(["h", "m"], redacted=True),
    say("hello", cites=(Cite("https://example.org", "A page", "words"),)),
    say(["in ", "pieces"]),
    call("weather", {"city": "Oslo", "deep": {"list": [1, 2.5, None]}}, id="call_1"),
    call("weather", '{"broken'),
    search("otters", SearchResult("https://example.org", "Otters", "They swim.")),
    run_code("print(1)", "1\n", ok=False),
    image("AAAA", "image/webp"),
    refuse("no", "cyber"),
    pause(),
    stop("stop_sequence", "END"),
    deny(503, 1.5, "busy", 0),
    fail(500, "oh", 2),
    cut(3),
    stall(2.5, 1),
    stall(None),
    drip(7, 0.25),
    compact("So far."),
    compact(None),
)


def test_every_step_has_a_name_of_its_own_in_json():
    told = json.loads(msgspec.json.encode(EVERY))

    assert {type(step) for step in EVERY} == set(script.Step.__args__)
    assert [step["do"] for step in told[:6]] == ["think", "think", "say", "say", "call", "call"]
    assert {step["do"] for step in told} == {
        "think", "say", "call", "search", "run", "picture", "refuse", "pause", "stop", "deny", "fail", "cut", "stall", "drip",
        "compact",
    }  # fmt: skip


def test_round_trip_through_json():
    whole = Script((EVERY, (say("done"),)), when="weather")

    assert load(msgspec.json.encode(whole)) == (whole,)
    assert load(msgspec.json.encode([whole, Script()]).decode()) == (whole, Script())


def test_what_is_not_said_is_the_default():
    bare = '{"turns": [[{"do": "think"}, {"do": "say"}, {"do": "call", "name": "f"}, {"do": "deny"}, {"do": "stall"}]]}'

    assert load(bare) == (Script(((think(), Say(), call("f"), deny(), stall()),)),)
    assert json.loads(msgspec.json.encode(Script(((say("a"), pause()),)))) == {
        "turns": [[{"do": "say", "text": "a"}, {"do": "pause"}]]
    }


NAMES = st.text(max_size=8)
STEPS = st.one_of(
    st.builds(think, st.one_of(NAMES, st.lists(NAMES, max_size=3)), st.booleans()),
    st.builds(
        Say,
        st.one_of(NAMES, st.lists(NAMES, max_size=3)),
        st.lists(st.builds(Cite, NAMES, NAMES), max_size=2).map(tuple),
    ),
    st.builds(
        CallTool, NAMES, st.one_of(NAMES, st.dictionaries(NAMES, st.one_of(st.none(), st.integers(-5, 5), NAMES)))
    ),
    st.builds(stop, st.sampled_from(["length", "stop_sequence", "filter"]), NAMES),
    st.builds(stall, st.one_of(st.none(), st.floats(0, 9)), st.integers(0, 3)),
    st.sampled_from(EVERY),
)


@given(st.lists(st.lists(STEPS, max_size=4).map(tuple), max_size=3).map(tuple), NAMES)
def test_any_script_survives_json(turns, when):
    whole = Script(turns, when)

    assert load(msgspec.json.encode(whole)) == (whole,)


@pytest.mark.parametrize(
    "told, where",
    [
        ('{"turns": [[{"do": "say", "text": 1}]]}', "$.turns[0][0].text"),
        ('{"turns": [[], [{"do": "say"}, {"do": "dance"}]]}', "$.turns[1][1].do"),
        ('{"turns": [[{"do": "call"}]]}', "`name` - at `$.turns[0][0]`"),
        ('{"turns": [[{"do": "say", "tekst": "a"}]]}', "`tekst` - at `$.turns[0][0]`"),
        ('{"turns": [{"do": "say"}]}', "$.turns[0]"),
        ('{"turns": [[{"do": "stop", "reason": "bored"}]]}', "$.turns[0][0].reason"),
        ('{"turns": [[{"do": "deny", "status": "429"}]]}', "$.turns[0][0].status"),
        ('[{"turns": []}, {"turn": []}]', "`turn` - at `$[1]`"),
        ('{"turns": [[{"text": "a"}]]}', "$.turns[0][0]"),
        ("{", "truncated"),
        ("", "truncated"),
        ("7", "got `int`"),
        (b'{"turns": [[{"do": "say", "text": "\xff"}]]}', "utf-8"),
    ],
)
def test_what_does_not_fit_is_told_with_its_place(told, where):
    with pytest.raises(ValueError, match=r"^invalid script: ") as caught:
        load(told)

    assert where in str(caught.value)


def test_a_mark_in_front_of_the_text_is_passed_over():
    told = '\ufeff{"turns": [[{"do": "say", "text": "a"}]]}'

    assert load(told) == load(told.encode()) == (Script(((say("a"),),)),)


def test_strings_are_said_and_steps_do_not_change():
    assert turn("a", think("b"), "c") == (say("a"), think("b"), say("c"))
    assert join_text("ab") == join_text(["a", "b"]) == "ab"
    with pytest.raises(AttributeError):
        say("a").text = "b"
