"""Every rule of the chat dialect is broken once and kept once; and what real providers took is taken."""

from __future__ import annotations

import base64
import contextlib
import json
import string

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sim.chat_asking import call, request, result, user, verdict, whole
from sim.chat_cases import BREAKS, FREE, KEEPS, said, tools
from tenuto.core.rules import rule
from tenuto.sim import envelopes
from tenuto.sim.asked import Malformed
from tenuto.sim.chat.rules import CHECKS
from tenuto.sim.chat.thoughts import opened_token
from tenuto.sim.chat.voice import VOICE
from tenuto.sim.judging import judge
from tenuto.sim.mint import Mint
from tenuto.sim.script import Call, Think, turn
from tenuto.sim.styles import find

WITHOUT_A_KEPT_CASE = {"OAC-OAI-16", "OAC-OR-04", "OAC-ALI-01"}
"""What is lost there is always lost; the others have tests of their own below."""


@pytest.mark.parametrize(
    ("id", "named", "body", "place"), BREAKS, ids=[f"{one[0]}-{one[1]}-{n}" for n, one in enumerate(BREAKS)]
)
def test_a_broken_rule_is_told_with_its_place(id, named, body, place):
    found = verdict(named, body)
    row = rule(id)
    broken = found.refusal if row.severity == "refused" else found.noted[0]

    assert broken is not None
    assert (broken.rule, broken.place) == (id, place)
    assert id in found.tried
    if row.severity == "refused":
        told = envelopes.body(request(named, body).style, envelopes.refusal(broken))
        if row.trust == "verbatim":
            assert broken.message == row.says[broken.variant] or "{" in row.says[broken.variant]
            assert broken.message in str(told).replace("\\'", "'") or "metadata" in str(told)
        assert "{" not in broken.message.replace("{}", "")


@pytest.mark.parametrize(("id", "named", "body"), KEEPS, ids=[f"{one[0]}-{one[1]}-{n}" for n, one in enumerate(KEEPS)])
def test_a_kept_rule_is_tried_and_nothing_is_told(id, named, body):
    found = verdict(named, body)

    assert found.refusal is None
    assert id in found.tried
    assert id not in [broken.rule for broken in found.noted]


@pytest.mark.parametrize(("id", "named", "body"), FREE, ids=[f"{one[0]}-{one[1]}-{n}" for n, one in enumerate(FREE)])
def test_a_rule_reaches_no_further_than_it_says(id, named, body):
    found = verdict(named, body)

    assert found.refusal is None
    assert id not in [broken.rule for broken in found.noted]


@pytest.mark.parametrize(("named", "body"), [one[1:3] for one in BREAKS], ids=range(len(BREAKS)))
def test_a_host_without_rules_of_its_own_tries_none(named, body):
    _, model = find(named, "openai-chat")
    found = verdict(f"huggingface/{model}", body)

    assert (found.refusal, found.noted, found.tried) == (None, (), ())


@pytest.mark.parametrize(
    ("named", "body", "says"),
    [
        ("deepseek", said(user([{"type": "thinking"}])), "messages[0]: unknown variant `thinking`, expected `text`"),
        ("deepseek", said(user([{"type": "tool_use"}])), "messages[0]: unknown variant `tool_use`, expected `text`"),
        ("fireworks", said(user("hi"), mood="x"), "Extra inputs are not permitted, field: 'mood', value: 'x'."),
        ("fireworks", said(user("hi"), store=True), "Extra inputs are not permitted, field: 'store', value: true."),
        ("openai", said(user("hi"), call(args=None), result()), "Invalid type for 'messages[1].tool_calls[0].function.arguments': expected a string, but got null instead."),
        ("openai", said(user("hi"), call(args={}), result()), "Invalid type for 'messages[1].tool_calls[0].function.arguments': expected a string, but got an object instead."),
    ],
)  # fmt: skip
def test_a_refusal_names_what_it_found(named, body, says):
    assert verdict(named, body).refusal.message == says


def test_every_check_has_a_request_that_breaks_it_and_one_that_keeps_it():
    assert {one[0] for one in BREAKS} == CHECKS.keys()
    assert {one[0] for one in KEEPS} == CHECKS.keys() - WITHOUT_A_KEPT_CASE


def test_qwen_thinks_in_streams():
    assert "OAC-ALI-01" in verdict("alibaba/qwen3-32b", said(user("hi")), stream=True).tried
    assert verdict("alibaba/qwen3-32b", said(user("hi")), stream=True).refusal is None
    assert verdict("alibaba/qwen3-32b", said(user("hi"), enable_thinking=False)).refusal is None
    assert verdict("alibaba/qwen3-max", said(user("hi"), enable_thinking=True)).refusal is None


@pytest.mark.parametrize(
    ("named", "body"),
    [
        ("deepseek/deepseek-chat", said(user("hi"), call(), result())),
        ("deepseek", said(user("hi"), call(), result(), thinking={"type": "disabled"})),
        ("deepseek", said(user("hi"), {"role": "assistant", "content": "plain turns need none"}, user("go on"))),
        ("moonshot/kimi-k2-0905-preview", said(user("hi"), call(), result())),
        ("kimi-k2.6", said(user("hi"), call(), result(), thinking={"type": "disabled"}, tool_choice="auto")),
        ("ollama", said(user("hi"), call())),
        ("mistral", said(user("hi"), call("a1B2c3D4e"), result("a1B2c3D4e"), user("and now"))),
        ("huggingface", said(user("hi"), tools=[])),
        ("openrouter/openai/gpt-4o", said({"role": "developer", "content": "x"}, user("hi"))),
        ("openai/gpt-5.2", said(user("hi"), call("c" * 51), result("c" * 51))),
        ("openai", said(user("hi"), temperature=0.3, max_tokens=9)),
        ("deepseek/deepseek-r1", said(user("hi"), call(), result())),
        ("deepseek", tools(tool_choice="required")),
        ("moonshot", tools(tool_choice="required")),
        ("qwen3.8-omni-flash", tools(tool_choice="required")),
        ("openai", said(user("hi"), n=128)),
    ],
    ids=str,
)
def test_what_real_providers_take_is_taken(named, body):
    assert verdict(named, body).refusal is None


@pytest.mark.parametrize(
    ("named", "body", "place"),
    [
        ("openai", {}, "messages"),
        ("openai", {"messages": "hi"}, "messages"),
        ("openai", {"messages": []}, "messages"),
        ("openai", {"messages": ["hi"]}, "messages[0]"),
        ("openai", {"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role"),
        ("openai", {"messages": [user(3)]}, "messages[0].content"),
        ("openai", {"messages": [user(["hi"])]}, "messages[0].content[0]"),
        ("openai", {"messages": [{"role": "tool", "content": "x"}]}, "messages[0].tool_call_id"),
        ("openai", {"messages": [{"role": "assistant", "tool_calls": 3}]}, "messages[0].tool_calls"),
        ("openai", {"messages": [{"role": "assistant", "tool_calls": [3]}]}, "messages[0].tool_calls[0]"),
        ("openai", {"messages": [{"role": "assistant", "tool_calls": [{"id": 3}]}]}, "messages[0].tool_calls[0].id"),
        ("openai", {"messages": [{"role": "assistant", "tool_calls": [{"id": "a"}]}]}, "messages[0].tool_calls[0].function"),
        ("openai", {"messages": [user("hi")], "tools": [3]}, "tools"),
        ("openai", {"messages": [user("hi")], "n": 129}, "n"),
        ("deepseek/deepseek-v9", said(user("hi")), ""),
        ("mistral/gpt-4o", said(user("hi")), ""),
        ("moonshot/gpt-4o", said(user("hi")), ""),
        ("zai/gpt-4o", said(user("hi")), ""),
        ("perplexity/gpt-4o", said(user("hi")), ""),
        ("cohere/gpt-4o", said(user("hi")), ""),
        ("xai/gpt-4o", said(user("hi")), ""),
    ],
    ids=str,
)  # fmt: skip
def test_what_cannot_be_read_is_refused_with_its_place(named, body, place):
    with pytest.raises(Malformed) as caught:
        VOICE.open(request(named, body))

    assert caught.value.place == place


@given(st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_odd_json_is_judged_or_refused_and_never_trips_a_check(data):
    cases = [(named, body) for _, named, body, *_ in (*BREAKS, *KEEPS) if "x" * 999 not in str(body)]
    named, body = data.draw(st.sampled_from(cases))
    body = json.loads(json.dumps(body))
    for _ in range(data.draw(st.integers(1, 2))):
        spoil(body, data)

    with contextlib.suppress(Malformed):
        opened = VOICE.open(request(named, body))
        judge(opened, VOICE.checks)
        VOICE.write(VOICE.read(opened), THINKING, Mint("chat", "x"))


def spoil(body, data):
    """Put something odd in some place of a request."""
    places = [(body, key) for key in body]
    for inner, key in places:
        if isinstance(value := inner[key], dict | list):
            places += [(value, one) for one in (value if isinstance(value, dict) else range(len(value)))]
    inner, key = data.draw(st.sampled_from(places))
    inner[key] = data.draw(
        st.sampled_from([None, 3, 0.5, True, "x", "", [], {}, [[]], [{}], {"type": []}, {"id": {}}, ["x", 3]])
    )


# --- OpenRouter's reasoning details -----------------------------------------------------------------------------------

CLAUDE, GPT, GEMINI, KIMI = (
    "openrouter/anthropic/claude-opus-4.6",
    "openrouter/openai/gpt-6-sol",
    "openrouter/google/gemini-4-argon",
    "openrouter/moonshotai/kimi-k2.6",
)
THINKING = turn(Think("First this."), Think("Then that."), Call("f", {"a": 1}))


def replayed(named, change=lambda details: details, to=None, seed="chat"):
    message = whole(named, THINKING)["choices"][0]["message"]
    message["reasoning_details"] = change(message["reasoning_details"])
    back = said(user("hi"), message, result(message["tool_calls"][0]["id"]))
    return verdict(to or named, back, seed=seed).refusal


def fragments(details):
    text = details[0]["text"]
    return [{**details[0], "text": text[:3], "signature": None}, {**details[0], "text": text[3:]}, *details[1:]]


def flipped(key):
    def change(details):
        place, token = next((at, one[key]) for at, one in enumerate(details) if one.get(key))
        other = token[:40] + ("A" if token[40] != "A" else "B") + token[41:]
        return [{**one, key: other} if at == place else one for at, one in enumerate(details)]

    return change


@pytest.mark.parametrize("named", [CLAUDE, GPT, GEMINI, "openrouter"])
def test_details_that_come_back_as_they_were_are_taken(named):
    assert replayed(named) is None


@pytest.mark.parametrize(
    ("named", "change", "says"),
    [
        (CLAUDE, flipped("signature"), "Invalid `signature` in `thinking` block"),
        (CLAUDE, fragments, "signature: Field required"),
        (CLAUDE, lambda found: found[::-1], "Invalid `signature`"),
        (CLAUDE, lambda found: found[1:], "Invalid `signature`"),
        (CLAUDE, lambda found: [{**found[0], "text": "Other"}, *found[1:]], "Invalid `signature`"),
        (GPT, flipped("data"), "could not be verified"),
        (GPT, lambda found: [one for one in found if one["type"] != "reasoning.summary"], "could not be verified"),
        (GEMINI, flipped("data"), "Corrupted thought signature"),
        (GEMINI, lambda found: [one for one in found if "data" not in one], "missing a thought_signature"),
    ],
)
def test_details_that_do_not_are_refused_in_the_words_of_the_host(named, change, says):
    broken = replayed(named, change)

    assert broken is not None
    assert broken.rule == "OAC-OR-04"
    told = envelopes.body(request(named, said(user("hi"))).style, envelopes.refusal(broken))
    assert told["error"]["message"] == "Provider returned error"
    assert says in told["error"]["metadata"]["raw"]


def test_details_of_another_family_or_another_issuer_are_refused():
    assert replayed(CLAUDE, to=GPT).rule == "OAC-OR-04"
    assert replayed(CLAUDE, seed="other").rule == "OAC-OR-04"


def test_a_token_under_another_label_is_refused():
    message = whole(GEMINI, turn(Think("First this."), "So."))["choices"][0]["message"]
    (detail,) = message["reasoning_details"]
    back = {**message, "reasoning_details": [{**detail, "format": "anthropic-claude-v1"}]}

    assert verdict(GEMINI, said(user("hi"), message, user("on"))).refusal is None
    assert verdict(CLAUDE, said(user("hi"), back, user("on"))).refusal.rule == "OAC-OR-04"


@pytest.mark.parametrize("reasoning", [{"effort": "none"}, {"exclude": True}])
@pytest.mark.parametrize("named", [GEMINI, KIMI, CLAUDE, GPT])
def test_what_comes_without_thoughts_can_be_sent_back(named, reasoning):
    message = whole(named, THINKING, said(user("hi"), reasoning=reasoning))["choices"][0]["message"]
    back = said(user("hi"), message, result(message["tool_calls"][0]["id"]), reasoning=reasoning)

    assert "First this." not in json.dumps(message)
    assert verdict(named, back).refusal is None


@pytest.mark.parametrize(
    ("named", "says"),
    [
        (CLAUDE, "unexpected `tool_use_id` found in `tool_result` blocks: call_9."),
        ("openrouter", "messages.1.content.0: unexpected `tool_use_id`"),
        (GPT, "messages with role 'tool' must be a response"),
    ],
)
def test_a_lone_result_is_refused_in_the_words_of_the_host(named, says):
    broken = verdict(named, said(user("hi"), result("call_9"))).refusal

    raw = broken.fields["extra"]["metadata"]["raw"]
    assert says in raw
    assert raw.startswith('{"type":"error",' if "messages.1" in raw else '{"error":{"message":')


@pytest.mark.parametrize("change", ["{} ", "{}\n", "{}=", "{}A", " {}"])
def test_a_token_has_one_form_only(change):
    assert replayed(CLAUDE, lambda found: [{**found[0], "signature": change.format(found[0]["signature"])}, *found[1:]])


def test_the_idle_bits_of_a_token_count():
    """The last letter before the padding has bits that decoding drops."""
    message = whole(CLAUDE, THINKING)["choices"][0]["message"]
    for size in range(3):  # one of three lengths has them
        token = request(CLAUDE, said(user("hi"))).seals.seal({"n": 0}, b"", 100 + size)
        text = base64.b64encode(token).decode()
        if text.endswith("="):
            at = len(text.rstrip("=")) - 1
            letter = string.ascii_uppercase + string.ascii_lowercase + string.digits + "+/"
            other = text[:at] + letter[letter.index(text[at]) ^ 1] + text[at + 1 :]
            opened = VOICE.open(request(CLAUDE, said(user("hi"), message)))
            assert base64.b64decode(other) == token
            assert (opened_token(opened, text), opened_token(opened, other)) == ({"n": 0}, None)


@pytest.mark.parametrize("word", range(6))
def test_a_thought_of_mistral_that_was_changed_is_noted(word):
    body = said(user(str(word)))
    message = whole("magistral-medium-latest", turn(Think("First this."), "So."), body)["choices"][0]["message"]
    (thought, text) = message["content"]
    changed = {**thought, "thinking": [{"type": "text", "text": "Other."}]}

    for first, told in ((thought, 0), (changed, int("signature" in thought))):
        back = said(user(str(word)), {"role": "assistant", "content": [first, text]}, user("on"))
        assert len(verdict("magistral-medium-latest", back).noted) == told


def test_an_item_that_comes_twice_is_refused():
    message = whole(GPT, THINKING)["choices"][0]["message"]
    back = result(message["tool_calls"][0]["id"])
    broken = verdict(GPT, said(user("hi"), message, back, message, back)).refusal

    assert "Duplicate item found with id rs_" in broken.fields["extra"]["metadata"]["raw"]


def test_claude_takes_a_turn_without_its_thoughts():
    assert replayed(CLAUDE, lambda _: []) is None
