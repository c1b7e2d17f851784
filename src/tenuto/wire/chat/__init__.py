"""The OpenAI Chat Completions dialect."""

from tenuto.core.blocks import Audio, Block, ChatMeta, Reasoning, Refusal, Text, ToolUse
from tenuto.core.provider import Target
from tenuto.wire.chat import encode
from tenuto.wire.chat.decode import ChatDecoder
from tenuto.wire.chat.protocol import RESPONSE_ONLY
from tenuto.wire.codec import Codec, ReplayRules
from tenuto.wire.embeddings import common_endpoint


def _accepts(block: Block, _: Target) -> bool:
    if isinstance(block, ToolUse):
        return block.kind in ("function", "custom", "builtin_function")
    return isinstance(block, Text | Reasoning | Refusal) or (isinstance(block, Audio) and bool(block.id))


CODEC = Codec(
    name="openai-chat",
    decoder=ChatDecoder,
    encode=encode.encode,
    verbatim=encode.verbatim,
    response_only=RESPONSE_ONLY,
    metas=(ChatMeta,),
    accepts=_accepts,
    replay_rules=ReplayRules(encode.call_ids, encode.turn_order),
    takes_schemas=lambda target: target.provider.chat.json_schema,
    limits_tools_with_reasoning=True,
    embeddings=common_endpoint,
)
