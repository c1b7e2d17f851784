"""The Gemini dialect: generateContent on the Gemini API and on Vertex."""

from typing import Any

from tenuto.core.blocks import GeminiMeta
from tenuto.core.jsonio import Fields
from tenuto.core.provider import Target, WireRequest
from tenuto.core.request import ChatRequest, ToolDefinition
from tenuto.wire.body_builder import model_resource, query
from tenuto.wire.codec import PAGE_SIZE, Codec, ModelList, ReplayRules, TokenCounter, TurnOrder
from tenuto.wire.embeddings import gemini_endpoint
from tenuto.wire.gemini import encode
from tenuto.wire.gemini.decode import GeminiDecoder
from tenuto.wire.gemini.parts import accepts
from tenuto.wire.gemini.protocol import DIALECT, RESPONSE_ONLY


def _functions_exclude_format(request: ChatRequest, target: Target) -> bool:
    # Models before Gemini 3, which have no thinking level, refuse a JSON media type together with functions.
    return "level" not in target.traits.thinking and any(isinstance(tool, ToolDefinition) for tool in request.tools)


def _write_count(request: WireRequest, fields: Fields, accepted: Fields, target: Target) -> tuple[str, dict[str, Any]]:
    path = f"{request.path.rpartition(':')[0]}:countTokens"
    if target.provider.gemini.vertex:
        return path, {**accepted}
    # The Gemini API counts instructions and tools only in this form.
    return path, {"generateContentRequest": {"model": model_resource(target.model), **fields}}


CODEC = Codec(
    name=DIALECT,
    decoder=GeminiDecoder,
    encode=encode.encode,
    verbatim=encode.verbatim,
    response_only=RESPONSE_ONLY,
    metas=(GeminiMeta,),
    accepts=accepts,
    holds_media=True,
    holds_code=True,
    call_needs_id=False,
    separate_reasoning_text=True,
    replay_rules=ReplayRules(turn_order=lambda target: TurnOrder(user_first=True, user_last=not target.traits.pattern)),
    functions_exclude_format=_functions_exclude_format,
    count_tokens=TokenCounter(
        frozenset(("contents", "systemInstruction", "tools", "generationConfig")), "totalTokens", _write_count
    ),
    list_models=ModelList(lambda page: query(pageSize=PAGE_SIZE, pageToken=page), may_lack_list=True),
    embeddings=gemini_endpoint,
    reasoning_format="google-gemini-v1",
)
