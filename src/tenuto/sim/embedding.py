"""Embeddings: the same text always gives the same vector, of length 1, and texts that share words lie near each other.

A word's stem is a feature that turns the whole vector, and so is each group of three of its letters, so that a typo or a
compound is still near. Words that are everywhere count little. A shorter vector is the beginning of the model's own,
made 1 long again, as with the real models.
"""

from __future__ import annotations

import base64
import hashlib
import math
import re
import sys
from array import array
from collections import Counter
from functools import lru_cache
from operator import mul
from typing import Any

from tenuto.sim.asked import Malformed
from tenuto.sim.mint import tokens
from tenuto.sim.words import STOP, stem

__all__ = ["default_dimensions", "embed", "gemini_reply", "openai_reply"]

_LANE = 16
_WARM = 4  # the first lanes of a product hang on too few bits to be used
_FULL = 65_000  # so much weight fits into a lane before it has to be emptied
_WORD, _LETTERS = 3, 1  # how much a word counts, and a group of its letters
_TOKEN = re.compile(r"[぀-鿿가-힯]|[^\W_]+|[^\w\s]")
_WINDOW = 8192
_BATCH = 2048
_GEMINI_BATCH = 100
_API = "https://platform.openai.com/docs/api-reference"


def default_dimensions(model: str) -> int:
    """Return how long a model's own vectors are."""
    name = model.rpartition("/")[2]
    if name.startswith(("text-embedding-3-small", "text-embedding-ada")):
        return 1536
    return 3072 if name.startswith(("text-embedding-3-large", "gemini-embedding")) else 768


def embed(text: str, dimensions: int, model: str) -> list[float]:
    """Return the vector of a text. The numbers are such that a float of 32 bits holds them exactly."""
    whole = max(default_dimensions(model), dimensions)
    vector = [0.0] * whole
    sums: dict[int, int] = {}
    weight = 0
    for word, count in _counted(text).items():
        held, heavy, share = _turned(word, model, whole)
        size = max(1, round(share * math.sqrt(count)))
        if weight + size * heavy > _FULL:
            _empty(vector, sums, weight)
            weight = 0
        sums[size] = sums.get(size, 0) + held
        weight += size * heavy
    _empty(vector, sums, weight)
    return _unit(vector[:dimensions])


def _unit(vector: list[float]) -> list[float]:
    length = math.sqrt(sum(map(mul, vector, vector)))
    if not length:
        vector, length = [1.0, *vector[1:]], 1.0
    scale = 1 / length
    return array("f", [value * scale for value in vector]).tolist()


def _empty(vector: list[float], sums: dict[int, int], weight: int) -> None:
    """Add what the lanes hold, times how much it counts, to the vector, around zero."""
    packed = sum(held * size for size, held in sums.items())
    sums.clear()
    lanes = array("H")
    lanes.frombytes(packed.to_bytes((len(vector) + _WARM) * _LANE // 8, "little"))
    if sys.byteorder != "little":
        lanes.byteswap()
    middle = weight / 2
    vector[:] = [value + lane - middle for value, lane in zip(vector, lanes[_WARM:], strict=True)]


@lru_cache(maxsize=16)
def _projection(model: str, dimensions: int) -> tuple[int, int]:
    """Return a long factor, whose product with a feature's key holds a number for each dimension, and a mask for them."""
    size = (dimensions + _WARM) * _LANE // 8
    factors = hashlib.shake_256(f"tenuto.sim/{model}".encode("utf-8", "replace")).digest(size)
    mask = bytes(_WARM * _LANE // 8) + bytes((1, 0)) * dimensions
    return int.from_bytes(factors, "little"), int.from_bytes(mask, "little")


def _counted(text: str) -> Counter[str]:
    words = Counter(_TOKEN.findall(text.casefold()[: _WINDOW * 8]))
    return words or Counter([text or " "])


@lru_cache(maxsize=2048)
def _turned(word: str, model: str, dimensions: int) -> tuple[int, int, float]:
    """Return what a word puts into the lanes, the most that any lane gets of it, and how much the word counts."""
    factors, mask = _projection(model, dimensions)
    keys, share = _features(word)
    held = sum([key * factors & mask for key in keys[1:]]) * _LETTERS
    return held + (keys[0] * factors & mask) * _WORD, _WORD + _LETTERS * (len(keys) - 1), share


@lru_cache(maxsize=20_000)
def _features(word: str) -> tuple[tuple[int, ...], float]:
    """Return the keys of a word and of its groups of letters, and how much it counts."""
    root = stem(word)
    framed = f"<{root}>"
    if not word[0].isalnum() or word in STOP:
        return (_key(root),), 1.0
    groups = [framed[at : at + 3] for at in range(min(len(framed) - 2, 20))] if len(root) > 3 else []
    return (_key(root), *map(_key, groups)), 3.0 + min(len(root), 8)


def _key(feature: str) -> int:
    return int.from_bytes(hashlib.blake2b(feature.encode("utf-8", "replace"), digest_size=4).digest(), "big") >> 2 | 1


def openai_reply(body: dict[str, Any], named: str) -> dict[str, Any]:
    """Answer a request at `/v1/embeddings`. Raise `Malformed` for what the provider refuses."""
    texts, sizes = _inputs(body.get("input"))
    longest = max(sizes)
    if longest > _WINDOW:
        raise Malformed(
            f"This model's maximum context length is {_WINDOW} tokens, however you requested {longest} tokens "
            f"({longest} in your prompt; 0 for the completion). Please reduce your prompt; or completion length."
        )
    dimensions = _openai_dimensions(body, named)
    form = body.get("encoding_format")
    if form not in (None, "float", "base64"):
        raise Malformed(
            f"Invalid value: '{form}'. Supported values are: 'float' and 'base64'.",
            "encoding_format",
            code="invalid_value",
        )
    data = []
    for index, text in enumerate(texts):
        vector = embed(text, dimensions, named)
        data.append(
            {"object": "embedding", "index": index, "embedding": _packed(vector) if form == "base64" else vector}
        )
    usage = {"prompt_tokens": sum(sizes), "total_tokens": sum(sizes)}
    return {"object": "list", "data": data, "model": named, "usage": usage}


def _packed(vector: list[float]) -> str:
    floats = array("f", vector)
    if sys.byteorder != "little":
        floats.byteswap()
    return base64.b64encode(floats.tobytes()).decode("ascii")


def _inputs(given: object) -> tuple[list[str], list[int]]:
    """Return the texts, and how many tokens each has; tokens that come as numbers are words of their own."""
    rows: list[Any] = given if isinstance(given, list) and not _are_tokens(given) else [given]
    texts = [
        row if isinstance(row, str) else " ".join(f"token{token}" for token in row) for row in rows if _is_input(row)
    ]
    if not texts or len(texts) != len(rows) or len(rows) > _BATCH:
        raise Malformed(f"'$.input' is invalid. Please check the API reference: {_API}.")
    return texts, [tokens(row) if isinstance(row, str) else len(row) for row in rows]


def _is_input(row: object) -> bool:
    return isinstance(row, str | list) and bool(row) and (isinstance(row, str) or _are_tokens(row))


def _are_tokens(row: list[Any]) -> bool:
    return bool(row) and all(isinstance(token, int) and not isinstance(token, bool) and token >= 0 for token in row)


def _openai_dimensions(body: dict[str, Any], named: str) -> int:
    own, asked = default_dimensions(named), body.get("dimensions")
    if asked is None:
        return own
    if "ada-002" in named:
        raise Malformed("This model does not support specifying dimensions.")
    if not isinstance(asked, int) or isinstance(asked, bool):
        raise Malformed(f"'{asked}' is not of type 'integer' - 'dimensions'", "dimensions")
    if not 1 <= asked <= own:
        edge = f"Must be less than or equal to {own}." if asked > own else "Must be greater than or equal to 1."
        raise Malformed(f"Invalid value for 'dimensions' = {asked}. {edge}", "dimensions")
    return asked


def gemini_reply(body: dict[str, Any], verb: str, model: str) -> dict[str, Any]:
    """Answer `embedContent`, `batchEmbedContents`, or the cloud's `predict`. Raise `Malformed` for what is refused."""
    if verb == "embedContent":
        values, size = _gemini_one(body, model, "EmbedContentRequest")
        return {"embedding": {"values": values}, "usageMetadata": _gemini_usage(size)}
    return _predicted(body, model) if verb == "predict" else _gemini_batch(body, model)


def _gemini_batch(body: dict[str, Any], model: str) -> dict[str, Any]:
    requests = body.get("requests")
    if not isinstance(requests, list) or not requests:
        raise Malformed("* BatchEmbedContentsRequest.requests: requests is not specified\n", "requests")
    if len(requests) > _GEMINI_BATCH:
        raise Malformed(
            f"* BatchEmbedContentsRequest.requests: at most {_GEMINI_BATCH} requests can be in one batch\n", "requests"
        )
    found = []
    for index, one in enumerate(requests):
        where = f"BatchEmbedContentsRequest.requests[{index}]"
        if not isinstance(one, dict):
            raise Malformed(
                f"Invalid value at 'requests[{index}]' (type.googleapis.com), \"{one}\"", f"requests[{index}]"
            )
        if str(one.get("model", "")).rpartition("/")[2] != model.rpartition("/")[2]:
            raise Malformed(f"* {where}.model: unexpected model name format\n", f"requests[{index}].model")
        found.append(_gemini_one(one, model, where))
    total = sum(size for _, size in found)
    return {"embeddings": [{"values": values} for values, _ in found], "usageMetadata": _gemini_usage(total)}


def _predicted(body: dict[str, Any], model: str) -> dict[str, Any]:
    instances, given = body.get("instances"), body.get("parameters")
    if not isinstance(instances, list) or not instances:
        raise Malformed("Empty instances.", "instances")
    size = given.get("outputDimensionality") if isinstance(given, dict) else None
    found = []
    for one in instances:
        text = one.get("content") if isinstance(one, dict) else None
        asked = {"content": {"parts": [{"text": text}]}} | ({} if size is None else {"outputDimensionality": size})
        values, count = _gemini_one(asked, model, "PredictRequest")
        found.append({"embeddings": {"values": values, "statistics": {"token_count": count, "truncated": False}}})
    return {"predictions": found}


def _gemini_usage(size: int) -> dict[str, Any]:
    return {"promptTokenCount": size, "promptTokenDetails": [{"modality": "TEXT", "tokenCount": size}]}


def _gemini_one(body: dict[str, Any], model: str, where: str) -> tuple[list[float], int]:
    content = body.get("content")
    parts = content.get("parts") if isinstance(content, dict) else None
    if not isinstance(parts, list) or not parts:
        raise Malformed(f"* {where}.content: contents is not specified\n", "content")
    texts = [_part(part) for part in parts]
    if not all(texts):
        raise Malformed("EmbedContentRequest.content contains an empty Part.", "content.parts")
    own = default_dimensions(model)
    asked = body.get("outputDimensionality", body.get("output_dimensionality", own))
    if not isinstance(asked, int) or isinstance(asked, bool) or not 1 <= asked <= own:
        raise Malformed(f"* {where}.output_dimensionality: must be between 1 and {own}\n", "outputDimensionality")
    text = "\n".join(texts)
    return embed(text, asked, model.removeprefix("models/")), tokens(text)


def _part(part: object) -> str:
    """Return a part's text; what is no text counts by its bytes."""
    if not isinstance(part, dict):
        return ""
    text = part.get("text")
    if isinstance(text, str):
        return text
    blob = part.get("inlineData") or part.get("inline_data") or part.get("fileData") or part.get("file_data")
    return hashlib.blake2b(repr(blob).encode("utf-8", "replace"), digest_size=16).hexdigest() if blob else ""
