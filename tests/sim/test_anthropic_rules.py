"""Every rule of the Messages dialect is broken once, in the provider's own words and at the right place, and kept once."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from sim.anthropic_cases import BUDGET, CALL, CASES, COMPACT, NOTHING, RESULT, SEARCHED, SYSTEM, TEXT, USE, picture
from sim.anthropic_talk import BOUND, OPEN, ask, blocks, go_on, reply, request, tell, user, verdict
from tenuto.core.rules import rule
from tenuto.sim.anthropic.pictures import look
from tenuto.sim.anthropic.rules import CHECKS, UNCHECKED
from tenuto.sim.anthropic.voice import VOICE
from tenuto.sim.asked import Malformed
from tenuto.sim.judging import judge
from tenuto.sim.script import Call, Pause, Say, Search, Think

CORPUS = Path(os.environ.get("TENUTO_CORPUS") or Path(__file__).parents[3] / "shared" / "corpus")
IDS = [f"{case.rule}-{at}" for at, case in enumerate(CASES)]


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_a_broken_rule_is_told_in_the_providers_words(case):
    found = verdict(case.breaks(), case.model, **case.more)
    row = rule(case.rule)

    if row.severity == "refused":
        assert found.refusal is not None, found
        broken = found.refusal
    else:
        assert found.refusal is None, found.refusal
        (broken,) = [noted for noted in found.noted if noted.rule == case.rule]
    assert (broken.rule, broken.place) == (case.rule, case.at)
    assert case.rule in found.tried
    assert bool(case.says) == (row.trust == "verbatim")
    assert not case.says or broken.message == case.says
    assert "{" not in broken.place
    assert broken.message.count("{") == broken.message.count("{1,128}")
    assert broken.message or row.severity != "refused"


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_a_kept_rule_refuses_nothing(case):
    model = case.model if case.keeps_model is None else case.keeps_model
    found = verdict(case.keeps(), model, **(case.more if case.keeps_more is None else case.keeps_more))

    assert found.refusal is None, (found.refusal, found.refusal and found.refusal.message)
    assert case.rule in found.tried
    assert case.rule not in {noted.rule for noted in found.noted}


def test_every_check_has_its_cases():
    assert {case.rule for case in CASES} == set(CHECKS)
    assert not CHECKS.keys() & UNCHECKED


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({"messages": [user("x")]}, "/model"),
        ({"model": "m"}, "/messages"),
        (ask(messages=[]), "/messages"),
        (ask(messages=["x"]), "/messages/0"),
        (ask({"role": "tool", "content": "x"}), "/messages/0/role"),
        (ask({"role": "user"}), "/messages/0/content"),
        (ask({"role": "user", "content": 1}), "/messages/0/content"),
        (ask(user(1)), "/messages/0/content/0"),
        (ask(user({"text": "x"})), "/messages/0/content/0/type"),
        (ask(user({"type": "text"})), "/messages/0/content/0/text/text"),
        (ask(user({"type": "tool_use", "id": "a", "name": "b", "input": {}})), "/messages/0"),
        (ask(user({"type": "tool_result", "tool_use_id": "a", "content": [1]})), "/messages/0/content/0/tool_result/content/0"),
        (ask(system=1), "/system"),
        (ask(system=[{"type": "text"}]), "/system/0/text"),
        (ask(system=[{"text": "x"}]), "/system/0/type"),
        (ask(system=[{"type": "input_text", "text": "x"}]), "/system/0/type"),
        (ask(user({"type": "web_search_tool_result", "tool_use_id": "a", "content": []})), "/messages/0"),
        (ask(user({"type": "server_tool_use", "id": "a", "name": "web_search", "input": {}})), "/messages/0"),
        (ask(thread={"type": "continue"}), "/thread/continue/previous_message_id"),
        (ask(tools=[1]), "/tools/0"),
        (ask(tools=[{"input_schema": {}}]), "/tools/0/custom/name"),
        (ask(tools=[{"name": "x"}]), "/tools/0/custom/input_schema"),
        (ask(thinking={"type": "on"}), "/thinking"),
        (ask(thinking={"type": "enabled"}), "/thinking/enabled/budget_tokens"),
        (ask(tool_choice={"type": "tool"}), "/tool_choice/tool/name"),
        (ask(max_tokens=True), "/max_tokens"),
    ],
)  # fmt: skip
def test_what_has_the_wrong_shape_is_malformed(body, place):
    with pytest.raises(Malformed) as caught:
        VOICE.open(request(body))

    assert (caught.value.place, caught.value.status) == (place, 400)


ODD = (None, True, 7, 1.5, "x", "", [], [1], {}, {"type": 1}, {"type": "text"}, [{}], [{"type": "text"}])


@pytest.mark.parametrize("at", range(len(CASES)))
def test_odd_values_are_refused_or_taken_and_never_a_fault(at):
    """Any value of a request may be any JSON."""

    def places(value, path=()):
        if isinstance(value, dict | list):
            for key in list(value) if isinstance(value, dict) else range(len(value)):
                yield (*path, key)
                yield from places(value[key], (*path, key))

    case = CASES[at]
    body = case.keeps() if len(repr(case.keeps())) < 5000 else {}
    for number, (*above, last) in enumerate(list(places(body))):
        holder = body
        for key in above:
            holder = holder[key]
        kept, holder[last] = holder[last], ODD[(number + at) % len(ODD)]
        try:
            found = verdict(body, case.model, **case.more)
            assert found.refusal is None or found.refusal.message
            VOICE.read(VOICE.open(request(body, case.model)))
        except Malformed:
            pass
        holder[last] = kept


def test_a_count_needs_no_length_and_takes_no_server_tools():
    opened = VOICE.open(request(ask(max_tokens=None), verb="count_tokens"))

    assert VOICE.count(VOICE.read(opened)) == {"input_tokens": VOICE.read(opened).prompt_tokens}
    assert VOICE.read(opened).prompt_tokens > 5
    assert verdict(ask(max_tokens=None), verb="count_tokens").refusal is None
    with pytest.raises(Malformed):
        VOICE.open(request(ask(tools=[{"type": "web_search_20250305", "name": "web_search"}]), verb="count_tokens"))


@pytest.mark.parametrize("model", [OPEN, BOUND])
def test_all_reasoning_may_be_left_out(model):
    body = go_on(
        ask(thinking={"type": "adaptive"}), (Think("Hm."), Call("weather")), (Think("Ah."), Say("Rain.")), model=model
    )
    for message in body["messages"]:
        if message["role"] == "assistant":
            message["content"] = [block for block in message["content"] if block["type"] != "thinking"]

    found = verdict(body, model)

    assert found.refusal is None
    assert [(noted.rule, noted.place) for noted in found.noted] == [("ANT-THINK-15", "/messages/1")]


def test_a_model_that_thinks_and_was_not_heard_to_is_not_asked_for_it():
    """With a budget, a turn that began without a thought, because the script has none, goes back as it came."""
    body = go_on(
        ask(thinking={"type": "enabled", "budget_tokens": 2000}), (Say("Look:"), Think("Hm."), Call("weather"))
    )

    assert verdict(body, OPEN).refusal is None


def test_thinking_between_calls_has_a_budget_for_all_of_them():
    body = ask(thinking=BUDGET, max_tokens=1500)

    assert verdict(body, "claude-sonnet-4-5").refusal.rule == "ANT-PARAM-09"
    assert verdict(body, "claude-sonnet-4-5", betas="interleaved-thinking-2025-05-14").refusal is None


def test_turning_a_budget_on_between_call_and_result_is_refused():
    body = go_on(ask(), (Call("weather"),))
    body["thinking"] = {"type": "enabled", "budget_tokens": 2000}

    assert verdict(body, OPEN).refusal.rule == "ANT-THINK-05"


@pytest.mark.parametrize("spoken", [True, False])
def test_what_the_user_says_beside_results_begins_another_run_of_calls(spoken):
    """With a budget, the first turn of the run begins with a thought, and the later ones need none."""
    body = go_on(ask(thinking=BUDGET), CALL)
    blocks(body, 2).extend([TEXT] if spoken else [])
    body["messages"] += [tell(USE), user(RESULT)]
    refusal = verdict(body, OPEN).refusal

    assert (refusal and (refusal.rule, refusal.place)) == (
        ("ANT-THINK-05", "/messages/3/content/0") if spoken else None
    )


def test_a_system_message_ends_no_run_of_calls():
    body = ask(user("Hi"), tell(USE), user(RESULT), SYSTEM, thinking=BUDGET)

    assert verdict(body).refusal.rule == "ANT-THINK-05"


def test_a_paused_turn_keeps_its_thoughts_where_there_is_thinking_between_tools():
    model = "claude-sonnet-5-5"
    body = ask(thinking={"type": "between_tools"})
    body["messages"].append(tell(*reply(body, (Think("Hm."), Pause()), model)["content"]))

    assert verdict(body, model).refusal is None


def test_a_thought_behind_a_prefill_does_not_move_before_it():
    body = ask(user("Hi"), tell("Well,"))
    thought, text = reply(body, (Think("Hm."), Say("yes.")))["content"]
    prefill = {"type": "text", "text": "Well,"}

    assert verdict(ask(user("Hi"), tell(prefill, thought, text), user("x"))).refusal is None
    assert verdict(ask(user("Hi"), tell(thought, prefill, text), user("x"))).refusal.rule == "ANT-THINK-04"


def test_the_length_of_a_picture_in_letters_is_no_length_of_the_prompt():
    body = ask(user(picture(10, weight=900_000)))

    assert verdict(body, "claude-haiku-4-5").refusal is None
    assert 1500 < VOICE.read(VOICE.open(request(body))).prompt_tokens < 2000


@pytest.mark.parametrize("apart", [True, False], ids=["two messages", "one message"])
@pytest.mark.parametrize("model", [OPEN, BOUND])
def test_a_paused_turn_goes_on(model, apart):
    """It is no prefill; its missing result comes first in what follows, and all of it holds together afterwards."""
    body = ask(thinking={"type": "adaptive"})
    first = reply(body, (Think("Hm."), Search("rain"), Pause()), model)
    body["messages"].append(tell(*first["content"]))
    second = reply(body, (Think("Ah."), Call("weather")), model)
    content = second["content"]
    call = next(block for block in content if block["type"] == "tool_use")
    if apart:
        body["messages"].append(tell(*content))
    else:
        blocks(body).extend(content)
    body["messages"].append(user({"type": "tool_result", "tool_use_id": call["id"]}))

    found = verdict(body, model)

    assert first["stop_reason"] == "pause_turn"
    assert content[0]["tool_use_id"] == first["content"][-1]["id"]
    assert found.refusal is None, (found.refusal.message, found.refusal.place)
    assert {noted.rule for noted in found.noted} <= {"ANT-MSG-07"}

    blocks(body)[0]["thinking"] += "?"
    assert verdict(body, model).refusal.rule == "ANT-THINK-04"


@pytest.mark.parametrize("last", [SEARCHED, NOTHING, COMPACT], ids=lambda block: block["type"])
def test_a_turn_that_stopped_at_the_providers_side_is_no_prefill(last):
    before = [SEARCHED] if last is NOTHING else []

    assert verdict(ask(user("Hi"), tell(*before, last)), "claude-opus-4-8").refusal is None


def test_marks_of_the_cache_bind_nothing_wherever_they_stand():
    said = {"type": "text", "text": "Rain."}
    held = {"type": "document", "source": {"type": "content", "content": [said]}}
    body = go_on(ask(user(held)), CALL, model=BOUND)
    blocks(body, 0)[0]["source"]["content"][0]["cache_control"] = {"type": "ephemeral"}

    assert verdict(body, BOUND).refusal is None

    blocks(body, 0)[0]["source"]["content"][0]["text"] = "Sun."
    assert verdict(body, BOUND).refusal.rule == "ANT-THINK-08"


def test_a_conversation_that_the_provider_holds_is_not_found():
    """The official client then sends the whole of it."""
    with pytest.raises(Malformed) as caught:
        VOICE.open(request(ask(thread={"type": "continue", "previous_message_id": "msg_01"})))

    assert (caught.value.status, caught.value.code) == (404, "thread_not_found")


def test_what_goes_with_no_thread_is_named():
    """The official client reads it, and goes on without a thread."""
    refusal = verdict(
        ask(thread={"type": "create"}, cache_control={"type": "ephemeral"}), betas="message-threads-2026-08-12"
    ).refusal

    assert refusal.rule == "ANT-SRV-07"
    assert refusal.fields["extra"]["details"] == {
        "error_code": "thread_unsupported_request", "unsupported": ["cache_control"],
    }  # fmt: skip


def test_what_is_dropped_is_told_to_whoever_asks():
    body = go_on(ask(), (Think("Hm."), Call("weather")), model="claude-fable-5-1")

    told = reply(body, (Say("Rain."),), BOUND, betas="thinking-binding-controls-2026-08-01")
    untold = reply(body, (Say("Rain."),), BOUND)

    assert told["input_transformations"] == [
        {"type": "thinking_dropped", "path": "messages.1.content.0", "reason": "model_binding_mismatch"}
    ]
    assert "input_transformations" not in untold


@pytest.mark.parametrize(
    ("model", "sampling", "forced"),
    [
        ("claude-3-5-haiku-20241022", True, True), ("claude-sonnet-4-20250514", True, True), ("claude-sonnet-4-6", True, True),
        ("claude-opus-4-0", True, True), ("claude-opus-4-9", False, False), ("claude-sonnet-4-12", False, False),
        ("claude-opus-4-8", False, True), ("us.anthropic.claude-opus-4-8-v1:0", False, True), ("claude-fable-5-20260601", False, True),
        ("claude-fable-5-1", False, False), ("claude-opus-5-5-20260901", False, False), ("claude-haiku-5-5", False, True),
    ],
)  # fmt: skip
def test_models_are_known_by_their_names(model, sampling, forced):
    assert (verdict(ask(top_k=1), model, style="anthropic").refusal is None) == (
        sampling and model.startswith("claude")
    )
    if model.startswith("claude"):
        assert (verdict(ask(tool_choice={"type": "any"}), model).refusal is None) == forced


@pytest.mark.parametrize(
    ("data", "seen"),
    [
        (b"\xff\xd8\xff\xe0\0\x04ab\xff\xc4\0\x02\xff\xc2\0\x0b\x08\x03\x04\x05\x06\0", ("image/jpeg", 0x506, 0x304)),
        (b"\xff\xd8\xff\xe0\0\x04ab", ("image/jpeg", 0, 0)),
        (b"GIF89a\x05\x06\x07\x08", ("image/gif", 0x605, 0x807)),
        (b"RIFF....WEBPVP8X....\0\0\0\0\x01\x02\0\x03\x04\0", ("image/webp", 0x202, 0x404)),
        (b"RIFF....WEBPVP8L....\x2f\x01\x80\0\0", ("image/webp", 2, 3)),
        (b"RIFF....WEBPVP8 ....\0\0\0\x9d\x01\x2a\x05\x06\x07\x08", ("image/webp", 0x605, 0x807)),
        (b"RIFF....WEBP????", ("image/webp", 0, 0)),
        (b"%PDF", ("", 0, 0)),
    ],
)  # fmt: skip
def test_a_picture_is_known_by_its_first_bytes(data, seen):
    assert look(data) == seen


@pytest.mark.skipif(not CORPUS.is_dir(), reason=f"no recorded traffic in {CORPUS}; set TENUTO_CORPUS to run it")
def test_what_the_provider_took_is_taken():
    """Every recorded request that was answered is accepted, but for the tokens, which were given by somebody else."""
    betas = "compact-2026-01-12,context-management-2025-06-27,mcp-client-2025-11-20"  # the recordings have no headers
    order = [id for id in CHECKS if id not in ("ANT-THINK-02", "ANT-THINK-14", "ANT-SRV-04")]
    taken, refused = 0, []
    for path in sorted((CORPUS / "anthropic-messages" / "anthropic").glob("*/request.json")):
        body = json.loads(path.read_bytes())
        if json.loads((path.parent / "exchange.json").read_bytes())["status"] == 200:
            found = judge(VOICE.open(request(body, body["model"], betas=betas)), CHECKS, order)
            taken += found.refusal is None
            refused += [(path.parent.name, found.refusal)] if found.refusal else []

    assert refused == []
    assert taken > 100
