"""Findings of the audit on generateContent requests that need no case file: caveats, accepted forms, transcripts."""

from __future__ import annotations

import base64
import copy
from typing import Any

import pytest
from msgspec.structs import replace

from tenuto.audit import Finding, audit_body
from tenuto.catalog import resolve
from tenuto.core.blocks import CodeExecution, GeminiMeta, Image, Opaque, Reasoning, Text, ToolUse
from tenuto.core.messages import AssistantMessage, Origin
from tenuto.core.provider import Target
from tenuto.oneshot import target_of

THREE, NEW, OLD, PRO = "gemini-3-flash-preview", "gemini-3.5-flash", "gemini-2.5-flash", "gemini-2.5-pro"
GOOGLE = Origin("google", "gemini", THREE, "me")
SENTINEL = "skip_thought_signature_validator"
SIG_A, SIG_B, SIG_C = (base64.b64encode(word * 4).decode() for word in (b"first\xff", b"second\xfe", b"third\xfd"))
IMAGE = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}
CALL = {"functionCall": {"name": "weather", "args": {"city": "Oslo"}}}
OTHER_CALL = {"functionCall": {"name": "weather", "args": {"city": "Bergen"}}}
RESULT = {"functionResponse": {"name": "weather", "response": {"output": "rain"}}}


def user(*parts: dict[str, Any] | str) -> dict[str, Any]:
    return {"role": "user", "parts": [{"text": part} if isinstance(part, str) else part for part in parts]}


def model_turn(*parts: dict[str, Any] | str) -> dict[str, Any]:
    return {**user(*parts), "role": "model"}


def request(*more: dict[str, Any], **rest: Any) -> dict[str, Any]:
    return {"contents": [user("Weather?"), *more], **rest}


def signed(part: dict[str, Any], signature: str) -> dict[str, Any]:
    return {**part, "thoughtSignature": signature}


def reply(*blocks: Any, origin: Origin | None = GOOGLE) -> AssistantMessage:
    return AssistantMessage(blocks, origin=origin)


def call(city: str, signature: str = "") -> ToolUse:
    meta = GeminiMeta(signature) if signature else None
    return ToolUse("id", "weather", f'{{"city":"{city}"}}', id_generated=True, meta=meta)


def text(words: str, signature: str = "") -> Text:
    return Text(words, meta=GeminiMeta(signature) if signature else None)


def audit(body: Any, target: Target, *replies: AssistantMessage) -> list[Finding]:
    return [finding for finding in audit_body(body, target, replies=replies) if finding.rule.startswith("GEM-")]


def findings(body: Any, model: str = THREE, *replies: AssistantMessage, host: str = "google") -> list[Finding]:
    return audit(body, replace(resolve(f"{host}/{model}", dialect="gemini"), account="me"), *replies)


def places(body: Any, model: str = THREE, *replies: AssistantMessage, host: str = "google") -> list[tuple[str, str]]:
    return [(finding.rule, finding.pointer) for finding in findings(body, model, *replies, host=host)]


def refusals(body: Any, model: str = THREE, *replies: AssistantMessage, host: str = "google") -> list[str]:
    """Return the rules of the refusals, uncertain ones with a question mark."""
    found = findings(body, model, *replies, host=host)
    names = [(finding.rule if finding.certain else f"{finding.rule}?", finding) for finding in found]
    return [name for name, finding in names if finding.severity == "refused" or not finding.certain]


# --- accepted, with a caveat or without -------------------------------------------------------------------------------

LOOP = request(model_turn(CALL), user(RESULT), model_turn("Rain."), user("And tomorrow?"))
TWO = request(model_turn(signed({"text": "a"}, SIG_A)), user("b"), model_turn("c"), user("d"))
ID_CALL = {"functionCall": {"name": "weather", "id": "1"}}


@pytest.mark.parametrize(
    "body, model, host, expected",
    [
        (request(model_turn(signed(CALL, SENTINEL)), user(RESULT)), THREE, "google",
         [("GEM-SIG-08", "/contents/1/parts/0/thoughtSignature")]),
        (request(model_turn(signed(CALL, "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I=")), user(RESULT)), THREE, "google",
         [("GEM-SIG-08", "/contents/1/parts/0/thoughtSignature")]),
        (LOOP, OLD, "google", [("GEM-SIG-09", "/contents/1/parts/0")]),
        (TWO, NEW, "google", [("GEM-SIG-07", "/contents/3")]),
        (request(model_turn(signed(CALL, SIG_A)), user(RESULT, IMAGE)), OLD, "google", [("GEM-TURN-05", "/contents/2/parts")]),
        (request(model_turn("[Reasoning: it rains] Rain."), user("b")), THREE, "google", [("GEM-PART-05", "/contents/1/parts/0")]),
        (request(model_turn("<think>it rains</think> Rain."), user("b")), OLD, "google", [("GEM-PART-05", "/contents/1/parts/0")]),
        (TWO, THREE, "google", []),
        (request(model_turn(signed(CALL, SIG_A)), user(RESULT)), OLD, "google", []),
        (request(model_turn(CALL), user(RESULT)), "gemini-3-pro-image-preview", "google", []),
        (request(model_turn({"text": "[Reasoning: rain]", "thought": True}, "Rain."), user("b")), THREE, "google", []),
        (request(model_turn("a"), user("b"), model_turn("c"), user("d")), NEW, "google", []),
        (request(model_turn("Let me look."), model_turn(signed(CALL, SIG_A)), user(RESULT)), THREE, "google", []),
        (request(model_turn(signed(CALL, SIG_A)), model_turn(OTHER_CALL), user(RESULT), user(RESULT)), THREE, "google", []),
        (request(model_turn(CALL), user(RESULT), user(IMAGE)), THREE, "google", []),
        (request(model_turn(signed(CALL, SIG_A), signed(OTHER_CALL, SIG_A)), user(RESULT, RESULT)), OLD, "vertex", []),
        (request(model_turn({"function_call": CALL["functionCall"], "thought_signature": SIG_A}),
                 user({"function_response": RESULT["functionResponse"]})), THREE, "vertex", []),
        (request(model_turn(signed(CALL, SIG_A)), user(signed(RESULT, SIG_A))), THREE, "google", []),
        (request(model_turn(signed({"text": ""}, SIG_A)), user("b")), THREE, "vertex", []),
        (request(model_turn("The weather is")), NEW, "google", []),
        (request(tools=[{"functionDeclarations": [
            {"name": "f", "parameters": {"type": "OBJECT", "additionalProperties": {"type": "STRING"}}}]}]),
         THREE, "vertex", []),
        (request(model_turn(signed(ID_CALL, SIG_A), ID_CALL),
                 user(*[{"functionResponse": {"name": "weather", "id": "1", "response": {}}}] * 2)), NEW, "google", []),
        (request(), "gemini-9-hydrogen", "google", []),
        (request(), "tunedModels/mine-4711", "google", []),
        (request(model_turn({"tool_response": {"tool_type": "GOOGLE_SEARCH_WEB", "response": {"a": 1}}}), user("b")),
         THREE, "google", []),
    ],
)  # fmt: skip
def test_accepted_request_has_only_caveats(body, model, host, expected):
    assert places(body, model, host=host) == expected
    assert refusals(body, model, host=host) == []


def test_unknown_host_may_serve_any_model():
    assert audit(request(), target_of("gemini", "some-tuned-thing", "my-own-gateway")) == []


# --- refusals without a case file -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body, model, host, expected",
    [
        ({"contents": {"parts": {}}}, THREE, "google", ("GEM-PART-01", "/contents/parts")),
        (request(generation_config={"thinking_config": {"thinking_budget": 64}}), PRO, "google",
         ("GEM-PARAM-04", "/generation_config/thinking_config/thinking_budget")),
        (request(tools=[{"function_declarations": [
            {"name": "f", "parameters": {"properties": {"a/b": {"any_of": [{"$ref": "#"}]}}}}]}]), THREE, "google",
         ("GEM-SCHEMA-01", "/tools/0/function_declarations/0/parameters/properties/a~1b/any_of/0/$ref")),
        (request(tools={"function_declarations": {"name": "f", "parameters": {"type": "array"}}}), THREE, "google",
         ("GEM-SCHEMA-02", "/tools/function_declarations/parameters")),
        (request(model_turn(""), user("b")), THREE, "vertex", ("GEM-PART-01", "/contents/1/parts/0")),
        (request({"parts": [{"text": "a"}]}), THREE, "vertex", ("GEM-TURN-03", "/contents/1/role")),
        (request(model_turn(signed(CALL, "no base64!")), user(RESULT)), THREE, "google",
         ("GEM-SIG-02", "/contents/1/parts/0/thoughtSignature")),
    ],
)  # fmt: skip
def test_refusal_names_its_place(body, model, host, expected):
    assert expected in places(body, model, host=host)
    assert expected[0] in refusals(body, model, host=host)


# --- signatures compared with the transcript --------------------------------------------------------------------------

FIRST, SECOND = reply(call("Oslo", SIG_A)), reply(call("Bergen", SIG_B))
STEPS = request(model_turn(signed(CALL, SIG_A)), user(RESULT), model_turn(signed(OTHER_CALL, SIG_B)), user(RESULT))


def changed(index: int, **fields: Any) -> dict[str, Any]:
    """Return the two steps with other fields on the part of one; None removes a field."""
    body = copy.deepcopy(STEPS)
    part = body["contents"][index]["parts"][0]
    part.update(fields)
    body["contents"][index]["parts"][0] = {name: value for name, value in part.items() if value is not None}
    return body


@pytest.mark.parametrize(
    "body, expected",
    [
        (STEPS, []),
        (changed(1, thoughtSignature=SIG_A.replace("/", "_").rstrip("=")), []),
        (changed(3, thoughtSignature=SIG_C), ["GEM-SIG-02"]),
        (changed(3, thoughtSignature=SIG_A + SIG_B), ["GEM-SIG-02"]),
        (changed(3, functionCall={"name": "weather", "args": {"city": "Bergen"}, "id": "mine"}), []),
    ],
)
def test_each_signature_is_compared(body, expected):
    assert refusals(body, THREE, FIRST, SECOND) == expected
    assert refusals(body) == []


@pytest.mark.parametrize(
    "origin, expected",
    [
        (Origin("vertex", "gemini", THREE, "me"), ["GEM-SIG-02"]),
        (Origin("google", "gemini", THREE, "another"), ["GEM-SIG-02"]),
        (Origin("google", "gemini", OLD, "me"), ["GEM-SIG-02"]),
        (Origin("google", "gemini", "gemini-4-argon", "me"), ["GEM-SIG-02"]),
        (None, []),
        (Origin("google", "gemini"), []),
        (Origin("google", "gemini", "gemini-3.1-pro-preview", "me"), []),
    ],
)
def test_signature_belongs_to_host_account_and_generation(origin, expected):
    assert refusals(STEPS, THREE, FIRST, replace(SECOND, origin=origin)) == expected


def test_simulated_hosts_are_different_issuers():
    target = resolve(f"sim/gemini/{THREE}", dialect="gemini")
    own, other = (Origin("sim", "gemini", f"{part}/{THREE}") for part in ("gemini", "vertex"))
    accepted = audit(STEPS, target, replace(FIRST, origin=own), replace(SECOND, origin=own))
    refused = audit(STEPS, target, replace(FIRST, origin=own), replace(SECOND, origin=other))

    assert accepted == []
    assert [finding.pointer for finding in refused] == ["/contents/3/parts/0/thoughtSignature"]


DRAWN = reply(text("Here:", SIG_A), Image(data="AAAA", mime="image/png", meta=GeminiMeta(SIG_B)))
RAN = reply(CodeExecution("1", "PYTHON", meta=GeminiMeta(SIG_A)), CodeExecution("2", "PYTHON", meta=GeminiMeta(SIG_B)))
NEWLY = reply(Opaque("gemini", f'{{"hologram":{{}},"text":"seen","thoughtSignature":"{SIG_A}"}}'))


@pytest.mark.parametrize(
    "parts, received, expected",
    [
        ([signed({"text": "Here:"}, SIG_A), signed(IMAGE, SIG_B)], DRAWN, []),
        ([signed({"text": "So: Here:"}, SIG_A), signed(IMAGE, SIG_B)], DRAWN, []),
        ([signed({"text": "Here: "}, SIG_A), signed(IMAGE, SIG_B)], DRAWN, ["GEM-SIG-05?"]),
        ([signed({"text": "Here:"}, SIG_B), IMAGE], DRAWN, ["GEM-SIG-02"]),
        ([signed({"text": "Hm.", "thought": True}, SIG_A), "Here:", signed(IMAGE, SIG_B)], DRAWN, []),
        ([signed({"executableCode": {"code": "1"}}, SIG_A), signed({"executableCode": {"code": "2"}}, SIG_B)], RAN, []),
        ([signed({"executableCode": {"code": "2"}}, SIG_B), signed({"executableCode": {"code": "1"}}, SIG_A)], RAN,
         ["GEM-SIG-02"]),
        ([signed({"text": "seen"}, SIG_A)], NEWLY, []),
        ([signed({"text": "unseen?"}, SIG_A)], NEWLY, ["GEM-SIG-05?"]),
    ],
)  # fmt: skip
def test_signature_stays_on_its_part(parts, received, expected):
    assert refusals(request(model_turn(*parts), user("b")), THREE, received) == expected


def test_lost_signature_of_answer_is_reported():
    streamed = reply(text("Rain."), text("", SIG_A))
    with_signature = request(model_turn("Rain.", signed({"text": ""}, SIG_A)), user("b"))
    without = request(model_turn("Rain."), user("b"))

    assert places(with_signature, THREE, streamed) == []
    assert places(without, THREE, streamed) == [("GEM-SIG-06", "/contents/1/parts/0")]
    assert places(without, THREE, replace(streamed, origin=Origin("x", "openai-chat"))) == []
    assert places(without, THREE, reply(text("Rain."))) == []


def test_same_answer_twice_has_two_signatures():
    received = (reply(text("Rain.", SIG_A)), reply(text("Rain.", SIG_B)))
    both = [model_turn(signed({"text": "Rain."}, signature)) for signature in (SIG_A, SIG_B)]

    assert places(request(both[0], user("b"), both[1], user("c")), THREE, *received) == []
    assert refusals(request(both[0], user("b"), both[0], user("c")), THREE, *received) == ["GEM-SIG-02"]


def test_only_turns_that_had_signatures_can_lose_them():
    own = replace(GOOGLE, model=NEW)
    first = reply(text("a", SIG_A), origin=own)

    assert ("GEM-SIG-07", "/contents/3") in places(TWO, NEW, first, reply(text("c", SIG_B), origin=own))
    assert places(TWO, NEW, first, reply(text("c"), origin=Origin("x", "openai-chat"))) == []
    older = replace(GOOGLE, model=OLD)
    assert places(LOOP, OLD, reply(call("Oslo", SIG_A), origin=older)) == [("GEM-SIG-09", "/contents/1/parts/0")]
    assert places(LOOP, OLD, reply(call("Oslo"), origin=older)) == []


def test_reasoning_of_a_reply_is_recognized_as_text():
    body = request(model_turn("It may rain.", "Rain."), user("b"))

    assert places(body, THREE, reply(Reasoning("It may rain."), text("Rain."))) == [
        ("GEM-PART-05", "/contents/1/parts/0")
    ]
