"""What the audit sees in requests of Responses, beside the refusals that have a file of their own."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.responses_cases import BROKEN, KEPT, SPOKEN, THINK, said
from sim.responses_help import Host, assistant, call, output, results, user, without
from sim.test_responses_rules import TOLERATED
from tenuto.audit import Finding, audit_body
from tenuto.catalog import resolve
from tenuto.core.blocks import OpenAiMeta, Reasoning, ServerToolUse, Text, ToolUse
from tenuto.core.messages import AssistantMessage, Origin
from tenuto.core.provider import Target
from tenuto.wire.decoder import decode_body
from tenuto.wire.registry import codec_for

DIALECT = "openai-responses"


def target(name: str, account: str = "mine") -> Target:
    return msgspec.structs.replace(resolve(f"sim/{name}", dialect=DIALECT), account=account)


def replies(host: Host, to: Target) -> tuple[AssistantMessage, ...]:
    """What a host has said, as it is received."""
    decoded = (decode_body(codec_for(DIALECT).decoder(to), json.dumps(made.reply).encode()) for made in host.made)
    return tuple(reply.choices[0].message for reply in decoded)


def asked(style, model, body) -> tuple[dict, tuple[Finding, ...], Host]:
    """Let a host say what the request needs, and audit the request."""
    host = Host(style, model)
    whole = body(host) if callable(body) else body
    to = target(f"{style.name}/{model}" if model else style.name)
    return whole, audit_body(whole, to, given=replies(host, to)), host


def broken(findings, *severities) -> list[tuple[str, str]]:
    wanted = severities or ("refused",)
    return [(finding.rule, finding.pointer) for finding in findings if finding.severity in wanted]


# --- the two judges ---------------------------------------------------------------------------------------------------

REMEMBERED = ("OAR-REAS-10", "OAR-PARAM-06", "OAR-PARAM-11")
"""The simulator knows what it streamed and stored; no request and no reply shows it."""
UNCERTAIN = ("gpt-5.2-proo", "word word word")
"""It also has a list of models, and counts tokens: a later model may have such a name, and words are fewer than tokens."""


def named(case) -> str:
    return f"{case.rule}-{case.style.name}{case.place}"


@pytest.mark.parametrize("case", BROKEN, ids=named)
def test_the_audit_sees_what_the_simulator_refuses(case):
    body, found, host = asked(case.style, case.model, case.body)
    told = broken(found, "refused", "lost", "warned")
    uncertain = any(word in json.dumps([case.model, body]) for word in UNCERTAIN)
    ungiven = not host.made and (callable(case.body) or case.rule in ("OAR-REAS-04", "OAR-REAS-05"))

    assert ((case.rule, case.place) in told) is not (case.rule in REMEMBERED or uncertain or ungiven)


@pytest.mark.parametrize("case", KEPT, ids=named)
def test_the_audit_is_silent_where_the_simulator_is(case):
    _, found, _ = asked(case.style, case.model, case.body)

    assert broken(found) == []
    assert case.rule not in [finding.rule for finding in found]


@pytest.mark.parametrize("name", TOLERATED)
def test_what_the_provider_takes_is_not_faulted(name):
    style, body = TOLERATED[name]
    _, found, _ = asked(style, "", body)

    assert broken(found) == []


# --- what is lost, and what there is to know --------------------------------------------------------------------------

TALK = said(*SPOKEN, more=[user()])


@pytest.mark.parametrize(
    ("name", "context", "noted"),
    [
        ("openai/gpt-5", None, True),
        ("azure/o3", "auto", True),
        ("openai/gpt-5", "all_turns", False),
        ("openai/gpt-5.6", None, False),
        ("openai/gpt-6-sol", "auto", False),
        ("openai/gpt-5.6", "current_turn", True),
        ("openai", None, False),
        ("azure/my-deployment", None, False),
    ],
)
def test_reasoning_of_earlier_turns_is_read_only_where_all_turns_are(name, context, noted):
    body = TALK(Host()) | {"reasoning": {"context": context}}
    found = audit_body(body, target(name))

    assert broken(found, "warned") == ([("OAR-REAS-11", "/input/1")] if noted else [])


def test_a_phase_is_known_again_by_its_id_and_by_its_words():
    host = Host(model="gpt-5.6")
    items = host.output({"input": [user()], "store": False}, *SPOKEN)
    to = target("openai/gpt-5.6")
    lost = without(items[1], "phase")
    for item in (lost, without(lost, "id"), {"role": "assistant", "content": "It rains."}):
        found = audit_body({"input": [user(), items[0], item, user()]}, to, given=replies(host, to))
        assert broken(found, "lost") == [("OAR-ITEM-07", "/input/2/phase")]
    for item in (items[1], {"role": "assistant", "content": "It snows."}):
        found = audit_body({"input": [user(), items[0], item, user()]}, to, given=replies(host, to))
        assert broken(found, "lost") == []


@pytest.mark.parametrize(
    ("input", "at"),
    [
        ([user(), call("a"), assistant(), output("a")], [1]),
        ([user(), call("a"), call("b"), assistant(), output("a"), output("b")], [1, 2]),
        ([user(), assistant(), call("a"), output("a"), assistant()], []),
        ([user(), call("a"), user(), assistant()], []),
    ],
)
def test_calls_are_best_sent_last_where_they_are_moved_there(input, at):
    found = audit_body({"input": input}, target("deepseek"))

    assert broken(found, "warned") == [("OAR-DS-01", f"/input/{i}") for i in at]
    assert broken(audit_body({"input": input}, target("xai")), "warned") == []


# --- parameters -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "refused"),
    [
        ("openai/no-such-model", True),
        ("openai/gpt-5.2", False),
        ("openai/gpt-9-nova", False),
        ("openai/ft:gpt-4o-mini:acme::x", False),
        ("azure/no-such-model", False),
        ("xai/no-such-model", False),
        ("openai", False),
    ],
)
def test_a_name_is_no_models_only_if_it_has_no_style_of_any(name, refused):
    found = audit_body({"input": "Hello"}, target(name))

    assert broken(found) == ([("OAR-PARAM-08", "/model")] if refused else [])


def test_whoever_is_asked_at_an_address_of_its_own_may_serve_any_model():
    to = resolve("openai/llama", dialect=DIALECT)
    found = [
        broken(audit_body({"input": "x"}, msgspec.structs.replace(to, platform=host)))
        for host in ("", "api.openai.com", "localhost:8080")
    ]

    assert found == [[("OAR-PARAM-08", "/model")], [("OAR-PARAM-08", "/model")], []]


@pytest.mark.parametrize(
    ("words", "more", "refused"),
    [(128_001, {}, True), (128_000, {}, False), (200_000, {"truncation": "auto"}, False)],
)
def test_more_words_than_the_window_has_tokens_are_too_many(words, more, refused):
    body = {"input": [user("a " * words)], **more}

    assert broken(audit_body(body, target("openai/gpt-4o"))) == ([("OAR-PARAM-09", "/input")] if refused else [])
    assert broken(audit_body(body, target("openai"))) == []


@pytest.mark.parametrize(
    ("name", "body", "at"),
    [
        ("openai/gpt-5", {"temperature": 1, "top_p": None}, ["/temperature"]),
        ("openai/gpt-5.5", {"top_logprobs": 2}, ["/top_logprobs"]),
        ("openai/gpt-5.5", {"top_logprobs": 2, "reasoning": {"effort": "none"}}, []),
        ("openai/gpt-5.4", {"temperature": 1}, []),
        ("azure/o3", {"temperature": 1, "include": ["message.output_text.logprobs"]}, ["/temperature", "/include"]),
        ("openai", {"temperature": 1}, []),
        ("openai/gpt-4o", {"temperature": 1}, []),
    ],
)
def test_who_reasons_is_not_told_how_to_sample(name, body, at):
    found = audit_body({"input": "x", **body}, target(name))

    assert broken(found) == [("OAR-PARAM-01", pointer) for pointer in at]


def test_a_guess_at_a_models_efforts_is_no_ground_to_refuse():
    body = {"input": "x", "reasoning": {"effort": "minimal"}}

    assert broken(audit_body(body, target("openai/gpt-5.5"))) == [("OAR-PARAM-02", "/reasoning/effort")]
    assert broken(audit_body(body, target("openai/gpt-9-nova"))) == []


def test_a_key_is_named_by_a_pointer_even_if_it_holds_a_slash():
    found = audit_body({"input": "x", "a/b~c": 1}, target("openai"))

    assert broken(found) == [("OAR-PARAM-10", "/a~1b~0c")]


# --- what was given ---------------------------------------------------------------------------------------------------


def talk(turns: int) -> tuple[Host, list[dict]]:
    """A conversation of several turns, each with a thought and a call; all of it goes back."""
    host, input = Host(), [user()]
    for _ in range(turns):
        items = host.output({"input": input, "store": False}, *THINK)
        input = [*input, *items, *results(items)]
    return host, input


def audited(input: list[dict], host: Host, **more) -> list[tuple[str, str]]:
    to = target("openai")
    return broken(audit_body({"input": input, "store": False, **more}, to, given=replies(host, to)))


def test_one_thought_lost_among_many_is_found():
    host, input = talk(4)

    assert audited(input, host) == []
    for turn in range(4):
        at = 1 + 3 * turn
        assert audited(input[:at] + input[at + 1 :], host) == [("OAR-REAS-01", f"/input/{at}/id")]
        assert audited(input[: at + 1], host) == [("OAR-REAS-03", f"/input/{at}")]


def test_one_ciphertext_changed_among_many_is_found():
    host, input = talk(4)
    for turn in range(4):
        at = 1 + 3 * turn
        changed = [dict(item) for item in input]
        changed[at]["encrypted_content"] = changed[at]["encrypted_content"].swapcase()
        assert audited(changed, host) == [("OAR-REAS-05", f"/input/{at}/encrypted_content")]


def test_ciphertexts_that_changed_places_are_both_found():
    host, input = talk(2)
    one, two = input[1]["encrypted_content"], input[4]["encrypted_content"]
    input[1], input[4] = input[1] | {"encrypted_content": two}, input[4] | {"encrypted_content": one}

    assert audited(input, host) == [("OAR-REAS-05", f"/input/{at}/encrypted_content") for at in (1, 4)]


def test_a_summary_may_be_emptied_and_ids_may_be_left_out():
    host, input = talk(2)
    bare = [without(item, "id") | ({"summary": []} if item.get("type") == "reasoning" else {}) for item in input]

    assert audited(bare, host) == []


@pytest.mark.parametrize(
    ("change", "refused"),
    [({}, False), ({"account": "yours"}, True), ({"platform": "elsewhere.example"}, True), ({"model": "azure"}, True)],
)
def test_a_ciphertext_is_read_only_by_whom_gave_it(change, refused):
    host, input = talk(1)
    to = msgspec.structs.replace(target("openai"), platform="here.example")
    own = [
        msgspec.structs.replace(message, origin=msgspec.structs.replace(message.origin, **change))
        for message in replies(host, to)
    ]
    found = broken(audit_body({"input": input}, to, given=tuple(own)))

    assert (("OAR-REAS-05", "/input/1/encrypted_content") in found) is refused


def test_nothing_is_said_of_tokens_where_nothing_is_known_of_replies():
    _, input = talk(2)
    input[1] = input[1] | {"encrypted_content": "gAAAAA"}

    assert broken(audit_body({"input": [*input[:4], *input[5:]]}, target("openai"))) == []


def test_what_is_stored_need_not_be_sent():
    host = Host()
    reply = host.reply({"input": [user()]}, *THINK)
    thought, made = reply["output"]
    on = {"previous_response_id": reply["id"], "store": True}

    assert audited([output(made["call_id"])], host, **on) == []
    assert audited([user()], host, **on) == [("OAR-TOOL-01", "/previous_response_id")]
    assert audited([output("call_other"), output(made["call_id"])], host, **on) == [("OAR-TOOL-02", "/input/0/call_id")]
    assert audited([thought, made, output(made["call_id"])], host, **on) == [
        ("OAR-ITEM-01", "/input/0/id"),
        ("OAR-ITEM-01", "/input/1/id"),
    ]


def test_nobody_goes_on_from_what_another_provider_gave():
    to = target("openai")
    foreign = AssistantMessage((Text("Hi"),), origin=Origin("another", "openai-chat"))
    own = AssistantMessage((Text("Hi"),), origin=Origin("sim", DIALECT, "openai"))
    body = {"input": [user()], "previous_response_id": "resp_1"}

    assert broken(audit_body(body, to, given=(foreign,))) == [("OAR-PARAM-06", "/previous_response_id")]
    assert broken(audit_body(body, to, given=(foreign, own))) == []


def test_an_item_that_another_provider_named_cannot_be_looked_up():
    to = target("openai")
    foreign = AssistantMessage((ServerToolUse("ws_9", "web_search"),), origin=Origin("another", "anthropic-messages"))
    body = {"input": [user(), {"type": "item_reference", "id": "ws_9"}]}

    assert broken(audit_body(body, to, given=(foreign,))) == [("OAR-ITEM-04", "/input/1/id")]
    assert broken(audit_body(body, to)) == []


def test_a_namespace_that_was_given_is_missed():
    to = target("openai")
    made = ToolUse("call_1", "f", "{}", extra='{"namespace": "ns"}', meta=OpenAiMeta("fc_1"))
    given_ = (AssistantMessage((made,), origin=Origin("sim", DIALECT, "openai")),)
    body = {"input": [user(), call(name="f"), output()]}

    assert broken(audit_body(body, to, given=given_)) == [("OAR-ITEM-08", "/input/1/namespace")]
    assert broken(audit_body(body, to)) == []


def test_what_belongs_to_no_item_stands_between_none():
    """A thought is followed by the next item of its reply, not by speech or an empty text that no request holds."""
    to = target("openai")
    thought = Reasoning("Hm", meta=OpenAiMeta("rs_1", "gAAAA1"), extra='{"summary": []}')
    made = ToolUse("call_1", "f", "{}", meta=OpenAiMeta("fc_1"))
    given_ = (AssistantMessage((thought, Text(""), made), origin=Origin("sim", DIALECT, "openai")),)
    item = {"type": "reasoning", "id": "rs_1", "encrypted_content": "gAAAA1", "summary": []}

    assert broken(audit_body({"input": [user(), item, call() | {"id": "fc_1"}, output()]}, to, given=given_)) == []


# --- any shape --------------------------------------------------------------------------------------------------------

WORDS = [
    *(
        "message",
        "reasoning",
        "function_call",
        "function_call_output",
        "custom_tool_call",
        "item_reference",
        "compaction",
    ),
    *("assistant", "user", "namespace", "function", "rs_1", "msg_1", "call_1", "", "gAAAA", "json_object", "\ud800"),
]
KEYS = [
    *(
        "type",
        "role",
        "id",
        "call_id",
        "content",
        "summary",
        "encrypted_content",
        "status",
        "arguments",
        "output",
        "name",
    ),
    *(
        "tools",
        "parameters",
        "properties",
        "anyOf",
        "items",
        "required",
        "strict",
        "output_schema",
        "effort",
        "context",
    ),
    *("input", "reasoning", "text", "format", "include", "store", "temperature", "previous_response_id", "a/b", ""),
]
KEY = st.sampled_from(KEYS)
JSON = st.recursive(
    st.sampled_from([*WORDS, None, True, False, -1, 0, 1.5, 10**400, [], {}]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEY, inner, max_size=4),
    max_leaves=8,
)
ITEMS = st.lists(st.dictionaries(KEY, JSON, max_size=5), max_size=4)
BODIES = st.dictionaries(KEY, JSON, max_size=5) | st.fixed_dictionaries({"input": ITEMS}, optional={"tools": ITEMS})
TARGETS = ["openai", "openai/gpt-5", "openai/gpt-4o", "azure", "xai", "deepseek", "meta"]


@given(BODIES, st.sampled_from(TARGETS))
def test_no_body_is_too_strange_to_be_looked_at(body, name):
    to = target(name)
    blocks = (Reasoning("Hm", meta=OpenAiMeta("rs_1", "gAAAA")), Text("Hi", meta=OpenAiMeta("msg_1")))
    told = AssistantMessage((*blocks, ToolUse("call_1", "f", "{}")), origin=Origin("sim", DIALECT, name))
    for known in ((), (told,)):
        for finding in audit_body(body, to, given=known):
            assert finding.pointer == "" or finding.pointer.startswith("/")
            assert finding.remedy
