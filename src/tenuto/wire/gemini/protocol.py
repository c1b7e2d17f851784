"""The wire of Gemini's generateContent: the chunk of the hot path as structs, and the words as tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal

import msgspec
from msgspec import UNSET, Raw, UnsetType

from tenuto.core.messages import StopReason
from tenuto.wire.usage import UsageTable, count_paths

__all__ = [
    "CANDIDATE",
    "CHUNK",
    "DIALECT",
    "DONE",
    "HOT",
    "MODALITIES",
    "NOTHING",
    "PART",
    "RESPONSE_ONLY",
    "SERVER_TOOLS",
    "SKIP_SIGNATURE",
    "STOP_NUMBERS",
    "STOP_NUMBERS_VERTEX",
    "STOP_REASONS",
    "THOUGHT_FALSE",
    "USAGE",
    "Fields",
    "HotPart",
    "camel",
]

DIALECT: Final = "gemini"
Fields = dict[str, Raw]

NOTHING = Raw(b"")
"""What a raw field of a chunk holds that did not come."""
THOUGHT_FALSE = '{"thought":false}'
"""The other fields of a text that says of itself that it is no thought."""


class HotPart(msgspec.Struct, forbid_unknown_fields=True, gc=False, rename="camel"):
    text: str
    thought: bool | UnsetType = UNSET
    thought_signature: Annotated[str, msgspec.Meta(min_length=1)] = ""  # an empty one that came has to be kept


class HotContent(msgspec.Struct, forbid_unknown_fields=True):
    parts: list[HotPart]
    role: Literal["model"] = "model"


class HotCandidate(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    content: HotContent
    index: int = 0
    finish_reason: str = ""


class HotChunk(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    candidates: list[HotCandidate]
    usage_metadata: Raw = NOTHING
    model_version: str = ""
    response_id: str = ""
    create_time: Raw = NOTHING


HOT = msgspec.json.Decoder(HotChunk)
"""Reads a chunk that holds text only, which most do; everything else falls through to a dict of raw fields."""

DONE = b"[DONE]"
"""The last frame of hosts that end every stream as the chat dialect does; it says nothing here."""

STOP_REASONS: dict[str, StopReason] = {
    "FINISH_REASON_UNSPECIFIED": "stop",
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "SAFETY": "content_filter",
    "RECITATION": "content_filter",
    "LANGUAGE": "content_filter",
    "OTHER": "stop",
    "BLOCKLIST": "content_filter",
    "PROHIBITED_CONTENT": "content_filter",
    "SPII": "content_filter",
    "MALFORMED_FUNCTION_CALL": "error",
    "UNEXPECTED_TOOL_CALL": "error",
    "TOO_MANY_TOOL_CALLS": "error",
    "MALFORMED_RESPONSE": "error",
    "MISSING_THOUGHT_SIGNATURE": "error",
    "CONTINUATION": "length",
    "IMAGE_SAFETY": "content_filter",
    "IMAGE_PROHIBITED_CONTENT": "content_filter",
    "IMAGE_RECITATION": "content_filter",
    "IMAGE_OTHER": "error",
    "NO_IMAGE": "error",
    "MODEL_ARMOR": "content_filter",
    "ESCALATION": "content_filter",
    "PUP_LIMITED_DISABLED": "content_filter",
}
"""What each finish reason means. One that is not here counts as `stop`: the provider's own word stands beside it."""

STOP_NUMBERS = (
    "FINISH_REASON_UNSPECIFIED",
    "STOP",
    "MAX_TOKENS",
    "SAFETY",
    "RECITATION",
    "OTHER",
    "LANGUAGE",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "MALFORMED_FUNCTION_CALL",
    "IMAGE_SAFETY",
    "UNEXPECTED_TOOL_CALL",
)
"""Finish reasons by number, where a host sends the enumeration's values: the Gemini API's."""

STOP_NUMBERS_VERTEX = (
    "FINISH_REASON_UNSPECIFIED",
    "STOP",
    "MAX_TOKENS",
    "SAFETY",
    "RECITATION",
    "OTHER",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "MALFORMED_FUNCTION_CALL",
    "MODEL_ARMOR",
    "IMAGE_SAFETY",
    "IMAGE_PROHIBITED_CONTENT",
    "IMAGE_RECITATION",
    "IMAGE_OTHER",
    "UNEXPECTED_TOOL_CALL",
    "NO_IMAGE",
)
"""The same for Vertex, whose enumeration differs from the sixth value on."""

MODALITIES = ("MODALITY_UNSPECIFIED", "TEXT", "IMAGE", "VIDEO", "AUDIO", "DOCUMENT")
"""Modalities by number."""

RESPONSE_ONLY: dict[str, str] = {
    "audioTranscription": "output only: the transcription of a part that the model spoke",
    "functionCall.willContinue": "frames a stream; a call that is sent back is whole",
}
"""Fields of a received part that a request refuses, each with its reason."""

SKIP_SIGNATURE = "skip_thought_signature_validator"
"""Stands in for the signature of a call that Gemini did not make; it is sent as this plain word."""

SERVER_TOOLS: dict[str, str] = {
    "web_search": "googleSearch",
    "google_search": "googleSearch",
    "web_fetch": "urlContext",
    "url_context": "urlContext",
    "code_execution": "codeExecution",
    "file_search": "fileSearch",
    "google_maps": "googleMaps",
    "computer_use": "computerUse",
    "mcp": "mcpServers",
}
"""Our word for a provider's tool, and the field that asks for it here. A request may force another field."""


def _snake(*names: str) -> dict[str, str]:
    return {"".join(f"_{c.lower()}" if c.isupper() else c for c in name): name for name in names}


# Dumps of Google's own SDKs and some proxies spell fields in snake_case; they are read as if spelt right.
CHUNK = _snake("usageMetadata", "modelVersion", "responseId", "createTime", "promptFeedback", "modelStatus")
CANDIDATE = _snake(
    "finishReason",
    "finishMessage",
    "safetyRatings",
    "citationMetadata",
    "groundingMetadata",
    "urlContextMetadata",
    "avgLogprobs",
    "logprobsResult",
    "tokenCount",
    "continuationToken",
)
PART = _snake(
    "inlineData",
    "fileData",
    "functionCall",
    "functionResponse",
    "executableCode",
    "codeExecutionResult",
    "toolCall",
    "toolResponse",
    "thoughtSignature",
    "mediaResolution",
    "videoMetadata",
    "partMetadata",
    "mediaProcessing",
    "audioTranscription",
    "speechMetadata",
    # inside of them
    "mimeType",
    "fileUri",
    "displayName",
    "toolType",
    "partialArgs",
    "willContinue",
    "jsonPath",
    "stringValue",
    "numberValue",
    "boolValue",
    "nullValue",
)
USAGE = _snake(
    "promptTokenCount",
    "cachedContentTokenCount",
    "candidatesTokenCount",
    "toolUsePromptTokenCount",
    "thoughtsTokenCount",
    "totalTokenCount",
    "promptTokensDetails",
    "candidatesTokensDetails",
    "cacheTokensDetails",
    "toolUsePromptTokensDetails",
    "tokenCount",
    "trafficType",
)


def camel(fields: Fields, names: Mapping[str, str]) -> Fields:
    """Rename the fields that `names` lists; the spelling of the dialect itself wins where both are there."""
    if names.keys().isdisjoint(fields):
        return fields
    renamed = {name: value for name, value in fields.items() if name not in names}
    for name in names.keys() & fields.keys():
        renamed.setdefault(names[name], fields[name])
    return renamed


USAGE_TABLE = UsageTable(
    counts=count_paths(
        input="promptTokenCount",
        cache_read="cachedContentTokenCount",
        tool_input="toolUsePromptTokenCount",
        audio_input="input.AUDIO",
        output="candidatesTokenCount",
        reasoning="thoughtsTokenCount",
        audio_output="output.AUDIO",
        total="totalTokenCount",
    ),
    input_details=("promptTokensDetails",),
    output_details=("candidatesTokensDetails",),
    output_includes_reasoning=False,
    modality_numbers=MODALITIES,
    counts_as_text=True,
    must_be_object=True,
    empty_is_none=True,
    spellings=USAGE,
)
