"""Turn texts into vectors, and compare them."""

from math import sqrt

from tenuto import Client


def product(left: tuple[float, ...], right: tuple[float, ...]) -> float:
    """Multiply two vectors."""
    return sum(x * y for x, y in zip(left, right, strict=True))


with Client() as ai:
    found = ai.embed("openai/text-embedding-3-small", ["hello world", "goodbye world"])

hello, goodbye = found.embeddings  # in the order of the texts
likeness = product(hello, goodbye) / sqrt(product(hello, hello) * product(goodbye, goodbye))
print(f"{len(hello)} dimensions, {likeness:.2f} alike, {found.usage.total_tokens} tokens")
