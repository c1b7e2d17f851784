"""The checks of `make interop`, with exchanges that lose content."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clients.checks import ScenarioError, check_compaction, check_issued, check_refusals, check_replay
from clients.run import CLIENTS
from clients.servers import SERVERS
from clients.simulation import Exchange

THINKING = {"type": "thinking", "thinking": "Hm.", "signature": "abc"}
CALLS = [{"type": "tool_use", "id": f"toolu_{n}", "name": "Bash", "input": {}} for n in (1, 2)]
RESULTS = [{"type": "tool_result", "tool_use_id": call["id"], "content": "ok"} for call in CALLS]
USER = {"role": "user", "content": "Hi"}
SUMMARY = "SUMMARY"


def exchange(*messages, reply=None, status=200, rule="") -> Exchange:
    refused = {"rule": rule, "message": "no"} if rule else None
    return Exchange("POST", "/v1/messages", status, refused, {"messages": list(messages)}, json.dumps(reply or {}))


def turns(*assistant, results=RESULTS) -> list[Exchange]:
    """Return a request with a reply, and a request that contains `assistant` and tool results."""
    first = exchange(USER, reply={"content": [THINKING, *CALLS]})
    reply = {"role": "assistant", "content": list(assistant)}
    return [first, exchange(USER, reply, {"role": "user", "content": results})]


def test_complete_replay_passes():
    exchanges = turns(THINKING, *CALLS)

    check_replay(exchanges)
    check_issued(exchanges, 2)


@pytest.mark.parametrize(
    ("exchanges", "reason"),
    [
        (turns(*CALLS), "1 of 1 tokens"),
        (turns({**THINKING, "signature": "abd"}, *CALLS), "1 of 1 tokens"),
        (turns(THINKING, *reversed(CALLS)), "sent back as"),
        (turns(THINKING, CALLS[0]), "sent back as"),
        (turns(THINKING, *CALLS, results=RESULTS[:1]), "have the results"),
    ],
)
def test_incomplete_replay_fails(exchanges, reason):
    with pytest.raises(ScenarioError, match=reason):
        check_replay(exchanges)


def test_reasoning_content_is_compared():
    first = exchange(USER, reply={"choices": [{"message": {"reasoning_content": "Hm."}}]})

    check_replay([first, exchange(USER, {"role": "assistant", "reasoning_content": "Hm."})])
    with pytest.raises(ScenarioError, match="reasoning_content"):
        check_replay([first, exchange(USER)])


def test_gemini_calls_without_id_are_counted():
    call, result = {"functionCall": {"name": "sh"}}, {"functionResponse": {"name": "sh"}}
    first = exchange(USER, reply={"parts": [call, call]})

    check_replay([first, exchange(call, call, result, result)])
    with pytest.raises(ScenarioError, match="have the results"):
        check_replay([first, exchange(call, call, result)])


def test_replies_without_tokens_or_calls_fail():
    with pytest.raises(ScenarioError, match="no tokens"):
        check_issued([exchange(USER, reply={"content": []})], 0)
    with pytest.raises(ScenarioError, match="0 tool calls"):
        check_issued([exchange(USER, reply={"content": [THINKING]})], 1)


def test_refusals_fail_unless_expected():
    refused = [exchange(USER, status=400, rule="ANT-THINK-08")]

    check_refusals(refused, frozenset({"ANT-THINK-08"}))
    for exchanges in (refused, [exchange(USER, status=500)]):
        with pytest.raises(ScenarioError, match="POST /v1/messages: "):
            check_refusals(exchanges, frozenset({"426"}))


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([{"role": "user", "content": SUMMARY}], ""),
        ([{"type": "compaction", "encrypted_content": "abc"}], ""),
        ([USER], "does not contain the summary"),
        ([{"type": "compaction", "encrypted_content": "abd"}], "encrypted summary was changed"),
        ([USER, {"role": "assistant", "content": CALLS}, {"role": "user", "content": SUMMARY}], "still contains"),
    ],
)
def test_compaction_is_checked(messages, reason):
    exchanges = [exchange(USER, reply={"content": CALLS}), exchange(USER, reply={"encrypted_content": "abc"})]
    if not reason:
        check_compaction(exchanges, exchange(*messages), SUMMARY)
    else:
        with pytest.raises(ScenarioError, match=reason):
            check_compaction(exchanges, exchange(*messages), SUMMARY)


def test_page_names_pinned_versions():
    page = (Path(__file__).parents[2] / "docs/simulator_server.md").read_text("utf-8")
    rows = {f"| `{client.package}` | {client.pinned} |" for client in CLIENTS}

    assert [text for text in (*rows, *(server.pinned for server in SERVERS)) if text not in page] == []
