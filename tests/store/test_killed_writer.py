"""Signed reasoning survives a killed process: loaded from the store, the next request has the same bytes."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys

import pytest

import tenuto
from tenuto.core.blocks import AnthropicMeta, AnthropicRedactedMeta, Reasoning, ToolUse
from tenuto.core.journal import ReplyReceived, TranscriptFold, transcript_of
from tenuto.interop.tool_call_rows import from_data_json, to_data_json
from tenuto.store.open import open_store

BODY = json.dumps(
    {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-4-6",
        "content": [
            {"type": "thinking", "thinking": "Let me look.", "signature": "EqQBCkYIARgC+/=="},
            {"type": "redacted_thinking", "data": "EmwKAhgBEgy3va3pzix"},
            {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Oslo", "days": 1}},
            {"type": "tool_use", "id": "toolu_2", "name": "weather", "input": {}},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 5, "output_tokens": 7},
    }
)
WRITER = """
import asyncio, os, signal, sys
import tenuto
from tenuto.core.journal import CallFinished, MessageAdded, ReplyReceived
from tenuto.core.messages import UserMessage
from tenuto.core.stored import make_draft
from tenuto.store.open import open_store

async def main():
    message = tenuto.decode("anthropic-messages", sys.argv[2]).message
    calls = list(message.tool_calls())
    acts = [MessageAdded(UserMessage("Weather?")), ReplyReceived(message), CallFinished(calls[1].answer("snow"), 1)]
    acts.append(CallFinished(calls[0].answer("12 °C"), 0))
    store = open_store(sys.argv[1])
    lease = await store.lease("s")
    for seq, act in enumerate(acts):
        lease = await store.append(lease, [make_draft(act, id=f"e{seq}", time_ms=seq)])
    asked = tenuto.ChatRequest(model="anthropic/claude-opus-4-6", messages=tenuto.Transcript(
        (acts[0].message, message, tenuto.core.messages.ToolResults((acts[3].result, acts[2].result)))))
    sys.stdout.buffer.write(tenuto.encode("anthropic-messages", asked).body)
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


@pytest.fixture
def killed(tmp_path):
    """Return the file of a session whose writer was killed, and the request that it would have sent."""
    path = tmp_path / "sessions.db"
    done = subprocess.run([sys.executable, "-c", WRITER, str(path), BODY], capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    return path, done.stdout


def entries_at(path):
    async def read():
        async with open_store(path) as store:
            assert await store.verify() == []
            return await store.read("s")

    return asyncio.run(read())


def test_request_is_the_same_after_a_kill(killed):
    path, request = killed
    entries = entries_at(path)
    chat_request = tenuto.ChatRequest(model="anthropic/claude-opus-4-6", messages=transcript_of(entries))

    assert TranscriptFold(entries).open_calls() == ()
    assert tenuto.encode("anthropic-messages", chat_request).body == request
    content = json.loads(request)["messages"][1]["content"]
    assert content == json.loads(BODY)["content"]


def test_rows_of_a_stored_turn_rebuild_its_reasoning(killed):
    """One row per call; the first has `thinking` with text and signature, and `redacted_thinking` with its data."""
    path, _ = killed
    (message,) = [entry.payload.message for entry in entries_at(path) if isinstance(entry.payload, ReplyReceived)]
    rows = to_data_json(message)
    rebuilt = from_data_json(rows)

    assert [json.loads(row).get("thinking") for row in rows] == [
        {"text": "Let me look.", "signature": "EqQBCkYIARgC+/=="},
        None,
    ]
    assert json.loads(rows[0])["redacted_thinking"] == {"data": "EmwKAhgBEgy3va3pzix"}
    assert [json.loads(row)["tool_call_id"] for row in rows] == ["toolu_1", "toolu_2"]
    assert [type(block) for block in rebuilt.blocks] == [Reasoning, Reasoning, ToolUse, ToolUse]
    assert [type(block.meta) for block in rebuilt.blocks[:2]] == [AnthropicMeta, AnthropicRedactedMeta]
    assert rebuilt.blocks == message.blocks
    assert to_data_json(rebuilt) == rows


def test_rows_without_reasoning_are_plain_calls(killed):
    path, _ = killed
    (message,) = [entry.payload.message for entry in entries_at(path) if isinstance(entry.payload, ReplyReceived)]
    plain = [
        json.dumps({key: value for key, value in json.loads(row).items() if "thinking" not in key})
        for row in to_data_json(message)
    ]

    assert from_data_json(plain).blocks == message.blocks[2:]
