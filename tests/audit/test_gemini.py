"""What the audit sees in requests of Gemini's dialect, beside the refusals that have a file of their own.

Rules that spoil or warn, what providers were recorded to take, and signatures compared with the replies that gave them.
"""

from __future__ import annotations

import base64
import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from strategies import assistant_messages, json_scalars
from tenuto.audit import Finding, audit_body
from tenuto.audit.gemini import CHECKS
from tenuto.catalog import resolve
from tenuto.core.blocks import CodeExecution, GeminiMeta, Image, Opaque, Reasoning, Text, ToolUse
from tenuto.core.messages import AssistantMessage, Origin
from tenuto.core.provider import Target
from tenuto.oneshot import target_of

THREE, NEW, OLD, PRO = "gemini-3-flash-preview", "gemini-3.5-flash", "gemini-2.5-flash", "gemini-2.5-pro"
GOOGLE = Origin("google", "gemini", THREE, "me")
SENTINEL = "skip_thought_signature_validator"
SIG_A, SIG_B, SIG_C = (base64.b64encode(word * 4).decode() for word in (b"first\xff", b"second\xfe", b"third\xfd"))
PICTURE = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}
CALL = {"functionCall": {"name": "weather", "args": {"city": "Oslo"}}}
OTHER_CALL = {"functionCall": {"name": "weather", "args": {"city": "Bergen"}}}
ANSWER = {"functionResponse": {"name": "weather", "response": {"output": "rain"}}}
FUNCTION = {"functionDeclarations": [{"name": "weather", "description": "Weather"}]}


def user(*parts: dict[str, Any] | str) -> dict[str, Any]:
    return {"role": "user", "parts": [{"text": part} if isinstance(part, str) else part for part in parts]}


def said(*parts: dict[str, Any] | str) -> dict[str, Any]:
    return {**user(*parts), "role": "model"}


def asked(*more: dict[str, Any], **rest: Any) -> dict[str, Any]:
    return {"contents": [user("Weather?"), *more], **rest}


def signed(part: dict[str, Any], signature: str) -> dict[str, Any]:
    return {**part, "thoughtSignature": signature}


def reply(*blocks: Any, origin: Origin | None = GOOGLE) -> AssistantMessage:
    return AssistantMessage(blocks, origin=origin)


def call(city: str, signature: str = "") -> ToolUse:
    meta = GeminiMeta(signature) if signature else None
    return ToolUse("minted", "weather", f'{{"city":"{city}"}}', id_generated=True, meta=meta)


def text(words: str, signature: str = "") -> Text:
    return Text(words, meta=GeminiMeta(signature) if signature else None)


def looked_at(body: Any, target: Target, *received: AssistantMessage) -> list[Finding]:
    """What the rules of this dialect say; those across providers are looked at elsewhere."""
    return [one for one in audit_body(body, target, given=received) if one.rule in CHECKS]


def findings(body: Any, model: str = THREE, *received: AssistantMessage, host: str = "google") -> list[Finding]:
    return looked_at(body, replace(resolve(f"{host}/{model}", dialect="gemini"), account="me"), *received)


def told(body: Any, model: str = THREE, *received: AssistantMessage, host: str = "google") -> list[tuple[str, str]]:
    return [(one.rule, one.pointer) for one in findings(body, model, *received, host=host)]


def refused(body: Any, model: str = THREE, *received: AssistantMessage, host: str = "google") -> list[str]:
    return [one.rule for one in findings(body, model, *received, host=host) if one.severity == "refused"]


# --- what is taken and spoilt -----------------------------------------------------------------------------------------

LOOP = asked(said(CALL), user(ANSWER), said("Rain."), user("And tomorrow?"))
TWO = asked(said(signed({"text": "a"}, SIG_A)), user("b"), said("c"), user("d"))


@pytest.mark.parametrize(
    "body, model, expected",
    [
        (asked(said(signed(CALL, SENTINEL)), user(ANSWER)), THREE, ("GEM-SIG-08", "/contents/1/parts/0/thoughtSignature")),
        (asked(said(signed(CALL, "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I=")), user(ANSWER)), THREE,
         ("GEM-SIG-08", "/contents/1/parts/0/thoughtSignature")),
        (LOOP, OLD, ("GEM-SIG-09", "/contents/1/parts/0")),
        (TWO, NEW, ("GEM-SIG-07", "/contents/3")),
        (asked(said(signed(CALL, SIG_A)), user(ANSWER, PICTURE)), OLD, ("GEM-TURN-05", "/contents/2/parts")),
        (asked(said("[Reasoning: it rains] Rain."), user("b")), THREE, ("GEM-PART-05", "/contents/1/parts/0")),
        (asked(said("<think>it rains</think> Rain."), user("b")), OLD, ("GEM-PART-05", "/contents/1/parts/0")),
    ],
)  # fmt: skip
def test_what_is_taken_and_spoilt_is_told(body, model, expected):
    assert told(body, model) == [expected]
    assert refused(body, model) == []


@pytest.mark.parametrize(
    "body, model",
    [
        (TWO, THREE),  # a rule of later models
        (asked(said(signed(CALL, SIG_A)), user(ANSWER)), OLD),
        (asked(said(CALL), user(ANSWER)), "gemini-3-pro-image-preview"),
        (asked(said({"text": "[Reasoning: it rains]", "thought": True}, "Rain."), user("b")), THREE),
        (asked(said("a"), user("b"), said("c"), user("d")), NEW),
    ],
)
def test_what_only_looks_alike_is_not_told(body, model):
    assert told(body, model) == []


def test_a_thought_that_was_given_is_known_again_in_plain_text():
    thought = reply(Reasoning("It may rain."), text("Rain."))

    assert told(asked(said("It may rain.", "Rain."), user("b")), THREE, thought) == [
        ("GEM-PART-05", "/contents/1/parts/0")
    ]


# --- what was recorded, or documented, as taken -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "body, model, host",
    [
        (asked(said("Let me look."), said(signed(CALL, SIG_A)), user(ANSWER)), THREE, "google"),
        (asked(said(signed(CALL, SIG_A)), said(OTHER_CALL), user(ANSWER), user(ANSWER)), THREE, "google"),
        (asked(said(CALL), user(ANSWER), user("And tomorrow?")), THREE, "google"),
        (asked(said(CALL), user(ANSWER), user(PICTURE)), THREE, "google"),
        (asked(said(signed(CALL, SIG_A), signed(OTHER_CALL, SIG_A)), user(ANSWER, ANSWER)), OLD, "vertex"),
        (asked(said({"function_call": CALL["functionCall"], "thought_signature": SIG_A}),
               user({"function_response": ANSWER["functionResponse"]})), THREE, "vertex"),
        (asked(said(signed(CALL, SIG_A)), user(signed(ANSWER, SIG_A))), THREE, "google"),
        ({"contents": {"parts": {"text": "one"}}}, THREE, "google"),
        (asked(said(""), user("b")), THREE, "google"),
        (asked(said(signed({"text": ""}, SIG_A)), user("b")), THREE, "vertex"),
        (asked(said("The weather is")), NEW, "google"),
        (asked(toolConfig={"functionCallingConfig": {"mode": "AUTO"}}), THREE, "google"),
        (asked(generationConfig={"temperature": "0.5", "thinkingConfig": {"thinkingBudget": 0}}), THREE, "google"),
        (asked(generationConfig={"thinkingConfig": {"thinkingBudget": -1}}), PRO, "google"),
        (asked(labels={"a": "b"}, modelArmorConfig={"prompt_template_name": "x"}), THREE, "vertex"),
        (asked(store=True, serviceTier="flex"), THREE, "google"),
        (asked(tools=[{"functionDeclarations": [
            {"name": "f", "parameters": {"type": "object", "properties": {"const": {"type": "string"}}}},
            {"name": "g", "parameters_json_schema": {"type": ["object", "null"], "additionalProperties": False}}]}]),
         THREE, "google"),
        (asked(tools=[{"functionDeclarations": [
            {"name": "f", "parameters": {"type": "OBJECT", "additionalProperties": {"type": "STRING"}}}]}]),
         THREE, "vertex"),
        (asked(said(signed({"functionCall": {"name": "weather", "id": "1"}}, SIG_A),
                    {"functionCall": {"name": "weather", "id": "1"}}),
               user(*[{"functionResponse": {"name": "weather", "id": "1", "response": {}}}] * 2)), NEW, "google"),
        (asked(), "gemini-9-hydrogen", "google"),
        (asked(), "tunedModels/mine-4711", "google"),
    ],
)  # fmt: skip
def test_what_is_taken_is_not_refused(body, model, host):
    assert refused(body, model, host=host) == []


def test_what_an_unknown_host_serves_is_not_known():
    assert looked_at(asked(), target_of("gemini", "some-tuned-thing", "my-own-gateway")) == []


# --- rules without a twin that fits into a file -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "body, model, host, expected",
    [
        (asked(), "gpt-5", "google", ("GEM-PARAM-11", "/model")),
        ({"contents": {"parts": {}}}, THREE, "google", ("GEM-PART-01", "/contents/parts")),
        (asked(), "models/gemini-3.5-flash-live-preview", "google", ("GEM-PARAM-11", "/model")),
        (asked(), "gemini-does-not-exist", "vertex", ("GEM-PARAM-11", "/model")),
        (asked(user("a word " * 1_000_000)), OLD, "google", ("GEM-PARAM-10", "/contents")),
        (asked(user({"inlineData": {"mimeType": "application/pdf", "data": "A" * (70 * 2**20)}})), THREE, "google",
         ("GEM-MEDIA-02", "/contents")),
        (asked(generation_config={"thinking_config": {"thinking_budget": 64}}), PRO, "google",
         ("GEM-PARAM-04", "/generation_config/thinking_config/thinking_budget")),
        (asked(tools=[{"function_declarations": [
            {"name": "f", "parameters": {"properties": {"a/b": {"any_of": [{"$ref": "#"}]}}}}]}]), THREE, "google",
         ("GEM-SCHEMA-01", "/tools/0/function_declarations/0/parameters/properties/a~1b/any_of/0/$ref")),
        (asked(said(""), user("b")), THREE, "vertex", ("GEM-PART-01", "/contents/1/parts/0")),
        (asked({"parts": [{"text": "a"}]}), THREE, "vertex", ("GEM-TURN-03", "/contents/1/role")),
        (asked(user({"functionResponse": {**ANSWER["functionResponse"], "parts": [{"inlineData": {"data": "AAAA"}}]}}),
               said("x"), user("y")), THREE, "google",
         ("GEM-MEDIA-01", "/contents/1/parts/0/functionResponse/parts/0/inlineData/mimeType")),
        (asked(said(signed(CALL, "no base64!")), user(ANSWER)), THREE, "google",
         ("GEM-SIG-02", "/contents/1/parts/0/thoughtSignature")),
        (asked(said(signed(CALL, SENTINEL)), user(signed(ANSWER, SENTINEL))), THREE, "google",
         ("GEM-SIG-02", "/contents/2/parts/0/thoughtSignature")),
    ],
)  # fmt: skip
def test_what_would_be_refused(body, model, host, expected):
    assert expected in told(body, model, host=host)


def test_the_words_of_a_key_that_is_unknown_at_the_top():
    assert [one.says for one in findings(asked(stream=True))] == [
        'Invalid JSON payload received. Unknown name "stream": Cannot find field.'
    ]


def test_a_number_is_told_as_it_was_recorded():
    """The recorded refusal of 1000.0 says 1000."""
    found = findings(asked(generationConfig={"temperature": 1000.0}), host="vertex")

    assert "a temperature value of 1000 but" in found[0].says


# --- signatures compared with those that were given -------------------------------------------------------------------

FIRST, SECOND = reply(call("Oslo", SIG_A)), reply(call("Bergen", SIG_B))
STEPS = asked(said(signed(CALL, SIG_A)), user(ANSWER), said(signed(OTHER_CALL, SIG_B)), user(ANSWER))


def changed(at: int, **fields: Any) -> dict[str, Any]:
    """The two steps, with other fields on the part of one; None takes a field off."""
    body = copy.deepcopy(STEPS)
    part = body["contents"][at]["parts"][0]
    part.update(fields)
    body["contents"][at]["parts"][0] = {name: value for name, value in part.items() if value is not None}
    return body


@pytest.mark.parametrize(
    "body, expected",
    [
        (STEPS, []),
        (changed(1, thoughtSignature=SIG_A.replace("/", "_").rstrip("=")), []),
        (changed(1, thoughtSignature=None), ["GEM-SIG-01"]),
        (changed(3, thoughtSignature=None), ["GEM-SIG-03"]),
        (changed(3, thoughtSignature=SIG_C), ["GEM-SIG-02"]),
        (changed(3, thoughtSignature=SIG_B[:-8]), ["GEM-SIG-02"]),
        (changed(3, thoughtSignature=SIG_A + SIG_B), ["GEM-SIG-02"]),
        (changed(3, thoughtSignature=SIG_A), ["GEM-SIG-02"]),
        (changed(3, functionCall={"name": "weather", "args": {"city": "Paris"}}), ["GEM-SIG-02"]),
        (changed(3, functionCall={"name": "weather", "args": {"city": "Bergen"}, "id": "mine"}), []),
    ],
)
def test_one_signature_among_several(body, expected):
    assert refused(body, THREE, FIRST, SECOND) == expected


def test_a_signature_that_nobody_is_known_to_have_given_is_judged_only_beside_those_that_are_known():
    assert refused(changed(3, thoughtSignature=SIG_C)) == []


@pytest.mark.parametrize(
    "origin",
    [
        Origin("vertex", "gemini", THREE, "me"),
        Origin("google", "gemini", THREE, "another"),
        Origin("google", "gemini", OLD, "me"),
        Origin("google", "gemini", "gemini-4-argon", "me"),
    ],
    ids=["another host", "another account", "an older model", "a newer model"],
)
def test_a_signature_of_somebody_else_is_refused(origin):
    assert refused(STEPS, THREE, FIRST, replace(SECOND, origin=origin)) == ["GEM-SIG-02"]


@pytest.mark.parametrize(
    "origin",
    [None, Origin("google", "gemini"), Origin("google", "gemini", "gemini-3.1-pro-preview", "me")],
    ids=["nobody knows", "nobody knows the model", "a sister"],
)
def test_what_is_not_known_of_its_giver_is_not_held_against_it(origin):
    assert refused(STEPS, THREE, FIRST, replace(SECOND, origin=origin)) == []


def test_a_simulated_host_is_another_than_the_one_it_also_plays():
    target = resolve(f"sim/gemini/{THREE}", dialect="gemini")
    own, other = (Origin("sim", "gemini", f"{part}/{THREE}") for part in ("gemini", "vertex"))
    kept = looked_at(STEPS, target, replace(FIRST, origin=own), replace(SECOND, origin=own))
    found = looked_at(STEPS, target, replace(FIRST, origin=own), replace(SECOND, origin=other))

    assert kept == []
    assert [one.pointer for one in found] == ["/contents/3/parts/0/thoughtSignature"]


DRAWN = reply(text("Here:", SIG_A), Image(data="AAAA", mime="image/png", meta=GeminiMeta(SIG_B)))
RAN = reply(CodeExecution("1", "PYTHON", meta=GeminiMeta(SIG_A)), CodeExecution("2", "PYTHON", meta=GeminiMeta(SIG_B)))
NEWLY = reply(Opaque("gemini", f'{{"hologram":{{}},"text":"seen","thoughtSignature":"{SIG_A}"}}'))


@pytest.mark.parametrize(
    "parts, received, expected",
    [
        ([signed({"text": "Here:"}, SIG_A), signed(PICTURE, SIG_B)], DRAWN, []),
        ([signed({"text": "Here: "}, SIG_A), signed(PICTURE, SIG_B)], DRAWN, ["GEM-SIG-05"]),
        ([signed({"text": "Here:"}, SIG_B), PICTURE], DRAWN, ["GEM-SIG-02"]),
        ([signed({"text": "Hm.", "thought": True}, SIG_A), "Here:", signed(PICTURE, SIG_B)], DRAWN, []),
        ([signed({"executableCode": {"code": "1"}}, SIG_A), signed({"executableCode": {"code": "2"}}, SIG_B)], RAN, []),
        ([signed({"executableCode": {"code": "2"}}, SIG_B), signed({"executableCode": {"code": "1"}}, SIG_A)], RAN,
         ["GEM-SIG-02"]),
        ([signed({"text": "seen"}, SIG_A)], NEWLY, []),
        ([signed({"text": "unseen"}, SIG_A)], NEWLY, ["GEM-SIG-05"]),
    ],
)  # fmt: skip
def test_a_signature_stays_on_its_part(parts, received, expected):
    assert refused(asked(said(*parts), user("b")), THREE, received) == expected


def test_a_stand_in_needs_no_giver():
    assert refused(asked(said(signed(CALL, SENTINEL)), user(ANSWER)), THREE, FIRST) == []


def test_an_answer_without_its_signature_is_a_loss():
    streamed = reply(text("Rain."), text("", SIG_A))
    kept = asked(said("Rain.", signed({"text": ""}, SIG_A)), user("b"))

    assert told(kept, THREE, streamed) == []
    assert told(asked(said("Rain."), user("b")), THREE, streamed) == [("GEM-SIG-06", "/contents/1/parts/0")]
    assert told(asked(said("Rain."), user("b")), THREE, replace(streamed, origin=Origin("x", "openai-chat"))) == []
    assert told(asked(said("Rain."), user("b")), THREE, reply(text("Rain."))) == []


def test_the_same_answer_twice_has_two_signatures():
    received = (reply(text("Rain.", SIG_A)), reply(text("Rain.", SIG_B)))
    both = [said(signed({"text": "Rain."}, signature)) for signature in (SIG_A, SIG_B)]

    assert told(asked(both[0], user("b"), both[1], user("c")), THREE, *received) == []
    assert refused(asked(both[0], user("b"), both[0], user("c")), THREE, *received) == ["GEM-SIG-02"]


def test_earlier_turns_keep_all_or_none():
    """A turn that never had a signature, because another provider gave it, is not one that lost it."""
    own = replace(GOOGLE, model=NEW)
    given_by_us = reply(text("c", SIG_B), origin=own)
    given_by_others = reply(text("c"), origin=Origin("x", "openai-chat"))
    first = reply(text("a", SIG_A), origin=own)

    assert ("GEM-SIG-07", "/contents/3") in told(TWO, NEW, first, given_by_us)
    assert told(TWO, NEW, first, given_by_others) == []


def test_an_old_model_is_warned_of_only_where_there_was_a_signature():
    own = replace(GOOGLE, model=OLD)

    assert told(LOOP, OLD, reply(call("Oslo", SIG_A), origin=own)) == [("GEM-SIG-09", "/contents/1/parts/0")]
    assert told(LOOP, OLD, reply(call("Oslo"), origin=own)) == []


# --- whatever is sent -------------------------------------------------------------------------------------------------

KEYS = st.sampled_from(
    (
        *(
            "contents",
            "parts",
            "role",
            "text",
            "thought",
            "thoughtSignature",
            "functionCall",
            "functionResponse",
            "name",
        ),
        *("args", "id", "response", "inlineData", "mimeType", "data", "tools", "functionDeclarations", "parameters"),
        *(
            "type",
            "items",
            "properties",
            "anyOf",
            "generationConfig",
            "thinkingConfig",
            "thinkingLevel",
            "thinkingBudget",
        ),
        *("temperature", "toolConfig", "functionCallingConfig", "mode", "systemInstruction", "responseSchema", "x"),
    )
)
LEAVES = json_scalars | st.sampled_from(("user", "model", "weather", SIG_A, SENTINEL, "ARRAY", "MINIMAL", "ANY"))
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=25
)
PARTS = st.lists(
    st.dictionaries(st.sampled_from(("text", "thoughtSignature", "functionCall", "functionResponse")), VALUES) | VALUES,
    max_size=3,
)
BODIES = st.dictionaries(KEYS, VALUES, max_size=4) | st.fixed_dictionaries(
    {"contents": st.lists(st.fixed_dictionaries({"role": LEAVES, "parts": PARTS | VALUES}) | VALUES, max_size=4)},
    optional={"tools": VALUES, "generationConfig": st.dictionaries(KEYS, VALUES, max_size=3)},
)


@given(BODIES, st.sampled_from((THREE, NEW, OLD, PRO, "nothing")), st.sampled_from(("google", "vertex", "sim/gemini")),
       st.lists(assistant_messages, max_size=2))  # fmt: skip
def test_no_body_is_too_odd(body, model, host, received):
    """Whatever JSON it is, something is said of it, or nothing; and every place that is named begins like a pointer."""
    found = findings(body, model, *received, host=host)

    assert all(one.pointer.startswith("/") for one in found)
