"""Which request a path stands for. SDKs differ in what they add to an address, so versions in front are optional."""

from __future__ import annotations

from typing import Literal, TypeAlias
from urllib.parse import unquote

import msgspec

from tenuto.core.provider import Dialect

Kind: TypeAlias = Literal["turn", "count", "embed", "list", "model", "log", "script", "rules", "nothing"]

_VERSIONS = ("v1", "v1beta", "v1alpha", "v1beta1")


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


_PATHS: dict[str, Route] = {
    "messages": Route("turn", "anthropic-messages"),
    "messages/count_tokens": Route("count", "anthropic-messages", verb="count_tokens"),
    "responses": Route("turn", "openai-responses"),
    "responses/input_tokens": Route("count", "openai-responses", verb="input_tokens"),
    "responses/compact": Route("turn", "openai-responses", verb="compact"),
    "chat/completions": Route("turn", "openai-chat"),
    "embeddings": Route("embed", "openai-chat"),
    "_sim/log": Route("log", methods=("GET", "DELETE")),
    "_sim/script": Route("script", methods=("POST", "DELETE")),
    "_sim/rules": Route("rules", methods=("GET",)),
    # to count the tokens of a request to Claude on Vertex AI
    "models/count-tokens:rawPredict": Route("count", "anthropic-messages", verb="count_tokens"),
}
_VERBS: dict[str, tuple[Kind, Dialect]] = {
    **dict.fromkeys(("generateContent", "streamGenerateContent"), ("turn", "gemini")),
    **dict.fromkeys(("embedContent", "batchEmbedContents", "predict"), ("embed", "gemini")),
    **dict.fromkeys(("rawPredict", "streamRawPredict"), ("turn", "anthropic-messages")),
    "countTokens": ("count", "gemini"),
}
HELP = (
    "there are POST /v1/messages, /v1/messages/count_tokens, /v1/responses, /v1/responses/input_tokens, "
    "/v1/responses/compact, /v1/chat/completions, /v1/embeddings, /v1beta/models/{model}:generateContent, "
    ":streamGenerateContent, :countTokens, :embedContent, :batchEmbedContents; GET /v1/models, /v1beta/models; "
    "GET and DELETE /_sim/log, POST and DELETE /_sim/script, GET /_sim/rules"
)


def route(path: str, headers: dict[str, str]) -> Route:
    """Find what a path stands for; `nothing`, in the dialect that it looks like, if there is no such thing."""
    steps = [unquote(step) for step in path.split("/") if step]
    version = ""
    while steps and steps[0] in _VERSIONS:
        version = steps.pop(0)
    rest = "/".join(steps)
    if rest in _PATHS:
        return _PATHS[rest]
    named, _, verb = rest.rpartition(":")
    if verb in _VERBS and ":" in rest:
        return Route(*_VERBS[verb], named.removeprefix("models/"), verb)
    dialect: Dialect = "openai-responses" if rest.startswith("responses") else "openai-chat"
    if version.startswith("v1beta") or "x-goog-api-key" in headers:
        dialect = "gemini"
    elif "anthropic-version" in headers or rest.startswith("messages"):
        dialect = "anthropic-messages"
    if steps and steps[0] == "models":
        return Route("model" if steps[1:] else "list", dialect, "/".join(steps[1:]), methods=("GET",))
    return Route("nothing", dialect)
