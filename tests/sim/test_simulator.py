"""The simulator in one's own process: both ways to run it, its scripts, what it remembers, what it says is wrong."""

from __future__ import annotations

import json
import socket
import threading
import urllib.error
import urllib.request

import pytest

from tenuto import Client, LLMError, tool
from tenuto.catalog import PROVIDERS
from tenuto.core.messages import UserMessage
from tenuto.errors import AuthenticationFailed, IncompleteResponse, NotFound, RateLimited, Unavailable, UnsupportedModel
from tenuto.rules.book import rules_of
from tenuto.sim import Simulator
from tenuto.sim.script import Script
from tenuto.sim.simulator import parse_pace
from tenuto.testing import call, cut, deny, drip, fail, say, stall, think, turn

STYLES = ["anthropic", "openai", "gemini", "chat"]


@tool
def weather(city: str) -> str:
    """Current weather."""
    return f"rain in {city}"


def client(sim: Simulator, **options) -> Client:
    return Client(providers={"sim": {"base_url": sim.base_url}}, **{"middleware": [], **options})


def asked(sim: Simulator, path: str, body: object = None, headers: dict[str, str] | None = None) -> tuple[int, dict]:
    """Ask as nobody's client, and return the status and the document."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{sim.base_url}{path}", data, headers or {})
    try:
        with urllib.request.urlopen(request) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as exc:
        with exc:
            return exc.code, json.load(exc)


# --- running ----------------------------------------------------------------------------------------------------------


def test_it_runs_in_a_thread_of_its_own_and_ends_with_its_block():
    before = threading.active_count()
    with Simulator(script=["Hello"]) as sim:
        assert sim.base_url.startswith("http://127.0.0.1:")
        assert repr(sim) == f"<Simulator at {sim.base_url}>"
        with client(sim) as ai:
            assert ai.chat("sim/anthropic/claude-opus-4-6", "Hi").text == "Hello"
        port = int(sim.base_url.rpartition(":")[2])

    assert threading.active_count() == before
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))
    with pytest.raises(RuntimeError, match="not running"):
        _ = sim.base_url
    (record,) = sim.requests
    assert (record.body["messages"][0]["role"], "Hello" in record.reply, record.rule) == ("user", True, "")
    assert record.summary() == "POST /v1/messages anthropic claude-opus-4-6 200"


def test_it_may_be_started_again():
    sim = Simulator(script=["Hello"])
    for _ in range(2):
        with sim, client(sim) as ai:
            assert ai.chat("sim/anthropic", "Hi").text == "Hello"


def test_a_port_that_is_taken_is_an_error():
    with (
        Simulator() as sim,
        pytest.raises(OSError, match="in use"),
        Simulator(port=int(sim.base_url.rpartition(":")[2])),
    ):
        pass


@pytest.mark.parametrize("options", [{"burst": 0}, {"pace": -1}, {"pace": float("nan")}])
def test_a_pace_and_a_burst_must_make_sense(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        Simulator(**options)


def test_pause_is_read_or_refused():
    read = {"20ms": 0.02, "0.02": 0.02, "20": 0.02, "0.02s": 0.02, " 1 s ": 1.0, "0": None, "": None}

    assert {text: parse_pace(text) for text in read} == read
    for text in ("fast", "-1", "1h", "ms", "nan", "1e9s"):
        with pytest.raises(ValueError, match="invalid pause"):
            parse_pace(text)


# --- a function of seed and request -----------------------------------------------------------------------------------


@pytest.mark.parametrize("style", STYLES)
def test_the_same_request_gets_the_same_bytes_from_another_simulator(style):
    replies = []
    for seed in ("tenuto", "tenuto", "other"):
        with Simulator(seed, [turn(think("hm"), "Hello")]) as sim, client(sim) as ai:
            ai.stream(f"sim/{style}", "Hi").drain()
            ai.chat(f"sim/{style}", "Hi")
            replies.append([record.data for record in sim.requests])

    assert replies[0] == replies[1]
    assert not {*replies[0]} & {*replies[2]}


@pytest.mark.parametrize("style", STYLES)
def test_a_conversation_goes_on_with_another_simulator(style):
    """Nothing is kept on the server: the tokens themselves say what they were given for."""
    turns = [turn(think("Oslo?"), call("weather", {"city": "Oslo"})), turn(think("So."), "It rains.")]
    with Simulator(script=turns) as first, client(first) as ai:
        reply = ai.chat(f"sim/{style}", "Weather?", tools=[weather])
    answers = [one.answer(weather(**one.parse())) for one in reply.tool_calls]
    with Simulator(script=turns) as second, client(second) as ai:
        last = ai.chat(f"sim/{style}", reply.transcript + answers, tools=[weather])
        second.assert_clean()

    assert (last.text, last.losses) == ("It rains.", ())


MODELS = [
    "anthropic/claude-sonnet-4-5", "anthropic/claude-opus-4-6", "anthropic/claude-opus-4-8", "anthropic/claude-sonnet-5",
    "anthropic/claude-opus-5-5", "anthropic/claude-fable-5-1", "openai/gpt-5.2", "openai/gpt-5.6-sol", "openai/gpt-4o",
    "gemini/gemini-2.5-flash", "gemini/gemini-3-pro-preview", "gemini/gemini-3.5-flash", "deepseek/deepseek-v4-pro",
    "moonshot/kimi-k2.6", "mistral/mistral-medium-latest", "xai/grok-4.5", "groq/llama-3.3-70b-versatile", "zai/glm-4.7",
]  # fmt: skip
CALLS = (call("weather", {"city": "Oslo"}), call("weather", {"city": "Ærø"}))
TURNS = (
    turn(think("Oslo?"), CALLS[0]), turn(think("Both."), *CALLS), turn(think("Hm."), "Let me look.", CALLS[1]),
    turn(think("I know."), "It rains."), turn("Still rain."),
)  # fmt: skip
"""Think, say and call: alone, in parallel, with text between, without thinking."""
LEFT_OUT = {"reasoning-withheld", "stripped-parameter"}
"""What a provider row leaves out: reasoning that the provider does not want back, tools that it does not have."""
BOTH_WAYS = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


def send(ai: Client, model: str, transcript, *, stream: bool, **options):
    """Send a request; return the transcript with the reply and the results of its calls, and the kinds of losses."""
    options["tools"] = [weather]
    reply = ai.stream(model, transcript, **options).drain() if stream else ai.chat(model, transcript, **options)
    results = [one.answer(weather(**one.parse())) for one in reply.tool_calls]
    return reply.transcript + (results or "And now?"), {loss.kind for loss in reply.losses}


@BOTH_WAYS
@pytest.mark.parametrize("model", [*PROVIDERS["sim"].plays, *MODELS])
def test_replies_are_sent_back_without_refusal_and_loss(model, stream):
    transcript = "Weather?"
    with Simulator(script=4 * TURNS) as sim, client(sim) as ai:
        for _ in 4 * TURNS:
            transcript, losses = send(ai, f"sim/{model}", transcript, stream=stream)
            assert losses <= LEFT_OUT
        sim.assert_clean()


@BOTH_WAYS
def test_a_conversation_is_handed_from_style_to_style_and_back(stream):
    """Each gets its own tokens back, and nobody else's: they are styles of one row, and still not one account."""
    models = [
        *("anthropic/claude-opus-4-6", "openai/gpt-5.2", "gemini/gemini-3-pro-preview", "deepseek/deepseek-v4-pro"),
        *("moonshot/kimi-k2.6", "mistral", "groq", "openrouter"),
    ]
    turns = [turn(think(f"Hm {at}."), call("weather", {"city": f"Oslo {at}"})) for at in range(2 * len(models))]
    transcript = "Weather?"
    with Simulator(script=turns) as sim, client(sim) as ai:
        for model in (*models, *reversed(models)):
            transcript, _ = send(ai, f"sim/{model}", transcript, stream=stream, effort="high")
        sim.assert_clean()
        last = sim.requests[-1]

    first = next(message for message in last.body["messages"] if message["role"] == "assistant")
    assert [block["type"] for block in first["content"]] == ["thinking", "tool_use"]


# --- scripts ----------------------------------------------------------------------------------------------------------


def test_a_script_may_be_set_changed_and_taken_away():
    with Simulator() as sim, client(sim) as ai:
        sim.script("one", turn(say("two")))
        first = ai.chat("sim/anthropic", "Hi")
        assert (first.text, ai.chat("sim/anthropic", first.transcript + "On").text) == ("one", "two")
        sim.script("other")
        assert ai.chat("sim/anthropic", "Hi").text == "other"
        sim.script("for cats", when="cat")
        assert ai.chat("sim/anthropic", [UserMessage("A cat"), UserMessage("Hi")]).text == "for cats"
        assert ai.chat("sim/anthropic", "Hi", system="You are a cat").text == "for cats"
        assert ai.chat("sim/anthropic", "Hi").text == "other"
        sim.script()
        assert ai.chat("sim/anthropic", "Hi").text != "other"
    for given in ("Hello", say("Hello"), turn("Hello"), Script((turn("Hello"),))):  # one turn needs no list
        with Simulator(script=given) as sim, client(sim) as ai:
            assert ai.chat("sim/chat", "Hi").text == "Hello"


@pytest.mark.parametrize(
    "given, where",
    [
        ([turn("a"), turn("b")], "$.turns[0][0]"),
        (None, "$.turns[0][0]"),
        (turn("a", turn("b")), "$.turns[0][1]"),
        (say(3), "$.turns[0][0].text"),
        (deny(99), "$.turns[0][0].status"),
        (deny(times=-1), "$.turns[0][0].times"),
        (stall(float("nan")), "$.turns[0][0].seconds"),
        (drip(0), "$.turns[0][0].bytes"),
        (call("f", {1: 2}), "$.turns[0][0].args"),
        (call("f", {"x": object()}), "object"),
        (Script(("a",)), "$.turns[0]"),
    ],
)
def test_a_script_that_is_none_is_refused_when_it_is_given(given, where):
    sim = Simulator(script=["as before"])
    with pytest.raises(ValueError, match=r"^invalid script: ") as caught:
        sim.script(given)
    assert where in str(caught.value)
    with pytest.raises(ValueError, match=r"^invalid script: "):
        Simulator(script=[given])
    with sim, client(sim) as ai:
        assert ai.chat("sim/chat", "Hi").text == "as before"


@pytest.mark.parametrize("style", STYLES)
@BOTH_WAYS
def test_a_request_beyond_the_script_is_refused_and_not_clean(style, stream):
    with Simulator(script=["only"]) as sim, client(sim) as ai:
        sent = ai.chat(f"sim/{style}", "Hi").transcript + "More"
        with pytest.raises(LLMError, match="the script has 1 turn") as caught:
            ai.stream(f"sim/{style}", sent).drain() if stream else ai.chat(f"sim/{style}", sent)
        with pytest.raises(AssertionError, match="script: the script has 1 turn"):
            sim.assert_clean()

    assert (caught.value.status, caught.value.provider) == (400, "sim")


@pytest.mark.parametrize("style", STYLES)
def test_denials_and_failures_are_the_errors_of_the_real_thing(style):
    model = f"sim/{style}"
    with Simulator() as sim, client(sim) as ai:
        sim.script(turn(deny(429, retry_after=7), "ok"))
        with pytest.raises(RateLimited) as caught:
            ai.chat(model, "Hi")
        assert (caught.value.retry_after, caught.value.provider) == (7, "sim")
        assert ai.chat(model, "Hi").text == "ok"
        sim.script(turn("half", fail(503), "never"))
        with pytest.raises(Unavailable):
            ai.chat(model, "Two")
        sim.clear()
        with pytest.raises(Unavailable):
            ai.stream(model, "Two").drain()
        sim.script(turn(think("Hm."), "half", cut(), " whole"))
        with pytest.raises(IncompleteResponse):
            ai.stream(model, "Three").drain()
        assert ai.chat(model, "Three").text == "half whole"
        sim.assert_clean()


def test_a_silence_is_broken_off_by_who_waits():
    with (
        Simulator(script=[turn("a", stall())]) as sim,
        client(sim, timeout=0.3) as ai,
        pytest.raises(LLMError, match=r"0\.3 s"),
    ):
        ai.stream("sim/anthropic", "Hi").drain()


# --- what it remembers ------------------------------------------------------------------------------------------------


def test_a_broken_rule_is_told_with_its_place_and_what_to_do():
    body = {
        "model": "claude-opus-4-6", "max_tokens": 9,
        "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": [{"type": "thinking", "thinking": "x"}, {"type": "text", "text": "y"}]}, {"role": "user", "content": "On"}],
    }  # fmt: skip
    with Simulator() as sim:
        status, document = asked(sim, "/v1/messages", body)
        assert sim.exercised >= {"ANT-THINK-01"}
        assert [record.rule for record in sim.refusals] == ["ANT-THINK-01"]
        with pytest.raises(AssertionError) as caught:
            sim.assert_clean()
        sim.clear()
        sim.assert_clean()
        assert (sim.requests, sim.exercised, sim.refusals) == ([], set(), [])

    assert (status, document["error"]["message"]) == (400, "messages.1.content.0.thinking.signature: Field required")
    known = next(entry for entry in rules_of("anthropic-messages") if entry.id == "ANT-THINK-01")
    assert str(caught.value).splitlines() == [
        "1 request was refused:",
        "1. POST /v1/messages (anthropic/claude-opus-4-6) got 400",
        f"   rule: ANT-THINK-01: {known.summary}",
        "   pointer: /messages/1/content/0/signature",
        "   message: messages.1.content.0.thinking.signature: Field required",
        f"   remedy: {known.remedy}",
    ]


@pytest.mark.parametrize("keys", ["right", {"right"}])
def test_keys_may_be_asked_for(keys):
    with Simulator(script=["Hello"], keys=keys) as sim:
        with client(sim) as ai, pytest.raises(AuthenticationFailed):
            ai.chat("sim/anthropic", "Hi")
        with client(sim, keys={"sim": "right"}) as ai:
            assert ai.chat("sim/anthropic", "Hi").text == ai.chat("sim/gemini", "Hi").text == "Hello"


# --- lists ------------------------------------------------------------------------------------------------------------


def test_models_are_listed_in_the_form_of_who_asks():
    with Simulator() as sim:
        _, openai = asked(sim, "/v1/models")
        _, claude = asked(sim, "/v1/models", headers={"anthropic-version": "2023-06-01"})
        _, gemini = asked(sim, "/v1beta/models")
        _, one = asked(sim, "/v1/models/anthropic/claude-opus-4-6", headers={"anthropic-version": "2023-06-01"})
        status, _ = asked(sim, "/v1/models/mistral/no-such-model")
        with client(sim) as ai:
            listed = {model.id for model in ai.models("sim")}

    assert openai["object"] == "list"
    assert {"anthropic", "deepseek", "openai/gpt-5.2"} <= {model["id"] for model in openai["data"]} == listed
    assert {model["type"] for model in claude["data"]} == {"model"}
    assert not claude["has_more"]
    assert "models/gemini/gemini-3-pro-preview" in {model["name"] for model in gemini["models"]}
    assert one["id"] == "anthropic/claude-opus-4-6"
    assert status == 404
    with sim, client(sim) as ai:
        with pytest.raises(NotFound):
            ai.chat("sim/anthropic/gpt-4", "Hi")
        with pytest.raises(UnsupportedModel, match="use one of: anthropic, openai, gemini, chat"):
            ai.chat("sim/nobody", "Hi")
