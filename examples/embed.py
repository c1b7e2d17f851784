"""Embed texts and compare their vectors."""

from math import sqrt

from tenuto import Client


def dot_product(left: tuple[float, ...], right: tuple[float, ...]) -> float:
    """Return the dot product of two vectors."""
    return sum(x * y for x, y in zip(left, right, strict=True))


with Client() as ai:
    response = ai.embed("openai/text-embedding-3-small", ["hello world", "goodbye world"])

hello, goodbye = response.embeddings  # in the order of the texts
similarity = dot_product(hello, goodbye) / sqrt(dot_product(hello, hello) * dot_product(goodbye, goodbye))
print(f"{len(hello)} dimensions, similarity {similarity:.2f}, {response.usage.total_tokens} tokens")
