"""The OpenAI Responses dialect."""

from typing import Any

from tenuto.core.blocks import Block, OpenAiMeta, Reasoning, Refusal, Text, ToolUse
from tenuto.core.jsonio import Fields
from tenuto.core.provider import Target, WireRequest
from tenuto.wire.body_builder import citation_type
from tenuto.wire.codec import CallIdRule, Codec, ReplayRules, TokenCounter
from tenuto.wire.embeddings import common_endpoint
from tenuto.wire.responses import encode
from tenuto.wire.responses.decode import ResponsesDecoder, cache_miss_reason
from tenuto.wire.responses.items import DIALECT
from tenuto.wire.responses.protocol import RESPONSE_ONLY


def _accepts(block: Block, _: Target) -> bool:
    if isinstance(block, Text):
        return all(citation_type(citation).endswith(("_citation", "_path")) for citation in block.citations)
    return isinstance(block, Reasoning | Refusal | ToolUse) or block.meta is not None


def _write_count(request: WireRequest, _: Fields, accepted: Fields, target: Target) -> tuple[str, dict[str, Any]]:
    return f"{request.path}/input_tokens", {**accepted}


_COUNTED_FIELDS = frozenset(
    {
        *("model", "input", "instructions", "tools", "tool_choice", "parallel_tool_calls", "reasoning", "text"),
        *("conversation", "previous_response_id", "personality", "truncation"),
    }
)
"""The fields that the counting endpoint accepts, according to the official SDK."""

CODEC = Codec(
    name=DIALECT,
    decoder=ResponsesDecoder,
    encode=encode.encode,
    verbatim=encode.verbatim,
    response_only=RESPONSE_ONLY,
    metas=(OpenAiMeta,),
    accepts=_accepts,
    holds_annotations=True,
    replay_rules=ReplayRules(lambda target: CallIdRule(max_length=target.provider.responses.call_id_max)),
    compacts=lambda target: target.provider.responses.compaction,
    compaction_takes_instructions=False,
    cache_miss_reason=cache_miss_reason,
    count_tokens=TokenCounter(_COUNTED_FIELDS, "input_tokens", _write_count),
    embeddings=common_endpoint,
    reasoning_format="openai-responses-v1",
    encrypts_reasoning=True,
)
