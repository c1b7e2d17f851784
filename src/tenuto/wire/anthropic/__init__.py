"""The Anthropic Messages dialect."""

from typing import Any

from tenuto.core.jsonio import Fields
from tenuto.core.provider import Target, WireRequest
from tenuto.wire.anthropic import encode
from tenuto.wire.anthropic.blocks import accepts
from tenuto.wire.anthropic.decode import AnthropicDecoder, cache_miss_reason
from tenuto.wire.anthropic.protocol import DIALECT, TOKENS
from tenuto.wire.body_builder import query
from tenuto.wire.codec import PAGE_SIZE, CallIdRule, Codec, ModelList, ReplayRules, TokenCounter, TurnOrder


def _write_count(request: WireRequest, _: Fields, accepted: Fields, target: Target) -> tuple[str, dict[str, Any]]:
    version = target.provider.anthropic.raw_predict
    if not version:
        return f"{request.path}/count_tokens", {**accepted}
    return "/models/count-tokens:rawPredict", {**accepted, "model": target.model, "anthropic_version": version}


CODEC = Codec(
    name=DIALECT,
    decoder=AnthropicDecoder,
    encode=encode.encode,
    verbatim=encode.verbatim,
    metas=TOKENS,
    accepts=accepts,
    replay_rules=ReplayRules(
        call_ids=lambda target: CallIdRule("[a-zA-Z0-9_-]{1,64}"),
        turn_order=lambda target: TurnOrder(user_first=True),
        calls_last=True,
    ),
    compacts=lambda target: target.provider.anthropic.compaction and target.traits.compaction,
    cache_miss_reason=cache_miss_reason,
    count_tokens=TokenCounter(
        # the fields of `count_tokens` in the official SDK
        frozenset(
            (
                *("model", "messages", "system", "tools", "tool_choice", "thinking", "output_config", "cache_control"),
                *("speed", "context_management", "compaction", "mcp_servers", "user_profile_id", "billing_policy"),
            )
        ),
        "input_tokens",
        _write_count,
    ),
    list_models=ModelList(lambda page: query(limit=PAGE_SIZE, after_id=page), {"anthropic-version": "2023-06-01"}),
    reasoning_format="anthropic-claude-v1",
)
