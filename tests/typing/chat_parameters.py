"""A request with its parameters, and all parts of a reply."""

from __future__ import annotations

from decimal import Decimal
from typing import assert_type

from tenuto import ChatRequest, ChatResponse, Client, Image, Loss, Reply, Timeouts, Transcript, Usage, UserMessage
from tenuto.blocks import Block, Citation

with Client(keys={"openai": "k"}, default_provider="anthropic", timeout=Timeouts(total=60)) as ai:
    assert_type(ai, Client)
    reply = ai.chat(
        "openai/gpt-5.2",
        "What is 27 * 453?",
        system="Be brief.",
        effort="high",
        max_tokens=100,
        temperature=0.5,
        stop=["\n"],
        cache="auto",
        timeout=30,
        extra_body={"seed": 7},
        extra_headers={"x-team": "blue"},
    )
    assert_type(reply, Reply)
    assert_type(reply.text, str)
    assert_type(reply.thinking, str)
    assert_type(reply.content, tuple[Block, ...])
    assert_type(reply.images, list[Image])
    assert_type(reply.citations, list[Citation])
    assert_type(reply.usage, Usage | None)
    assert_type(reply.cost, Decimal | None)
    assert_type(reply.losses, tuple[Loss, ...])
    assert_type(reply.transcript, Transcript)
    assert_type(reply.response, ChatResponse)
    assert_type(reply.request_id, str | None)

    whole = ai.chat(ChatRequest(model="openai/gpt-5.2", messages=(UserMessage("Hi"),)), timeout=5)
    plain = ai.chat({"model": "openai/gpt-5.2", "messages": [{"role": "user", "content": "Hi"}]})
    several = ai.chat("openai/gpt-5.2", [{"role": "user", "content": "Hi"}, whole.message, "And you?"])
    print(plain.text + several.text)
