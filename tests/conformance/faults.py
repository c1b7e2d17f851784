"""The mutants: faults that codecs of this kind have had elsewhere."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec

from conformance.jsontext import load, plain
from conformance.mutants import (
    Mutant,
    fields,
    on_block,
    on_bytes,
    on_events,
    on_fields,
    on_frames,
    on_lines,
    on_message,
    on_request,
    on_response,
    on_store,
    on_verbatim,
    respelt,
)
from tenuto.core.blocks import (
    AnthropicMeta,
    AnthropicRedactedMeta,
    Block,
    ChatMeta,
    CodeResult,
    GeminiMeta,
    OpenAiMeta,
    Reasoning,
    Refusal,
    ServerToolResult,
    Text,
    ToolUse,
)
from tenuto.core.messages import AssistantMessage

__all__ = ["MUTANTS"]

put = msgspec.structs.replace
ANTHROPIC, CHAT, RESPONSES, GEMINI = "anthropic-messages", "openai-chat", "openai-responses", "gemini"


# --- the faults ------------------------------------------------------------------------------------------------------


def _blocks(change: Callable[[list[Block]], list[Block]]) -> Callable[[AssistantMessage], AssistantMessage]:
    return lambda message: put(message, blocks=tuple(change(list(message.blocks))))


def _calls_first(blocks: list[Block]) -> list[Block]:
    return sorted(blocks, key=lambda block: not isinstance(block, ToolUse))


def _untokened(block: Any) -> Any:
    return put(block, meta=None)


def _clipped(block: Any) -> Any:
    """Lose the last character of a token."""
    if isinstance(block.meta, AnthropicMeta):
        return put(block, meta=AnthropicMeta(block.meta.signature[:-3]))
    if isinstance(block.meta, GeminiMeta):
        return put(block, meta=GeminiMeta(block.meta.thought_signature[:-3]))
    return block


def _signature_moved(blocks: list[Block]) -> list[Block]:
    """Move each signature to the next block."""
    metas = [None, *(block.meta for block in blocks[:-1])]
    return [put(block, meta=meta) for block, meta in zip(blocks, metas, strict=True)]


def _text_merged(blocks: list[Block]) -> list[Block]:
    """Join adjacent texts, signed or not."""
    found: list[Block] = []
    for block in blocks:
        last = found[-1] if found else None
        if isinstance(block, Text) and isinstance(last, Text):
            found[-1] = put(last, text=last.text + block.text, meta=block.meta or last.meta)
        else:
            found.append(block)
    return found


def _summaries_joined(block: Reasoning) -> Reasoning:
    summary = plain(load(block.extra or "{}")).get("summary") or []
    joined = [{"type": "summary_text", "text": "\n\n".join(part["text"] for part in summary)}] if summary else []
    return put(block, extra=fields(block.extra, summary=joined))


def _phase_lost(block: Text) -> Text:
    item = plain(load(block.extra or "{}")).get("item")
    return (
        put(block, extra=fields(block.extra, item=json.loads(fields(json.dumps(item), without=("phase",)))))
        if item
        else block
    )


def _details_reversed(block: Reasoning) -> Reasoning:
    if not isinstance(block.meta, ChatMeta) or not block.meta.details:
        return block
    return put(block, meta=put(block.meta, details=json.dumps(plain(load(block.meta.details))[::-1])))


def _details_lost(block: Block) -> Block:
    return put(block, meta=put(block.meta, details="")) if isinstance(block.meta, ChatMeta) else block


def _last_logprobs(response: Any) -> Any:
    """Keep the log probabilities of the last token only."""
    choices = []
    for choice in response.choices:
        stored = plain(load(choice.extra or "{}")).get("logprobs")
        last = {"logprobs": {**stored, "content": stored["content"][-1:]}} if stored else {}
        choices.append(put(choice, extra=fields(choice.extra, **last)))
    return put(response, choices=tuple(choices))


def _first_text_twice(blocks: list[Block]) -> list[Block]:
    at = next((at for at, block in enumerate(blocks) if isinstance(block, Text)), None)
    return blocks if at is None else [*blocks[: at + 1], *blocks[at:]]


def _renamed_field(block: Reasoning) -> Reasoning:
    meta = block.meta
    return put(block, meta=put(meta, field="reasoning_text")) if isinstance(meta, ChatMeta) else block


def _usage_without(name: str) -> Callable[[Any], Any]:
    return lambda response: put(response, raw_usage=fields(response.raw_usage, without=(name,)))


def _nulls_dropped(items: list[Any]) -> list[Any]:
    return [
        {name: value for name, value in item.items() if value not in (None, msgspec.Raw(b"null"))} for item in items
    ]


def _ids_sent(block: ToolUse) -> ToolUse:
    return put(block, id_generated=False)


def _swallow_errors(name: bytes, data: bytes) -> list[tuple[bytes, bytes]]:
    return [] if b'"error"' in data or name == b"error" else [(name, data)]


def _signature_in_halves(name: bytes, data: bytes) -> list[tuple[bytes, bytes]]:
    """Split one signature into two deltas, of which only the last counts."""
    if b"signature_delta" not in data:
        return [(name, data)]
    event = json.loads(data)
    event["delta"]["signature"] = event["delta"]["signature"][5:]
    return [(name, data), (name, json.dumps(event).encode())]


def _first_wins(merged: dict[str, Any], update: Any) -> None:
    for name, value in update:
        merged.setdefault(name, value)


def _half_read(piece: bytes) -> bytes:
    return piece.decode("utf-8", "replace").encode()


MUTANTS: tuple[Mutant, ...] = (
    # Anthropic Messages
    Mutant(
        "caller dropped from calls",
        ANTHROPIC,
        "stored",
        on_block(ToolUse, lambda b: put(b, extra=fields(b.extra, without=("caller",)))),
    ),
    Mutant(
        "caller dropped on the way out",
        ANTHROPIC,
        "replayed",
        on_bytes(rb',"caller":\s*\{[^}]*code_execution[^}]*\}', b""),
    ),
    Mutant("signatures dropped", ANTHROPIC, "decoded", on_block(Reasoning, _untokened)),
    Mutant("signatures clipped", ANTHROPIC, "replayed", on_block(Reasoning, _clipped)),
    Mutant("signatures moved one block on", ANTHROPIC, "decoded", on_message(_blocks(_signature_moved))),
    Mutant(
        "redacted thinking lost",
        ANTHROPIC,
        "decoded",
        on_message(_blocks(lambda bs: [b for b in bs if not isinstance(b.meta, AnthropicRedactedMeta)])),
    ),
    Mutant(
        "redacted data emptied on the way out",
        ANTHROPIC,
        "replayed",
        on_bytes(rb'("type":"redacted_thinking","data":")[^"]*', rb"\1"),
    ),
    Mutant(
        "empty thinking left out on the way out",
        ANTHROPIC,
        "replayed",
        on_request(
            _blocks(
                lambda bs: [
                    b for b in bs if not isinstance(b, Reasoning) or b.text or isinstance(b.meta, AnthropicRedactedMeta)
                ]
            )
        ),
    ),
    Mutant("calls put first", ANTHROPIC, "replayed", on_request(_blocks(_calls_first))),
    Mutant(
        "thinking put last",
        ANTHROPIC,
        "replayed",
        on_request(_blocks(lambda bs: sorted(bs, key=lambda b: isinstance(b, Reasoning)))),
    ),
    Mutant("a text sent twice", ANTHROPIC, "replayed", on_request(_blocks(_first_text_twice))),
    Mutant("a turn sent twice", ANTHROPIC, "replayed", on_request(_blocks(lambda bs: [*bs, *bs]))),
    Mutant("arguments written again", ANTHROPIC, "replayed", on_block(ToolUse, lambda b: put(b, args=respelt(b.args)))),
    Mutant(
        "arguments written again on the way out",
        ANTHROPIC,
        "replayed",
        on_request(_blocks(lambda bs: [put(b, args=respelt(b.args)) if isinstance(b, ToolUse) else b for b in bs])),
    ),
    Mutant("citations lost", ANTHROPIC, "decoded", on_block(Text, lambda b: put(b, citations=()))),
    Mutant(
        "a search result's ciphertext lost",
        ANTHROPIC,
        "stored",
        on_block(ServerToolResult, lambda b: put(b, content="[]")),
    ),
    Mutant("message fields dropped", ANTHROPIC, "whole", on_message(lambda m: put(m, extra=""))),
    Mutant("a usage key dropped", ANTHROPIC, "decoded", on_response(_usage_without("cache_read_input_tokens"))),
    Mutant(
        "usage numbers written again",
        ANTHROPIC,
        "decoded",
        on_response(lambda r: put(r, raw_usage=respelt(r.raw_usage) if r.raw_usage else "")),
    ),
    Mutant(
        "our stop word for the provider's",
        ANTHROPIC,
        "decoded",
        on_message(lambda m: put(m, raw_stop_reason=m.stop_reason)),
    ),
    Mutant("the first signature delta kept, not the last", ANTHROPIC, "stored", on_frames(_signature_in_halves)),
    Mutant("errors inside a stream swallowed", ANTHROPIC, "decoded", on_frames(_swallow_errors)),
    Mutant("the first value of a field kept", ANTHROPIC, "whole", on_fields(_first_wins)),
    Mutant("a delta told twice", ANTHROPIC, "streamed", on_events(lambda event: [event, event])),
    Mutant("characters cut in two between reads", ANTHROPIC, "rechunked", on_lines(_half_read)),
    Mutant(
        "carriage returns not known as line ends",
        ANTHROPIC,
        "rechunked",
        on_lines(lambda piece: piece.replace(b"\r", b"\r ")),
    ),
    # Chat Completions
    Mutant("reasoning_details turned round", CHAT, "decoded", on_block(Reasoning, _details_reversed)),
    Mutant(
        "reasoning_details turned round on the way out",
        CHAT,
        "replayed",
        on_request(_blocks(lambda bs: [_details_reversed(b) if isinstance(b, Reasoning) else b for b in bs])),
    ),
    Mutant(
        "reasoning_details left out on the way out",
        CHAT,
        "replayed",
        on_request(_blocks(lambda bs: [_details_lost(b) for b in bs])),
    ),
    Mutant("reasoning and text swapped", CHAT, "decoded", on_message(_blocks(lambda bs: bs[::-1]))),
    Mutant(
        "reasoning put before the text that came first",
        CHAT,
        "decoded",
        on_message(_blocks(lambda bs: sorted(bs, key=lambda b: not isinstance(b, Reasoning)))),
    ),
    Mutant("log probabilities of one token kept", CHAT, "whole", on_response(_last_logprobs)),
    Mutant(
        "a custom call taken for a function's",
        CHAT,
        "decoded",
        on_block(ToolUse, lambda b: put(b, kind="function")),
    ),
    Mutant("reasoning under another name", CHAT, "decoded", on_block(Reasoning, _renamed_field)),
    Mutant(
        "reasoning sent under another name", CHAT, "replayed", on_bytes(rb'"reasoning_content":', b'"reasoning_text":')
    ),
    Mutant(
        "tagged reasoning lost",
        CHAT,
        "decoded",
        on_message(
            _blocks(
                lambda bs: [
                    b
                    for b in bs
                    if not isinstance(b, Reasoning) or not isinstance(b.meta, ChatMeta) or b.meta.field != "think"
                ]
            )
        ),
    ),
    Mutant("a chunk's signature lost", CHAT, "replayed", on_bytes(rb'"signature":"own-mistral-signature",?', b"")),
    Mutant("arguments written again", CHAT, "replayed", on_block(ToolUse, lambda b: put(b, args=respelt(b.args)))),
    Mutant(
        "the order of calls turned round",
        CHAT,
        "replayed",
        on_request(
            _blocks(
                lambda bs: [
                    *(b for b in bs if not isinstance(b, ToolUse)),
                    *reversed([b for b in bs if isinstance(b, ToolUse)]),
                ]
            )
        ),
    ),
    Mutant("call ids altered", CHAT, "decoded", on_block(ToolUse, lambda b: put(b, id=b.id.upper()))),
    Mutant("unknown message fields dropped", CHAT, "stored", on_message(lambda m: put(m, extra=""))),
    Mutant("response fields dropped", CHAT, "whole", on_response(lambda r: put(r, extra=""))),
    Mutant("the second choice dropped", CHAT, "decoded", on_response(lambda r: put(r, choices=r.choices[:1]))),
    Mutant("a refusal read as text", CHAT, "decoded", on_block(Refusal, lambda b: Text(b.text))),
    Mutant("a minted id taken for a real one", CHAT, "decoded", on_block(ToolUse, _ids_sent)),
    Mutant(
        "a delta swallowed",
        CHAT,
        "streamed",
        on_events(lambda event: [] if getattr(event, "part_index", 0) else [event]),
    ),
    # Responses
    Mutant("summaries joined into one", RESPONSES, "stored", on_block(Reasoning, _summaries_joined)),
    Mutant("the phase lost", RESPONSES, "decoded", on_block(Text, _phase_lost)),
    Mutant("the phase left out on the way out", RESPONSES, "replayed", on_bytes(rb'"phase":"commentary",?', b"")),
    Mutant(
        "ciphertext lost", RESPONSES, "decoded", on_block(Reasoning, lambda b: put(b, meta=OpenAiMeta(id=b.meta.id)))
    ),
    Mutant(
        "ciphertext left out on the way out", RESPONSES, "replayed", on_bytes(rb',?"encrypted_content":"[^"]*"', b"")
    ),
    Mutant("item ids sent as call ids", RESPONSES, "replayed", on_bytes(rb'"call_id":"call_', b'"call_id":"fc_')),
    Mutant("item ids lost", RESPONSES, "decoded", on_block(ToolUse, _untokened)),
    Mutant(
        "namespace lost",
        RESPONSES,
        "stored",
        on_block(ToolUse, lambda b: put(b, extra=fields(b.extra, without=("namespace",)))),
    ),
    Mutant(
        "arguments written again",
        RESPONSES,
        "replayed",
        on_block(ToolUse, lambda b: put(b, args=respelt(b.args)) if b.kind == "function" else b),
    ),
    Mutant(
        "a custom call taken for a function's",
        RESPONSES,
        "decoded",
        on_block(ToolUse, lambda b: put(b, kind="function")),
    ),
    Mutant(
        "reasoning moved after its follower", RESPONSES, "replayed", on_request(_blocks(lambda bs: [*bs[1:], *bs[:1]]))
    ),
    Mutant("blocks in reverse", RESPONSES, "decoded", on_message(_blocks(lambda bs: bs[::-1]))),
    Mutant("nulls dropped from items", RESPONSES, "stored", on_verbatim(_nulls_dropped)),
    Mutant(
        "extra fields lost in the store",
        RESPONSES,
        "stored",
        on_store(lambda data: data.replace(b'"extra":', b'"extro":')),
    ),
    # Gemini
    Mutant("signatures dropped from calls", GEMINI, "decoded", on_block(ToolUse, _untokened)),
    Mutant("signatures clipped", GEMINI, "replayed", on_block(ToolUse, _clipped)),
    Mutant("a signature moved to the next part", GEMINI, "decoded", on_message(_blocks(_signature_moved))),
    Mutant("signed text merged with its neighbour", GEMINI, "stored", on_message(_blocks(_text_merged))),
    Mutant(
        "an empty text with a signature dropped",
        GEMINI,
        "decoded",
        on_message(_blocks(lambda bs: [b for b in bs if not isinstance(b, Text) or b.text])),
    ),
    Mutant(
        "an empty text with a signature left out on the way out",
        GEMINI,
        "replayed",
        on_request(_blocks(lambda bs: [b for b in bs if not isinstance(b, Text) or b.text])),
    ),
    Mutant(
        "absent arguments written as an empty object",
        GEMINI,
        "stored",
        on_block(ToolUse, lambda b: put(b, args_missing=False, args=b.args or "{}")),
    ),
    Mutant(
        "minted ids sent",
        GEMINI,
        "replayed",
        on_request(_blocks(lambda bs: [_ids_sent(b) if isinstance(b, ToolUse) else b for b in bs])),
    ),
    Mutant(
        "arguments written again",
        GEMINI,
        "replayed",
        on_block(ToolUse, lambda b: put(b, args=respelt(b.args)) if b.args else b),
    ),
    Mutant("the signature's field misspelt", GEMINI, "replayed", on_bytes(rb'"thoughtSignature":', b'"thoughtSig":')),
    Mutant("code output lost", GEMINI, "stored", on_block(CodeResult, lambda b: put(b, output=""))),
    Mutant("thoughts read as text", GEMINI, "decoded", on_block(Reasoning, lambda b: Text(b.text, meta=b.meta))),
    Mutant("calls put first", GEMINI, "replayed", on_request(_blocks(_calls_first))),
    Mutant("the first usage kept, not the last", GEMINI, "decoded", on_response(_usage_without("thoughtsTokenCount"))),
    Mutant(
        "grounding and other fields dropped",
        GEMINI,
        "whole",
        on_response(
            lambda r: put(
                r, extra="", choices=tuple(put(c, extra="", message=put(c.message, extra="")) for c in r.choices)
            )
        ),
    ),
)
