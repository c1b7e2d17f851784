"""Embeddings: the same text gives the same vector of length 1, and texts that share words are near each other.

A vector is a hashed bag of words: each word adds pseudo-random numbers that depend on the word and the model. A shorter
vector is the beginning of the longer one, normalized again, as with the real models.
"""

from __future__ import annotations

import base64
import hashlib
import math
import re
import struct
from array import array
from collections import Counter
from functools import lru_cache
from typing import Any

from tenuto.sim.dialects import InvalidRequest
from tenuto.sim.tokens import estimate_tokens

_WORD = re.compile(r"[぀-鿿가-힯]|[^\W_]+|[^\w\s]")
_GROUP = 3
"""Groups of characters count, too: inflected forms and misspellings of a word are near it."""
_COMMON = frozenset(
    {
        "a", "an", "and", "are", "as", "at", "be", "by", "for", "from", "in", "is", "it", "of", "on", "or", "that", "the",
        "this", "to", "was", "with",
    }
)  # fmt: skip
_COMMON_WEIGHT = 0.2
_MAX_TOKENS = 8192
_BATCH = 2048
_GEMINI_BATCH = 100
_API = "https://platform.openai.com/docs/api-reference"


def default_dimensions(model: str) -> int:
    name = model.rpartition("/")[2]
    if name.startswith(("text-embedding-3-small", "text-embedding-ada")):
        return 1536
    return 3072 if name.startswith(("text-embedding-3-large", "gemini-embedding")) else 768


def embed(text: str, dimensions: int, model: str) -> list[float]:
    """Return the vector of a text. A 32-bit float represents each number exactly."""
    words = Counter(_WORD.findall(text.casefold()[: _MAX_TOKENS * 8])) or Counter([text or " "])
    features: dict[str, float] = {}
    for word, count in words.items():
        weight = math.sqrt(count) * (_COMMON_WEIGHT if word in _COMMON or not word.isalnum() else 1)
        padded = f"<{word}>"
        for feature in (word, *(padded[start : start + _GROUP] for start in range(len(padded) - _GROUP + 1))):
            features[feature] = features.get(feature, 0) + weight
    vector = [0.0] * dimensions
    for feature, weight in features.items():
        numbers = _numbers(feature, model, dimensions)
        vector = [value + weight * number for value, number in zip(vector, numbers, strict=True)]
    scale = 1 / (math.sqrt(sum(value * value for value in vector)) or 1)
    return array("f", [value * scale for value in vector]).tolist()


@lru_cache(maxsize=2048)
def _numbers(feature: str, model: str, dimensions: int) -> list[int]:
    """Return the numbers of a feature, -128 to 127. Fewer dimensions give the first of them."""
    digest = hashlib.shake_128(f"{model}/{feature}".encode("utf-8", "replace")).digest(dimensions)
    return array("b", digest).tolist()


def embeddings_reply(body: dict[str, Any], verb: str, model: str) -> dict[str, Any]:
    """Answer `/v1/embeddings`, or a verb of Google. Raise `InvalidRequest` as the provider would refuse."""
    if not verb:
        return _openai_reply(body, model)
    if verb == "predict":
        results = [_embed_content(content, model, "PredictRequest") for content in _instances(body)]
        statistics = [{"token_count": size, "truncated": False} for _, size in results]
        values = [{"values": values, "statistics": one} for (values, _), one in zip(results, statistics, strict=True)]
        return {"predictions": [{"embeddings": one} for one in values]}
    config = body.get("embedContentConfig")  # Vertex AI has the options in an object of their own
    body = {**config, **body} if isinstance(config, dict) else body
    if verb == "embedContent":
        results = [_embed_content(body, model, "EmbedContentRequest")]
    else:
        paths = enumerate(_batch(body, model))
        results = [_embed_content(one, model, f"BatchEmbedContentsRequest.requests[{index}]") for index, one in paths]
    size, vectors = sum(size for _, size in results), [{"values": values} for values, _ in results]
    usage = {"promptTokenCount": size, "promptTokenDetails": [{"modality": "TEXT", "tokenCount": size}]}
    found = {"embedding": vectors[0]} if verb == "embedContent" else {"embeddings": vectors}
    return {**found, "usageMetadata": usage}


def _openai_reply(body: dict[str, Any], model: str) -> dict[str, Any]:
    texts, sizes = _read_inputs(body.get("input"))
    if (longest := max(sizes)) > _MAX_TOKENS:
        raise InvalidRequest(
            f"This model's maximum context length is {_MAX_TOKENS} tokens, however you requested {longest} tokens "
            f"({longest} in your prompt; 0 for the completion). Please reduce your prompt; or completion length."
        )
    dimensions = _openai_dimensions(body, model)
    form = body.get("encoding_format")
    if form not in (None, "float", "base64"):
        message = f"Invalid value: '{form}'. Supported values are: 'float' and 'base64'."
        raise InvalidRequest(message, "encoding_format", code="invalid_value")
    vectors: list[Any] = [embed(text, dimensions, model) for text in texts]
    if form == "base64":
        vectors = [base64.b64encode(struct.pack(f"<{dimensions}f", *vector)).decode() for vector in vectors]
    data = [{"object": "embedding", "index": index, "embedding": vector} for index, vector in enumerate(vectors)]
    usage = {"prompt_tokens": sum(sizes), "total_tokens": sum(sizes)}
    return {"object": "list", "data": data, "model": model, "usage": usage}


def _read_inputs(value: object) -> tuple[list[str], list[int]]:
    """Return the texts and the number of tokens of each. A list of token numbers becomes a text of its own."""
    rows: list[Any] = value if isinstance(value, list) and not _are_tokens(value) else [value]
    valid = [row for row in rows if (isinstance(row, str) and row) or (isinstance(row, list) and _are_tokens(row))]
    if not rows or len(valid) != len(rows) or len(rows) > _BATCH:
        raise InvalidRequest(f"'$.input' is invalid. Please check the API reference: {_API}.")
    texts = [row if isinstance(row, str) else " ".join(f"token{token}" for token in row) for row in rows]
    return texts, [estimate_tokens(row) if isinstance(row, str) else len(row) for row in rows]


def _are_tokens(row: list[Any]) -> bool:
    return bool(row) and all(isinstance(token, int) and not isinstance(token, bool) and token >= 0 for token in row)


def _openai_dimensions(body: dict[str, Any], model: str) -> int:
    default, requested = default_dimensions(model), body.get("dimensions")
    if requested is None:
        return default
    if "ada-002" in model:
        raise InvalidRequest("This model does not support specifying dimensions.")
    if not isinstance(requested, int) or isinstance(requested, bool):
        raise InvalidRequest(f"'{requested}' is not of type 'integer' - 'dimensions'", "dimensions")
    if not 1 <= requested <= default:
        limit = f"less than or equal to {default}" if requested > default else "greater than or equal to 1"
        raise InvalidRequest(f"Invalid value for 'dimensions' = {requested}. Must be {limit}.", "dimensions")
    return requested


def _batch(body: dict[str, Any], model: str) -> list[dict[str, Any]]:
    requests = body.get("requests")
    if not isinstance(requests, list) or not requests:
        raise InvalidRequest("* BatchEmbedContentsRequest.requests: requests is not specified\n", "requests")
    if len(requests) > _GEMINI_BATCH:
        message = f"* BatchEmbedContentsRequest.requests: at most {_GEMINI_BATCH} requests can be in one batch\n"
        raise InvalidRequest(message, "requests")
    for index, request in enumerate(requests):
        path = f"requests[{index}]"
        if not isinstance(request, dict):
            raise InvalidRequest(f"Invalid value at '{path}' (type.googleapis.com), \"{request}\"", path)
        if str(request.get("model", "")).rpartition("/")[2] != model.rpartition("/")[2]:
            message = f"* BatchEmbedContentsRequest.{path}.model: unexpected model name format\n"
            raise InvalidRequest(message, f"{path}.model")
    return requests


def _instances(body: dict[str, Any]) -> list[dict[str, Any]]:
    instances, parameters = body.get("instances"), body.get("parameters")
    if not isinstance(instances, list) or not instances:
        raise InvalidRequest("Empty instances.", "instances")
    texts = [item.get("content") if isinstance(item, dict) else None for item in instances]
    if not all(isinstance(text, str) for text in texts):
        message = "The PredictRequest.instances must be a list of objects with a text as content."
        raise InvalidRequest(message, "instances")
    dimensions = parameters.get("outputDimensionality") if isinstance(parameters, dict) else None
    options = {} if dimensions is None else {"outputDimensionality": dimensions}
    return [{"content": {"parts": [{"text": text}]}, **options} for text in texts]


def _embed_content(body: dict[str, Any], model: str, path: str) -> tuple[list[float], int]:
    content = body.get("content")
    parts = content.get("parts") if isinstance(content, dict) else None
    if not isinstance(parts, list) or not parts:
        raise InvalidRequest(f"* {path}.content: contents is not specified\n", "content")
    texts = [_part_text(part) for part in parts]
    if not all(texts):
        raise InvalidRequest("EmbedContentRequest.content contains an empty Part.", "content.parts")
    default = default_dimensions(model)
    requested = body.get("outputDimensionality", body.get("output_dimensionality", default))
    if not isinstance(requested, int) or isinstance(requested, bool) or not 1 <= requested <= default:
        message = f"* {path}.output_dimensionality: must be between 1 and {default}\n"
        raise InvalidRequest(message, "outputDimensionality")
    text = "\n".join(texts)
    return embed(text, requested, model.removeprefix("models/")), estimate_tokens(text)


def _part_text(part: object) -> str:
    """Return the text of a part; for other content, a digest of it."""
    if not isinstance(part, dict):
        return ""
    if isinstance(text := part.get("text"), str):
        return text
    blob = part.get("inlineData") or part.get("inline_data") or part.get("fileData") or part.get("file_data")
    return hashlib.blake2b(repr(blob).encode("utf-8", "replace"), digest_size=16).hexdigest() if blob else ""
