"""Which request a path stands for. SDKs differ in what they add to an address, so versions in front are optional."""

from __future__ import annotations

from typing import Literal, TypeAlias
from urllib.parse import unquote

import msgspec

from tenuto.core.provider import Dialect

Kind: TypeAlias = Literal["turn", "count", "embed", "list", "model", "log", "script", "rules", "nothing"]

_VERSIONS = ("v1", "v1beta", "v1alpha", "v1beta1")
_FIXED: dict[str, tuple[Kind, Dialect]] = {
    "messages": ("turn", "anthropic-messages"),
    "messages/count_tokens": ("count", "anthropic-messages"),
    "responses": ("turn", "openai-responses"),
    "responses/input_tokens": ("count", "openai-responses"),
    "responses/compact": ("turn", "openai-responses"),
    "chat/completions": ("turn", "openai-chat"),
    "embeddings": ("embed", "openai-chat"),
}
_VERBS: dict[str, tuple[Kind, Dialect]] = {
    "generateContent": ("turn", "gemini"),
    "streamGenerateContent": ("turn", "gemini"),
    "countTokens": ("count", "gemini"),
    "embedContent": ("embed", "gemini"),
    "batchEmbedContents": ("embed", "gemini"),
    "predict": ("embed", "gemini"),
    "rawPredict": ("turn", "anthropic-messages"),
    "streamRawPredict": ("turn", "anthropic-messages"),
}
_OWN: dict[str, tuple[Kind, tuple[str, ...]]] = {
    "_sim/log": ("log", ("GET", "DELETE")),
    "_sim/script": ("script", ("POST", "DELETE")),
    "_sim/rules": ("rules", ("GET",)),
}
COUNTING = ("count-tokens", "rawPredict")
"""The model and the verb that count the tokens of a request to Claude on Vertex AI."""
HELP = (
    "there are POST /v1/messages, /v1/messages/count_tokens, /v1/responses, /v1/responses/input_tokens, "
    "/v1/responses/compact, /v1/chat/completions, /v1/embeddings, /v1beta/models/{model}:generateContent, "
    ":streamGenerateContent, :countTokens, :embedContent, :batchEmbedContents; GET /v1/models, /v1beta/models; "
    "GET and DELETE /_sim/log, POST and DELETE /_sim/script, GET /_sim/rules"
)


class Route(msgspec.Struct, frozen=True):
    """The kind of a request and its dialect; `methods` are those that the path accepts."""

    kind: Kind
    dialect: Dialect = "openai-chat"
    model: str = ""
    verb: str = ""
    methods: tuple[str, ...] = ("POST",)

    @property
    def streams(self) -> bool:
        """Whether the path itself asks for a stream."""
        return self.verb.startswith("stream")


def route(path: str, headers: dict[str, str]) -> Route:
    """Find what a path stands for; `nothing`, in the dialect that it looks like, if there is no such thing."""
    steps = [unquote(step) for step in path.split("/") if step]
    version = ""
    while steps and steps[0] in _VERSIONS:
        version = steps.pop(0)
    rest = "/".join(steps)
    if rest in _OWN:
        kind, methods = _OWN[rest]
        return Route(kind, methods=methods)
    if rest in _FIXED:
        kind, dialect = _FIXED[rest]
        return Route(kind, dialect, verb=steps[-1] if kind == "count" or steps[-1] == "compact" else "")
    named, colon, verb = rest.rpartition(":")
    if colon and verb in _VERBS:
        return _verbal(named.removeprefix("models/"), verb)
    dialect = _speaks(version, rest, headers)
    if steps and steps[0] == "models":
        return Route("model" if steps[1:] else "list", dialect, "/".join(steps[1:]), methods=("GET",))
    return Route("nothing", dialect)


def _verbal(named: str, verb: str) -> Route:
    kind, dialect = _VERBS[verb]
    if (named, verb) == COUNTING:
        return Route("count", dialect, "", "count_tokens")
    return Route(kind, dialect, named, verb)


def _speaks(version: str, rest: str, headers: dict[str, str]) -> Dialect:
    if version.startswith("v1beta") or "x-goog-api-key" in headers:
        return "gemini"
    if "anthropic-version" in headers or rest.startswith("messages"):
        return "anthropic-messages"
    return "openai-responses" if rest.startswith("responses") else "openai-chat"
