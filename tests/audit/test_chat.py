"""What the audit sees in chat requests beside the refusals: what is lost or odd, what is borne, what was given."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tenuto.audit import audit_body
from tenuto.audit.chat import CHECKS, UNSEEN
from tenuto.audit.chat_parameters import PARAMETERS
from tenuto.audit.chat_thoughts import THOUGHTS
from tenuto.audit.chat_turns import TURNS
from tenuto.audit.looking import Sent
from tenuto.catalog import resolve
from tenuto.core.blocks import ChatMeta, Reasoning, Text, ToolUse
from tenuto.core.messages import AssistantMessage, Origin
from tenuto.core.rules import rules
from tenuto.oneshot import target_of

HI = {"role": "user", "content": "hi"}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
NAMED = {"type": "function", "function": {"name": "f"}}
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


def tools(**rest):
    return said(HI, tools=[TOOL], **rest)


def picture(url):
    return {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}


def found(model, body, replies=(), account=""):
    """What the audit says by the rules of this dialect: rule and place."""
    target = replace(resolve(model, dialect="openai-chat"), account=account)
    told = audit_body(body, target, given=tuple(replies))
    return [(one.rule, one.pointer) for one in told if one.rule in CHECKS]


def test_every_rule_is_seen_in_one_place_or_has_a_reason():
    book = {row.id for row in rules().values() if row.dialect == "openai-chat"}

    assert len(CHECKS) == len(PARAMETERS) + len(TURNS) + len(THOUGHTS)
    assert book == CHECKS.keys() | UNSEEN.keys()
    assert not CHECKS.keys() & UNSEEN.keys()


# --- what is lost or odd ----------------------------------------------------------------------------------------------

TALK = (HI, call(), result())
REASONED = says("x", reasoning="hm", reasoning_content="hm")
NINE = (HI, call("a1B2c3D4e"), result("a1B2c3D4e"))
LONG = "c" * 41


@pytest.mark.parametrize(
    ("rule", "model", "body", "pointers"),
    [
        ("OAC-OAI-03", "openai/gpt-5.2", said(HI, call("c1", LONG), result(), result(LONG)), ["/messages/1/tool_calls/1/id"]),
        ("OAC-OAI-16", "openai/gpt-5", said(*TALK, call("c2"), result("c2")), ["/messages/1", "/messages/3"]),
        ("OAC-OAI-16", "azure/o3", said(*TALK, HI, call("c2"), result("c2")), ["/messages/4"]),
        ("OAC-DS-06", "deepseek/deepseek-v4-pro", said(HI, temperature=0.1, top_p=1), ["/temperature", "/top_p"]),
        ("OAC-MIS-03", "mistral/mistral-small-latest", said(*NINE, HI), ["/messages/3/role"]),
        ("OAC-OR-03", CLAUDE, tools(tool_choice=NAMED, reasoning={"effort": "low"}), ["/reasoning"]),
        ("OAC-OR-03", CLAUDE, tools(tool_choice="required", reasoning={"max_tokens": 2000}), ["/reasoning"]),
        ("OAC-TOG-01", "together/x", said(HI, logprobs=True, stop="x"), ["/logprobs", "/stop"]),
        ("OAC-TOG-01", "together/x", tools(parallel_tool_calls=True), ["/parallel_tool_calls"]),
        ("OAC-OLL-01", "ollama/qwen3", tools(tool_choice="none"), ["/tool_choice"]),
        ("OAC-OLL-02", "llamacpp/x", said(HI, REASONED, HI), ["/messages/1"]),
    ],
)  # fmt: skip
def test_what_is_taken_and_spoilt_is_told(rule, model, body, pointers):
    told = [one for one in audit_body(body, resolve(model, dialect="openai-chat")) if one.rule == rule]

    assert sorted(one.pointer for one in told) == sorted(pointers)
    assert all(one.severity in ("lost", "warned") and one.remedy and one.source for one in told)


def test_every_place_is_named():
    """A provider tells its first; the audit tells all of them."""
    body = said(HI, call("c1", "c2"), result("c2"), result("c3"), HI, call("c4"), temperature=0.1, max_tokens=9)

    assert set(found("openai/o3", body)) >= {
        ("OAC-OAI-01", "/messages/1/tool_calls"),
        ("OAC-OAI-01", "/messages/5/tool_calls"),
        ("OAC-OAI-02", "/messages/3/tool_call_id"),
        ("OAC-OAI-05", "/max_tokens"),
        ("OAC-OAI-06", "/temperature"),
    }
    (told,) = (
        one.says for one in audit_body(body, resolve("openai-chat/o3")) if one.pointer == "/messages/1/tool_calls"
    )
    assert told.endswith("did not have response messages: c1")


# --- what is borne ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "body"),
    [
        ("openai/gpt-4o", said(HI, temperature=0.3, max_tokens=9, stop=[*"abcd"])),
        ("openai/gpt-4o", said(HI, call("c1", "c2"), result("c2"), result("c1"), result("c1"))),
        ("openai/gpt-4o", said(HI, says(""), HI, says(None, refusal="no"), HI)),
        ("openai/gpt-4o", said(picture("HTTPS://example.org/a.png"), picture("data:image/gif;base64,R0lGODlh"))),
        ("openai/gpt-5.2", said(HI, call(), result(content=picture("https://example.org/a.png")["content"]))),
        ("openai/gpt-5.4", said(HI, temperature=0.2, stop=["x"])),
        ("openai/o3", said(HI, presence_penalty=0, logprobs=False, logit_bias={}, temperature=1)),
        ("openai/gpt-5.5", tools()),
        ("azure/gpt-5.6-sol", tools(max_completion_tokens=9)),
        ("azure/gpt-5.2", said({"role": "developer", "content": "x"}, HI)),
        ("openai/gpt-4o", said(HI, functions=[{"name": "f"}], tool_choice="auto")),
        ("openai/gpt-4o-mini-search-preview", said(HI, web_search_options={})),
        ("openai/gpt-4o", said({"role": "user", "content": [{"type": "text", "text": "JSON!"}]}, response_format={"type": "json_object"})),
        ("deepseek/deepseek-chat", said(*TALK)),
        ("deepseek/deepseek-v4-pro", said(HI, call(reasoning_content=None), result())),
        ("deepseek/deepseek-v4-pro", said(HI, says("plain turns need none"), HI)),
        ("deepseek/deepseek-v4-pro", said(*TALK, tools=[TOOL], tool_choice="required", thinking={"type": "disabled"})),
        ("moonshot/kimi-k2.5", said(*TALK)),
        ("moonshot/kimi-k2-thinking", said(*TALK)),
        ("moonshot/kimi-k2.6", said(picture("ms://a"), says("", reasoning_content="hm"), HI)),
        ("mistral/mistral-small-latest", said(*NINE, says("It", prefix=True))),
        ("groq/openai/gpt-oss-120b", said(HI, call(reasoning="hm"), result(name="f"), n=1)),
        ("xai/grok-3", said(HI, presence_penalty=0, stop=["x"], reasoning_effort="low")),
        ("xai/grok-4.6", said(HI, reasoning_effort="xhigh")),
        ("xai/grok-4-fast-non-reasoning", said(HI, stop=["x"])),
        ("openrouter/moonshotai/kimi-k2.6", said(*TALK, reasoning={"enabled": False})),
        ("openrouter/moonshotai/kimi-k2.5", said(*TALK)),
        ("openrouter/google/gemini-4-argon", said(*TALK, says("so"), HI)),
        ("openrouter/openai/gpt-4o", said({"role": "developer", "content": "x"}, HI)),
        ("perplexity/sonar", said({"role": "system", "content": "x"}, *TALK, result("c2"), says("so"), HI)),
        ("groq/llama-3.3-70b-versatile", said(HI, logprobs=False)),
        ("zai/glm-4.7", said(picture("https://example.org/a.png"), call(), result(content=""))),
        ("alibaba/qwen3-235b-a22b-instruct-2507", said(HI)),
        ("alibaba/qwen3.8-omni-flash", tools(tool_choice="required")),
        ("huggingface/x", said(HI, call(), tools=[])),
        ("ollama/x", said(HI, call(), HI)),
    ],
)  # fmt: skip
def test_what_providers_take_is_not_refused(model, body):
    told = audit_body(body, resolve(model, dialect="openai-chat"))

    assert [] == [(one.rule, one.pointer) for one in told if one.severity == "refused"]


@pytest.mark.parametrize("row", ["openai", "deepseek", "moonshot", "xai", "alibaba", "openrouter", "groq"])
def test_of_a_model_that_is_not_named_only_that_is_told_which_holds_for_all(row):
    body = said(HI, says("x"), HI, temperature=0.5, tools=[TOOL], tool_choice="required", stop=["x"], max_tokens=9)

    told = audit_body(body, resolve(f"sim/{row}", dialect="openai-chat"))
    assert [] == [one.rule for one in told if one.severity == "refused"]


def test_of_a_server_that_nobody_knows_nothing_is_told():
    body = said(HI, call(), HI, result(), call(), says(None), tools=[], tool_choice="required", temperature=9)

    assert audit_body(body, target_of("openai-chat", "m", "custom")) == ()


@pytest.mark.parametrize(
    ("model", "rule"), [("perplexity/sonar", "OAC-PPLX-02"), ("cohere/command-a-03-2025", "OAC-COH-01")]
)
def test_what_cannot_fit_is_told(model, rule):
    window = resolve(model).traits.context_window

    assert (rule, "/messages") in found(model, said({"role": "user", "content": "word " * (2 * window)}))
    assert [] == found(model, said({"role": "user", "content": "word " * window}))


@pytest.mark.parametrize(
    "url",
    [
        "data:image/png;base64,SUkqAAgAAAAA", "data:image/png;base64,é", "data:image/webp;base64,UklGRiQAAABXQVZFZm10IA==",
        "DATA:image/png;base64,", "http://localhost:8080/a.png", "https://10.0.0.7/a.png", "http://[::1]/a.png",
        "https://me@a.invalid/b.png", "file:///a.png", "",
    ],
)  # fmt: skip
def test_pictures_that_nobody_can_read_are_told(url):
    assert found("openai/gpt-4o", said(picture(url))) == [("OAC-OAI-14", "/messages/0/content/0/image_url")]


# --- compared with what was given -------------------------------------------------------------------------------------


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
        ([call(reasoning_content="other"), result()], {}, [1]),
        ([call(), result()], {"thinking": {"type": "disabled"}}, []),
        ([call(), result(), says("x"), HI], {}, []),
        ([call(), result(), says("x"), HI], {"thinking": {"type": "enabled", "clear_thinking": False}}, [1]),
        ([call("c9"), result("c9")], {}, []),
    ],
    ids=["kept", "left out", "changed", "off", "an older turn", "an older turn that counts", "of no reply"],
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
        ([*MANY[:2], *MANY[3:]], True),
        ([*MANY[:2], MANY[3], MANY[2], MANY[4]], True),
        ([*MANY[:4], {**MANY[4], "signature": "s3"}], True),
        ([*MANY[:4], {**MANY[4], "signature": "S4"}], True),
        ([*MANY[:4], {**MANY[4], "text": "other"}], True),
        ([*MANY, MANY[0]], True),
        (OTHER, True),
    ],
    ids=["kept", "null", "none", "one lost", "order", "swapped", "altered", "text", "one twice", "another turn's"],
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


@pytest.mark.parametrize(
    "given",
    [
        [detailed(CLAUDE, MANY, account="you")],
        [detailed("together/anthropic/claude-opus-4.6", MANY)],
        [detailed(CLAUDE, OTHER)],
    ],
    ids=["another account", "another provider", "nobody"],
)
def test_tokens_of_another_issuer_are_refused(given):
    body = said(HI, call(reasoning_details=MANY), result())

    assert found(CLAUDE, body, given, account="me") == BROKEN


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


# --- anything ---------------------------------------------------------------------------------------------------------

WORDS = st.sampled_from(
    [
        *("messages", "role", "content", "type", "text", "tool_calls", "tool_call_id", "id", "function", "arguments"),
        *("name", "image_url", "url", "reasoning_content", "reasoning", "reasoning_details", "signature", "data"),
        *("format", "thinking", "tools", "tool_choice", "response_format", "reasoning_effort", "effort", "stop", "n"),
        *("temperature", "stream", "logprobs", "enabled", "max_tokens", "mode", "allowed_tools", "prefix", "a/b~c"),
    ]
)
SCALARS = st.none() | st.booleans() | st.integers(-2, 200) | st.floats() | st.text(max_size=3)
VALUES = st.sampled_from(
    [
        *("assistant", "tool", "user", "system", "function", "json_object", "none", "xhigh", "required", "image_url"),
        *("c1", "so", "anthropic-claude-v1", "openai-responses-v1", "reasoning.text", "data:;base64,a", "http://["),
    ]
)
ANYTHING = st.recursive(
    SCALARS | VALUES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=5),
    max_leaves=8,
)
CALLS = st.lists(st.dictionaries(WORDS, ANYTHING, max_size=3), max_size=3)
MESSAGE = st.fixed_dictionaries(
    {"role": st.sampled_from(["assistant", "tool", "user"]) | ANYTHING},
    optional={"tool_calls": CALLS | ANYTHING, "content": ANYTHING, "reasoning_details": CALLS | ANYTHING},
)
BODIES = st.dictionaries(WORDS, ANYTHING, max_size=6) | st.builds(
    lambda messages, rest: {**rest, "messages": messages},
    st.lists(MESSAGE | ANYTHING, max_size=5),
    st.dictionaries(WORDS, ANYTHING, max_size=4),
)
SEEN_BY = [
    *(MAGISTRAL, GLM, "perplexity/sonar", "openrouter/google/gemini-4-argon", GPT, "openai/gpt-6-sol", "deepseek/deepseek-v4-pro"),
    *("moonshot/kimi-k2.6", "xai/grok-4.5", "alibaba/qwen3.5-plus", "sim/groq", "sim/fireworks"),
]  # fmt: skip
GIVEN = (SIGNED, detailed(CLAUDE, MANY), detailed(GPT, [sealed("x")], "so"), AssistantMessage((Text("so"),)))


@given(body=BODIES, model=st.sampled_from(SEEN_BY))
@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck), phases=(Phase.generate,))
def test_no_body_trips_a_check(body, model):
    """Every check is put to it, whether it concerns the model or not."""
    sent = Sent(resolve(model, dialect="openai-chat"), body, {}, GIVEN)

    for id, check in CHECKS.items():
        for broken in check(sent):
            told = broken.finding()
            assert told.rule == id
            assert "{" not in told.pointer
