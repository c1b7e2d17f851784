"""Replies of the chat dialect for clients whose transport follows a script."""

from __future__ import annotations

import json

from tenuto import Provider

ROW = Provider("mine", "openai-chat", "https://mine.test/v1")


def chat(text="hello", **message):
    return {
        "id": "c1",
        "model": "m-1",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": text, **message}, "finish_reason": "stop"}
        ],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
    }


def frames(*words, done=True):
    """Return a stream of the chat dialect with one text per frame."""
    chunk = {"id": "c1", "model": "m-1"}
    deltas = [{**chunk, "choices": [{"index": 0, "delta": {"content": text}}]} for text in words]
    if done:
        deltas.append({**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    pieces = [f"data: {json.dumps(delta)}\n\n".encode() for delta in deltas]
    return [*pieces, b"data: [DONE]\n\n"] if done else pieces
