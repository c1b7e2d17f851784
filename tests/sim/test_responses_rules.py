"""Every rule of the Responses dialect is broken once and kept once; what the provider tolerates is accepted."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from sim.responses_cases import BROKEN, KEPT, SPOKEN, THINK, Case, go_on, said
from sim.responses_help import AZURE, DEEPSEEK, OPENAI, XAI, Host, assistant, call, output, user, without
from tenuto.core.rules import rule, rules
from tenuto.sim.asked import Malformed
from tenuto.sim.envelopes import refusal
from tenuto.sim.judging import judge
from tenuto.sim.responses.rules import CHECKS, UNCHECKED
from tenuto.sim.responses.voice import VOICE
from tenuto.sim.script import Call, Say, Search, Stop, Think
from tenuto.sim.styles import find

CORPUS = Path(os.environ.get("TENUTO_CORPUS") or Path(__file__).parents[3] / "shared" / "corpus")


def named(case: Case) -> str:
    return f"{case.rule}-{case.style.name}{case.place}"


@pytest.mark.parametrize("case", BROKEN, ids=named)
def test_a_broken_rule_is_told_with_its_place_and_the_providers_words(case):
    verdict = case.judged()
    row = rule(case.rule)
    broken = verdict.refusal
    if row.severity != "refused":
        assert broken is None
        broken = next(found for found in verdict.noted if found.rule == case.rule)
    assert broken is not None
    assert broken.rule == case.rule
    assert broken.place == case.place
    assert "{" not in broken.message + broken.place + (broken.parameter or "")
    if row.trust == "verbatim" and case.says:
        assert case.says in broken.message
    if case.param:
        assert broken.parameter == case.param
    if row.severity == "refused":
        assert row.status in (400, 404)
        assert broken.message


@pytest.mark.parametrize("case", KEPT, ids=named)
def test_a_rule_that_is_kept_is_put_to_the_test_and_refuses_nothing(case):
    verdict = case.judged()

    assert verdict.refusal is None
    assert case.rule in verdict.tried
    assert case.rule not in [found.rule for found in verdict.noted]


ELSEWHERE = {"xai": {"OAR-REAS-04", "OAR-PARAM-06"}, "meta": {"OAR-REAS-06"}}
"""Rules that hold for others than OpenAI and Azure."""


@pytest.mark.parametrize("name", ["xai", "deepseek", "meta", "ollama"])
def test_what_only_openai_refuses_is_taken_elsewhere(name):
    style, _ = find(name, "openai-responses")
    tried = 0
    for case in BROKEN:
        also = ELSEWHERE.get(name, set())
        if case.style is OPENAI and isinstance(case.body, dict) and case.rule not in also:
            verdict = Host(style).verdict(case.body)
            assert verdict.refusal is None or verdict.refusal.rule in also, case.rule
            assert case.rule not in verdict.tried
            tried += 1

    assert tried > 25


def test_every_check_is_broken_and_kept_by_some_case():
    ids = {id for id in rules() if id.startswith("OAR-")}

    assert set(CHECKS) == {case.rule for case in BROKEN} == {case.rule for case in KEPT}
    assert set(CHECKS) | set(UNCHECKED) == ids
    assert {id for id in ids if rule(id).tier in ("core", "next")} <= set(CHECKS)


@pytest.mark.parametrize(("model", "noted"), [("gpt-5.6", set()), ("gpt-5", {"OAR-REAS-11"}), ("", set())])
def test_what_comes_back_as_it_was_is_not_noted(model, noted):
    for given in (go_on(user()), said(*SPOKEN, more=[user()])):
        found = Case("", given, model=model).judged()
        assert {broken.rule for broken in found.noted} <= noted


def test_the_missing_reasoning_item_is_named():
    host = Host()
    items = host.output({"input": [user()], "store": False}, *THINK)
    broken = host.verdict({"input": [user(), items[1], output(items[1]["call_id"])]}).refusal

    assert broken is not None
    assert broken.message == (
        f"Item '{items[1]['id']}' of type 'function_call' was provided without its required 'reasoning' item: "
        f"'{items[0]['id']}'."
    )


@pytest.mark.parametrize("run", range(1, 5))
def test_each_of_several_thoughts_in_a_row_is_named_when_it_is_missing(run):
    host = Host()
    items = host.output({"input": [user()], "store": False}, *[Think(f"{n}") for n in range(run)], Say("x"))
    for gone in range(run):
        rest = [item for at, item in enumerate(items) if at != gone]
        broken = host.verdict({"input": [user(), *rest[gone:], user()]}).refusal
        assert broken is not None
        assert items[gone]["id"] in broken.message


def test_a_thought_that_was_cut_off_cannot_be_sent_back():
    host = Host()
    items = host.output({"input": [user()], "store": False}, Think("Hm"), Stop())
    broken = host.verdict({"input": [user(), *items, user()], "store": False}).refusal

    assert [item["type"] for item in items] == ["reasoning"]
    assert broken is not None
    assert broken.rule == "OAR-REAS-03"


@pytest.mark.parametrize("style", [OPENAI, XAI], ids=lambda style: style.name)
def test_a_blob_must_come_back_to_the_letter(style):
    """The last letter of base64 may have bits to spare: even those count."""
    host = Host(style)
    tried = 0
    for n in range(12):
        items = host.output({"input": f"{n}", "store": False}, *SPOKEN)
        blob = items[0]["encrypted_content"].rstrip("=")
        if len(blob) % 4 == 0:
            continue
        tried += 1
        letter = chr(ord(blob[-1]) + 1)  # the spare bits of the letter before are zero
        bad = blob[:-1] + letter + "=" * (len(items[0]["encrypted_content"]) - len(blob))
        broken = host.verdict({"input": [user(), items[0] | {"encrypted_content": bad}, items[1]]}).refusal
        assert broken is not None
        assert broken.rule in ("OAR-REAS-05", "OAR-XAI-01")

    assert tried


def test_a_blob_belongs_to_its_item():
    host = Host()
    items = host.output({"input": "x", "store": False}, Think("a"), Say("b"), Think("c"), Say("d"))
    one, two = items[0]["encrypted_content"], items[2]["encrypted_content"]
    mixed = [items[0] | {"encrypted_content": two}, items[1], items[2] | {"encrypted_content": one}, items[3]]
    broken = host.verdict({"input": [user(), *mixed, user()]}).refusal

    assert broken is not None
    assert broken.rule == "OAR-REAS-05"


def test_a_thought_is_followed_by_the_very_item_that_followed_it():
    host = Host()
    own = host.output({"input": "x", "store": False}, Think("a"), Say("b"), Say("c"))
    strange = host.output({"input": "y", "store": False}, Say("b"), Say("c"))
    for after in ([own[2], own[1]], [strange[1]], [assistant(id="msg_1")]):
        broken = host.verdict({"input": [user(), own[0], *after, user()]}).refusal
        assert broken is not None
        assert broken.rule == "OAR-REAS-03"


TOLERATED = {
    "items without ids": (OPENAI, said(*THINK, change=lambda items: [without(item, "id") for item in items])),
    "no reasoning, no ids": (OPENAI, said(*THINK, change=lambda items: [without(items[1], "id")])),
    "ids of nobody on messages": (AZURE, {"input": [user(), assistant(id="msg_made_up"), user()]}),
    "a thought with neither id nor blob": (OPENAI, {"input": [user(), {"type": "reasoning", "summary": []}, assistant()]}),
    "an empty blob": (DEEPSEEK, {"input": [user(), {"type": "reasoning", "id": "x", "summary": [], "encrypted_content": None}]}),
    "thoughts in a row": (DEEPSEEK, {"input": [{"type": "reasoning", "id": "a", "summary": []}] * 2}),
    "the same id twice": (XAI, {"input": [user(), assistant(id="msg_1"), user(), assistant(id="msg_1")]}),
    "long ids": (XAI, {"input": [user(), call("x" * 83), output("x" * 83)]}),
    "a status on a thought": (XAI, said(*SPOKEN, change=lambda items: [items[0] | {"status": "completed"}, items[1]])),
    "an orphan": (DEEPSEEK, {"input": [user(), output()]}),
    "any key": (XAI, {"input": [user()], "messages": []}),
    "results of a conversation": (OPENAI, {"input": [output()], "conversation": "conv_1"}),
    "easy messages": (OPENAI, {"input": [user(), {"role": "assistant", "content": ""}, {"role": "system", "content": "x"}]}),
    "parallel calls one by one": (OPENAI, {"input": [user(), call("a"), output("a"), call("b"), output("b")]}),
    "another model of the same kind": (OPENAI, said(*SPOKEN)),
}  # fmt: skip


@pytest.mark.parametrize("name", TOLERATED)
def test_what_the_provider_takes_is_taken(name):
    style, given = TOLERATED[name]
    host = Host(style)
    body = given(host) if callable(given) else given

    assert host.verdict(body).refusal is None


MALFORMED = {
    "Invalid type for 'input': expected one of a string or array of objects, but got an integer instead.": {"input": 3},
    "Invalid type for 'input[0]': expected an object, but got a string instead.": {"input": ["x"]},
    "Invalid type for 'input[0].id': expected a string, but got an array instead.": {"input": [assistant(id=[])]},
    "Missing required parameter: 'input[0].role'.": {"input": [{"content": "x"}]},
    "Missing required parameter: 'input[0].content'.": {"input": [{"role": "user"}]},
    "Missing required parameter: 'input[0].call_id'.": {"input": [{"type": "function_call_output", "output": "x"}]},
    "Invalid type for 'input[0].call_id': expected a string, but got null instead.": {"input": [call(None)]},
    "Invalid type for 'input[0].content[0]': expected an object, but got a string instead.": {
        "input": [{"role": "user", "content": ["x"]}]
    },
    "Missing required parameter: 'tools[0].name'.": {"input": "x", "tools": [{"type": "function", "function": {}}]},
    "Invalid type for 'tools[0]': expected an object, but got a string instead.": {"input": "x", "tools": ["f"]},
    "Missing required parameter: 'tools[0].type'.": {"input": "x", "tools": [{}]},
    "Invalid type for 'reasoning': expected an object, but got a string instead.": {"input": "x", "reasoning": "high"},
    "Invalid type for 'input[0].type': expected a string, but got an integer instead.": {"input": [{"type": 1}]},
    "Invalid type for 'tools[0].tools': expected an array of objects, but got an integer instead.": {
        "input": "x",
        "tools": [{"type": "namespace", "name": "ns", "tools": 5}],
    },
    "Missing required parameter: 'tools[0].tools[0].name'.": {
        "input": "x",
        "tools": [{"type": "namespace", "name": "ns", "tools": [{"type": "function"}]}],
    },
    "Invalid type for 'input[0].tools': expected an array of objects, but got an object instead.": {
        "input": [{"type": "additional_tools", "role": "developer", "tools": {}}]
    },
    "Missing required parameter: 'input[0].tools[0].type'.": {
        "input": [{"type": "additional_tools", "role": "developer", "tools": [{"type": []}]}]
    },
    "Invalid type for 'temperature': expected a decimal, but got a string instead.": {"input": "x", "temperature": "1"},
    "Invalid type for 'top_p': expected a decimal, but got a boolean instead.": {"input": "x", "top_p": True},
    "Invalid type for 'max_output_tokens': expected an integer, but got a boolean instead.": {
        "input": "x",
        "max_output_tokens": True,
    },
    "Invalid type for 'previous_response_id': expected a string, but got an array instead.": {
        "input": "x",
        "previous_response_id": ["resp_1"],
    },
    "Invalid type for 'input[0].content': expected one of an array of objects or string, but got null instead.": {
        "input": [{"role": "user", "content": None}]
    },
}


@pytest.mark.parametrize("message", MALFORMED)
def test_what_has_the_wrong_shape_is_refused_before_it_is_judged(message):
    with pytest.raises(Malformed) as caught:
        Host().verdict(MALFORMED[message])

    assert str(caught.value) == message
    assert caught.value.place in message
    assert caught.value.status == 400
    assert caught.value.code in ("invalid_type", "missing_required_parameter")


@pytest.mark.parametrize("item", [{"type": "nonsense"}, {"role": "tool", "content": "x"}], ids=str)
def test_words_that_do_not_exist_are_refused(item):
    with pytest.raises(Malformed, match="Invalid value") as caught:
        Host().verdict({"input": [item]})

    assert (caught.value.place, caught.value.code) == ("input[0]", "invalid_value")


def test_turns_are_counted_by_answers():
    host = Host()
    first = {"input": [user()]}
    one = host.output(first, Think("a"), Call("f"), Call("g"))
    mixed = [user(), one[0], one[1], output(one[1]["call_id"]), one[2], output(one[2]["call_id"])]

    assert host.asked(first).turn == 0
    assert host.asked({"input": mixed}).turn == 1
    assert host.asked({"input": [user(), assistant(), user(), assistant(), call(), output()]}).turn == 2
    assert host.asked({"input": [user(), *one, *host.output({"input": "x"}, "b")]}).turn == 2
    refer = [{"type": "item_reference", "id": item["id"]} for item in one[:1]]
    assert host.asked({"input": [user(), *refer, user()]}).turn == 1
    assert host.asked({"input": [output("a")], "previous_response_id": host.made[0].reply["id"]}).turn == 1


def test_a_request_is_read_for_what_it_asks():
    tools = [
        {"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}},
        {"type": "custom", "name": "sh"},
        {"type": "namespace", "name": "ns", "tools": [{"type": "function", "name": "g"}]},
        {"type": "web_search"},
        {"type": "code_interpreter"},
        {"type": "image_generation"},
    ]
    format = {"type": "json_schema", "name": "x", "schema": {"type": "object"}}
    asked = Host(model="gpt-5").asked(
        {
            "instructions": "Be kind.",
            "input": [{"role": "developer", "content": "And brief."}, user("Hi"), call(), output()],
            "tools": tools,
            "tool_choice": {"type": "function", "name": "f"},
            "parallel_tool_calls": False,
            "max_output_tokens": 50,
            "text": {"format": format},
            "reasoning": {"summary": "auto"},
        }
    )

    assert asked.system == "Be kind.\nAnd brief."
    assert [one.text for one in asked.said if one.text] == ["Hi"]
    assert asked.said[1].calls == (("weather", "{}"),)
    assert asked.said[2].results == (("weather", "12"),)
    assert [tool.kind for tool in asked.tools] == ["function", "custom", "function", "search", "code", "other"]
    assert (asked.choice, asked.parallel, asked.max_tokens, asked.schema) == ("f", False, 50, {"type": "object"})
    assert (asked.think, asked.show) == (True, True)
    assert asked.prompt_tokens > 50


@pytest.mark.parametrize(
    ("given", "choice"),
    [
        (None, "auto"),
        ("required", "required"),
        ({"type": "allowed_tools", "mode": "required", "tools": []}, "required"),
        ({"type": "web_search"}, "required"),
    ],
)
def test_choices_are_read(given, choice):
    assert Host().asked({"input": "x", "tool_choice": given}).choice == choice


@pytest.mark.parametrize(
    ("style", "model", "reasoning", "thinks", "shows"),
    [
        (OPENAI, "", None, True, False),
        (OPENAI, "", {"effort": "none"}, False, False),
        (OPENAI, "gpt-5.4", None, False, False),
        (OPENAI, "gpt-5.4", {"effort": "low", "summary": "auto"}, True, True),
        (OPENAI, "gpt-4o", None, False, False),
        (XAI, "grok-4.3", None, True, True),
        (XAI, "grok-4-1-fast-non-reasoning", None, False, True),
        (DEEPSEEK, "deepseek-v4-pro", None, True, True),
    ],
)
def test_a_model_thinks_as_it_is_made_and_told(style, model, reasoning, thinks, shows):
    asked = Host(style, model).asked({"input": "x", "reasoning": reasoning})

    assert (asked.think, asked.show) == (thinks, shows)


def test_a_search_of_the_provider_needs_its_thought_too():
    host = Host()
    items = host.output({"input": [user()], "store": False}, Think("a"), Search("q"), Say("x"))
    broken = host.verdict({"input": [user(), *items[1:], user()]}).refusal

    assert broken is not None
    assert "of type 'web_search_call' was provided without" in broken.message


def test_half_a_character_is_no_id_of_anything_stored():
    """It cannot be looked up, for nothing that was written holds it."""
    looked: list[str] = []
    host = Host()
    host.stored = looked.append
    broken = host.verdict({"input": "x", "previous_response_id": "resp_\ud800"}).refusal

    assert broken is not None
    assert broken.rule == "OAR-PARAM-06"
    assert looked == []


def test_what_a_model_does_not_have_is_told_with_the_providers_code():
    broken = Host(model="gpt-4o").verdict({"input": "x", "reasoning": {"effort": "low"}}).refusal

    assert broken is not None
    assert (refusal(broken).param, refusal(broken).code) == ("reasoning.effort", "unsupported_parameter")


@pytest.mark.skipif(not CORPUS.is_dir(), reason=f"no recorded traffic in {CORPUS}; set TENUTO_CORPUS to run it")
@pytest.mark.parametrize(("name", "least"), [("openai", 350), ("azure", 10), ("xai", 35), ("deepseek", 8)])
def test_what_the_provider_took_is_taken(name, least):
    """Every recorded request that was answered is accepted, but for what was given or stored by somebody else."""
    style, _ = find(name, "openai-responses")
    order = [id for id in CHECKS if id not in ("OAR-REAS-04", "OAR-REAS-05", "OAR-XAI-01", "OAR-PARAM-06")]
    taken, refused = 0, []
    for path in sorted((CORPUS / "openai-responses" / name).glob("*/request.json")):
        body = json.loads(path.read_bytes())
        known = order
        if body.get("previous_response_id"):
            known = [id for id in order if id != "OAR-TOOL-02"]
        if json.loads((path.parent / "exchange.json").read_bytes())["status"] == 200:
            for model in {"", body.get("model") or ""}:
                found = judge(VOICE.open(Host(style, model).request(body)), CHECKS, known)
                taken += found.refusal is None
                refused += [(path.parent.name, model, found.refusal)] if found.refusal else []

    assert refused == []
    assert taken > least
