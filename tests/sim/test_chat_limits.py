"""Where an answer of the chat dialect ends before its turn does: at the limit of tokens, and at what stops it."""

from __future__ import annotations

import pytest

from sim.chat_asking import assembled, events, user, verdict, whole, written
from tenuto.sim.script import Call, Cite, Drip, Refuse, Say, Think, turn

HI = {"messages": [user("hi")]}
LONG = "x" * 100


def ended(named, steps, **wanted):
    """Say a turn in both forms; return the choice, in which they agree, and the usage."""
    body = {**HI, "stream_options": {"include_usage": True}, **wanted}
    told = whole(named, steps, body)
    (choice,) = told["choices"]
    streamed = assembled(events(written(named, steps, body, stream=True)))
    assert (streamed.get("content") or "") == (choice["message"].get("content") or "")
    return choice, told["usage"]


@pytest.mark.parametrize("limit", range(1, 12))
@pytest.mark.parametrize(
    "steps",
    [
        turn(LONG),
        turn(Say(["abc", "defgh", LONG])),
        turn(Think(LONG), "So."),
        turn(Think("Hm."), Think(LONG), "So."),
        turn(Call("weather", {"city": LONG})),
        turn("Well.", Call("weather", {"city": "Oslo"}), Call("weather", {"city": LONG})),
        turn(Refuse(LONG)),
    ],
    ids=range(7),
)
@pytest.mark.parametrize("named", ["openai", "deepseek", "mistral", "xai"])
def test_no_more_tokens_are_counted_than_were_allowed(named, steps, limit):
    choice, usage = ended(named, steps, max_tokens=limit)

    assert choice["finish_reason"] == "length"
    assert usage["total_tokens"] - usage["prompt_tokens"] == limit


def test_a_call_without_room_for_its_name_is_not_made():
    choice, _ = ended("openai", turn("abcd", Call("weather", {"city": "Oslo"})), max_tokens=2)

    assert (choice["message"]["content"], choice["finish_reason"]) == ("abcd", "length")
    assert "tool_calls" not in choice["message"]


def test_what_just_fits_is_whole():
    choice, usage = ended("openai", turn("abcd", Call("weather", {})), max_tokens=4)

    assert (choice["finish_reason"], usage["completion_tokens"]) == ("tool_calls", 4)
    assert choice["message"]["tool_calls"][0]["function"]["arguments"] == "{}"


def test_tags_stay_open_where_the_limit_cuts_a_thought():
    choice, _ = ended("minimax", turn(Think(LONG), "So."), max_tokens=5)

    assert choice["message"]["content"] == "<think>\n" + "x" * 20


@pytest.mark.parametrize(
    ("steps", "stop", "content"),
    [
        (turn("one tw", "o three"), "two", "one "),
        (turn("one ", Say(["t", "w"]), "o three"), ["two"], "one "),
        (turn("one t", Drip(9), "w", "o three"), "two", "one "),
        (turn("one tw", Think("Hm."), "o three"), "two", "one two three"),
        (turn("one tw", Call("f"), "o three"), "two", "one two three"),
        (turn(Say("a b", cites=(Cite("https://example.org/", "c"),)), "d"), "b", "a "),
        (turn("one two"), ["two", "one"], ""),
    ],
    ids=str,
)
def test_what_stops_an_answer_is_not_said_in_part(steps, stop, content):
    body = {**HI, "stop": stop}
    told = whole("fireworks", tuple(step for step in steps if not isinstance(step, Drip)), body)

    assert told["choices"][0]["message"]["content"] == content
    assert assembled(events(written("fireworks", steps, body, stream=True)))["content"] == content


def test_words_that_were_taken_back_are_not_counted():
    _, usage = ended("openai", turn("abcdefgh", "ijkl"), stop="abcdefghij")

    assert usage["completion_tokens"] == 0


@pytest.mark.parametrize("more", ["And that.", ["And", " that."]])
@pytest.mark.parametrize("word", range(8))
def test_neighbouring_thoughts_of_mistral_are_one_in_both_forms(word, more):
    """Nothing in a stream would tell them apart, and a signature is for all that stands in its chunk."""
    named, body = "magistral-medium-latest", {"messages": [user(str(word))]}
    steps = turn(Think("First this. "), Think(more), "So.")
    message = whole(named, steps, body)["choices"][0]["message"]
    streamed = assembled(events(written(named, steps, body, stream=True)))

    assert [part["type"] for part in message["content"]] == ["thinking", "text"]
    assert streamed["content"] == message["content"]
    again = {"messages": [user(str(word)), {"role": "assistant", "content": streamed["content"]}, user("on")]}
    assert verdict(named, again).noted == ()
