"""Embeddings, lists of models, counts and costs."""

from __future__ import annotations

from decimal import Decimal
from typing import assert_type

from tenuto import Client, EmbedRequest, EmbedResponse, Usage, user


def spent(ai: Client, model: str, questions: list[str]) -> tuple[Usage, Decimal]:
    usage, cost = Usage(), Decimal(0)
    for question in questions:
        reply = ai.chat(model, question)
        usage += reply.usage or Usage()
        cost += reply.cost or 0
    return usage, cost


with Client() as ai:
    vectors = ai.embed("openai/text-embedding-3-small", ["hello", "world"], dimensions=256)
    assert_type(vectors, EmbedResponse)
    assert_type(vectors.embeddings, tuple[tuple[float, ...], ...])
    assert_type(vectors.usage.total_tokens, int | None)
    one = ai.embed("openai/text-embedding-3-small", "hello").embeddings[0]
    assert_type(one, tuple[float, ...])
    ai.embed(EmbedRequest(model="google/gemini-embedding-001", input=("a", "b"), task="RETRIEVAL_QUERY"), timeout=10)
    ai.embed("openai/text-embedding-3-small", (line.strip() for line in ("a\n", "b\n")))

    count = ai.count_tokens("anthropic/claude-sonnet-4-6", user("Hello"), system="Be brief.")
    assert_type(count, int)
    for model in ai.models("anthropic"):
        assert_type(model.id, str)
        assert_type(model.context_window, int | None)
    usage, cost = spent(ai, "anthropic/claude-sonnet-4-6", ["Hello", "Goodbye"])
    print(usage.total_tokens, cost)
