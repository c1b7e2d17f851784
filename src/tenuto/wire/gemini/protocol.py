"""Structs and tables of Gemini's generateContent protocol."""

from collections.abc import Mapping
from typing import Annotated, Final, Literal

import msgspec
from msgspec import UNSET, Raw, UnsetType

from tenuto.core.jsonio import Fields
from tenuto.core.messages import StopReason
from tenuto.wire.usage import UsageTable, count_paths

DIALECT: Final = "gemini"
ABSENT = Raw(b"")  # value of a raw field that a chunk does not have
THOUGHT_FALSE = '{"thought":false}'  # the `extra` of a text part that has `thought: false`


class HotPart(msgspec.Struct, forbid_unknown_fields=True, gc=False, rename="camel"):
    text: str
    thought: bool | UnsetType = UNSET
    thought_signature: Annotated[str, msgspec.Meta(min_length=1)] = ""
    """An empty signature fails to decode: the slow path puts it into `extra`."""


class HotContent(msgspec.Struct, forbid_unknown_fields=True):
    parts: list[HotPart]
    role: Literal["model"] = "model"


class HotCandidate(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    content: HotContent
    index: int = 0
    finish_reason: str = ""


class HotChunk(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """A chunk with only text, as most are. Any other chunk fails to decode and takes the slow path."""

    candidates: list[HotCandidate]
    usage_metadata: Raw = ABSENT
    model_version: str = ""
    response_id: str = ""
    create_time: Raw = ABSENT


_STOP_GROUPS: dict[StopReason, str] = {
    "stop": "FINISH_REASON_UNSPECIFIED STOP OTHER",
    "length": "MAX_TOKENS CONTINUATION",
    "content_filter": """
        SAFETY RECITATION LANGUAGE BLOCKLIST PROHIBITED_CONTENT SPII IMAGE_SAFETY IMAGE_PROHIBITED_CONTENT
        IMAGE_RECITATION MODEL_ARMOR ESCALATION PUP_LIMITED_DISABLED
    """,
    "error": """
        MALFORMED_FUNCTION_CALL UNEXPECTED_TOOL_CALL TOO_MANY_TOOL_CALLS MALFORMED_RESPONSE MISSING_THOUGHT_SIGNATURE
        IMAGE_OTHER NO_IMAGE
    """,
}
STOP_REASONS: dict[str, StopReason] = {name: reason for reason, names in _STOP_GROUPS.items() for name in names.split()}
"""Meaning of each finish reason. An unknown one is `stop`; the message has the provider's own word, too."""


def _split(names: str) -> tuple[str, ...]:
    return tuple(names.split())


STOP_NUMBERS = _split("""
    FINISH_REASON_UNSPECIFIED STOP MAX_TOKENS SAFETY RECITATION OTHER LANGUAGE BLOCKLIST PROHIBITED_CONTENT SPII
    MALFORMED_FUNCTION_CALL IMAGE_SAFETY UNEXPECTED_TOOL_CALL
""")
"""Finish reasons of the Gemini API by enumeration value, for hosts that send numbers."""

STOP_NUMBERS_VERTEX = _split("""
    FINISH_REASON_UNSPECIFIED STOP MAX_TOKENS SAFETY RECITATION OTHER BLOCKLIST PROHIBITED_CONTENT SPII
    MALFORMED_FUNCTION_CALL MODEL_ARMOR IMAGE_SAFETY IMAGE_PROHIBITED_CONTENT IMAGE_RECITATION IMAGE_OTHER
    UNEXPECTED_TOOL_CALL NO_IMAGE
""")
"""The same for Vertex, whose enumeration differs from the seventh value on."""

RESPONSE_ONLY: dict[str, str] = {
    "audioTranscription": "output only: the transcription of a part that the model spoke",
    "functionCall.willContinue": "frames a stream; a call in a request is complete",
}
"""Fields of a received part that a request refuses, with the reason."""

SKIP_SIGNATURE = "skip_thought_signature_validator"
"""Signature for a call that Gemini did not make; sent as this plain word."""

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
"""Request field of each server tool. `ServerTool.type` overrides it."""


def _from_snake_case(names: str) -> dict[str, str]:
    return {"".join(f"_{c.lower()}" if c.isupper() else c for c in name): name for name in names.split()}


# Dumps of Google's SDKs and some proxies write field names in snake_case. Only known names are converted: an unknown
# field goes to `extra` as it is.
CHUNK_FIELDS = _from_snake_case("usageMetadata modelVersion responseId createTime promptFeedback modelStatus")
CANDIDATE_FIELDS = _from_snake_case("""
    finishReason finishMessage safetyRatings citationMetadata groundingMetadata urlContextMetadata avgLogprobs
    logprobsResult tokenCount continuationToken
""")
PART_FIELDS = _from_snake_case("""
    inlineData fileData functionCall functionResponse executableCode codeExecutionResult toolCall toolResponse
    thoughtSignature mediaResolution videoMetadata partMetadata mediaProcessing audioTranscription speechMetadata
    mimeType fileUri displayName toolType partialArgs willContinue
    jsonPath stringValue numberValue boolValue nullValue
""")


def to_camel_case(fields: Fields, names: Mapping[str, str]) -> Fields:
    """Rename the fields that `names` has. If both spellings are present, camelCase wins."""
    if names.keys().isdisjoint(fields):
        return fields
    renamed = {name: value for name, value in fields.items() if name not in names}
    for name, value in fields.items():
        if name in names:
            renamed.setdefault(names[name], value)
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
    modality_numbers=("MODALITY_UNSPECIFIED", "TEXT", "IMAGE", "VIDEO", "AUDIO", "DOCUMENT"),
    counts_as_text=True,
    must_be_object=True,
    empty_is_none=True,
    spellings=_from_snake_case("""
        promptTokenCount cachedContentTokenCount candidatesTokenCount toolUsePromptTokenCount thoughtsTokenCount
        totalTokenCount promptTokensDetails candidatesTokensDetails cacheTokensDetails toolUsePromptTokensDetails
        tokenCount trafficType
    """),
)
