"""Chat replies of a transcript: signed thinking and reasoning details that are sent back changed or not at all."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from tenuto.audit import audit_body
from tenuto.catalog import resolve
from tenuto.core.blocks import ChatMeta, Reasoning, Text, ToolUse
from tenuto.core.messages import AssistantMessage, Origin

HI = {"role": "user", "content": "hi"}
CLAUDE, GPT = "openrouter/anthropic/claude-opus-4.6", "openrouter/openai/gpt-6-sol"


def said(*messages, **rest):
    return {"messages": list(messages), **rest}


def call(*ids, **rest):
    calls = [{"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}} for id in ids or ("c1",)]
    return {"role": "assistant", "content": None, "tool_calls": calls, **rest}


def result(id="c1", **rest):
    return {"role": "tool", "tool_call_id": id, "content": "ok", **rest}


def says(text, **rest):
    return {"role": "assistant", "content": text, **rest}


def found(model, body, replies=(), account=""):
    """Return the rule and pointer of each finding of this dialect."""
    target = replace(resolve(model, dialect="openai-chat"), account=account)
    findings = audit_body(body, target, replies=tuple(replies))
    return [(one.rule, one.pointer) for one in findings if one.rule.startswith("OAC-")]


def reply(model, *blocks, account="me"):
    row, _, name = model.partition("/")
    return AssistantMessage(blocks, origin=Origin(row, "openai-chat", name, account))


def thought(text, **meta):
    return Reasoning(text, meta=ChatMeta(**meta))


def used(id="c1"):
    return ToolUse(id, "f", "{}")


MAGISTRAL, GLM, M2 = "mistral/magistral-medium-latest", "zai/glm-4.7", "minimax/MiniMax-M2"


def chunk(text, signature=None):
    part = {"type": "thinking", "thinking": [{"type": "text", "text": text}]}
    return part if signature is None else {**part, "signature": signature}


SO = {"type": "text", "text": "so"}
SIGNED = reply(
    MAGISTRAL,
    thought("hm", field="content", signature="s1"),
    thought("ha", field="content", signature="s2"),
    Text("so"),
)


@pytest.mark.parametrize(
    ("content", "lost"),
    [
        ([chunk("hm", "s1"), chunk("ha", "s2"), SO], False),
        ("so", True),
        ([chunk("hm", "s1"), SO], True),
        ([chunk("hm", "s2"), chunk("ha", "s1"), SO], True),
        ([chunk("ha", "s2"), chunk("hm", "s1"), SO], True),
        ([chunk("hm", "s1"), chunk("ha"), SO], True),
        ([chunk("hm", "s1"), chunk("other", "s2"), SO], True),
        ("something else", False),
    ],
    ids=["kept", "flattened", "one left out", "swapped", "turned", "unsigned", "changed", "of no reply"],
)
def test_thoughts_of_mistral_go_back_as_they_came(content, lost):
    body = said(HI, says(content), HI)
    told = [("OAC-MIS-06", "/messages/1/content")] if lost else []

    assert found(MAGISTRAL, body, [SIGNED]) == told
    assert found(MAGISTRAL, body) == []


@pytest.mark.parametrize(
    ("messages", "rest", "places"),
    [
        ([call(reasoning_content="hm"), result()], {}, []),
        ([call(), result()], {}, [1]),
        ([call(), result()], {"thinking": {"type": "disabled"}}, []),
        ([call(), result(), says("x"), HI], {}, []),
        ([call(), result(), says("x"), HI], {"thinking": {"type": "enabled", "clear_thinking": False}}, [1]),
        ([call("c9"), result("c9")], {}, []),
    ],
    ids=["kept", "left out", "off", "an older turn", "an older turn that counts", "of no reply"],
)
def test_thoughts_of_glm_go_back_inside_a_loop(messages, rest, places):
    given = [reply(GLM, thought("hm", field="reasoning_content"), used())]
    told = [("OAC-ZAI-02", f"/messages/{at}/reasoning_content") for at in places]

    assert found(GLM, said(HI, *messages, **rest), given) == told


@pytest.mark.parametrize(
    ("message", "lost"),
    [
        (call(content="<think>\nhm\n</think>\n\n"), False),
        (call(reasoning_details=[{"type": "reasoning.text", "text": "hm"}]), False),
        (call(), True),
        (call(content="so"), True),
        (call("c9"), False),
    ],
)
def test_thoughts_of_minimax_go_back_with_calls(message, lost):
    body = said(HI, message, result(message["tool_calls"][0]["id"]))
    given = [reply(M2, thought("\nhm\n", field="think"), used())]

    assert found(M2, body, given) == ([("OAC-MM-01", "/messages/1/content")] if lost else [])


@pytest.mark.parametrize("model", [MAGISTRAL, GLM, M2])
def test_what_another_provider_thought_is_not_missed(model):
    body = said(HI, call("a1B2c3D4e"), result("a1B2c3D4e"))
    foreign = reply("deepseek/deepseek-v4-pro", thought("hm", field="reasoning_content"), used("a1B2c3D4e"))

    assert found(model, body, [foreign]) == []


def test_replies_that_say_the_same_are_told_apart_by_nobody():
    given = [reply(MAGISTRAL, thought(word, field="content", signature=word), Text("so")) for word in ("hm", "ha")]

    for word in ("hm", "ha"):
        assert found(MAGISTRAL, said(HI, says([chunk(word, word), SO]), HI), given) == []
    assert found(MAGISTRAL, said(HI, says([chunk("hm", "ha"), SO]), HI), given) != []


# --- OpenRouter's details ---------------------------------------------------------------------------------------------


def detail(text, signature, index=0):
    form = {"type": "reasoning.text", "format": "anthropic-claude-v1", "index": index}
    return {**form, "text": text, "signature": signature}


def sealed(data, id="rs_1"):
    return {"type": "reasoning.encrypted", "format": "openai-responses-v1", "id": id, "data": data, "index": 0}


def detailed(model, details, *calls, account="me"):
    text = "".join(one.get("text", "") for one in details)
    thoughts = thought(text, field="reasoning", details=json.dumps(details))
    return reply(model, thoughts, *map(used, calls or ("c1",)), account=account)


MANY = [detail(f"thought {n}", f"s{n}", n) for n in range(5)]
OTHER = [detail("aside", "t", 0)]
BROKEN = [("OAC-OR-04", "/messages/1/reasoning_details")]


@pytest.mark.parametrize(
    ("details", "broken"),
    [
        (MANY, False),
        ([{**one, "id": None} for one in MANY], False),
        (None, False),
        ([*MANY[:4], {**MANY[4], "signature": "s3"}], True),
        ([*MANY[:4], {**MANY[4], "signature": "S4"}], True),
        ([*MANY, MANY[0]], True),
        (OTHER, True),
    ],
    ids=["kept", "null", "none", "swapped", "altered", "one twice", "another turn's"],
)
def test_details_go_back_as_they_came(details, broken):
    message = call() if details is None else call(reasoning_details=details)
    body = said(HI, message, result())
    given = [detailed(CLAUDE, OTHER, "c0"), detailed(CLAUDE, MANY, "c1")]

    assert found(CLAUDE, body, given, account="me") == (BROKEN if broken else [])
    assert found(CLAUDE, body) == []


def test_only_the_message_that_is_broken_is_named():
    given = [detailed(CLAUDE, [detail("hm", f"s{n}")], f"c{n}") for n in range(40)]
    turns = [(call(f"c{n}", reasoning_details=[detail("hm", f"s{n}")]), result(f"c{n}")) for n in range(40)]
    messages = [message for turn in turns for message in turn]
    messages[60] = call("c30", reasoning_details=[detail("hm", "s31")])

    assert found(CLAUDE, said(HI, *messages), given) == [("OAC-OR-04", "/messages/61/reasoning_details")]


def test_tokens_of_another_issuer_are_refused():
    body = said(HI, call(reasoning_details=MANY), result())
    other_provider = detailed("together/anthropic/claude-opus-4.6", MANY)

    for given in (detailed(CLAUDE, MANY, account="you"), other_provider, detailed(CLAUDE, OTHER)):
        assert found(CLAUDE, body, [given], account="me") == BROKEN


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (GPT, call(reasoning_details=MANY)),
        (CLAUDE, call(reasoning_details=[sealed("x")])),
        (CLAUDE, call(reasoning_details=[{**MANY[0], "signature": None}, MANY[1]])),
        ("openrouter/google/gemini-4-argon", call()),
        ("openrouter/google/gemini-4-argon", call(reasoning_details=[{"type": "reasoning.text", "text": "hm"}])),
    ],
)
def test_some_of_it_shows_without_the_replies(model, message):
    assert found(model, said(HI, message, result())) == BROKEN


def test_an_item_that_comes_twice_is_refused():
    turns = [call("c1", reasoning_details=[sealed("x")]), result("c1"), call("c2", reasoning_details=[sealed("x")])]

    assert found(GPT, said(HI, *turns, result("c2"))) == [("OAC-OR-04", "/messages/3/reasoning_details")]
    turns[2]["reasoning_details"] = [sealed("y", "rs_2")]
    assert found(GPT, said(HI, *turns, result("c2"))) == []
