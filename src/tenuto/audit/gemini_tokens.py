"""The thought signatures of a transcript."""

from __future__ import annotations

from functools import cached_property

from tenuto.audit.transcript_tokens import TranscriptTokens, parse_fields, parse_value
from tenuto.core.blocks import (
    Audio,
    Block,
    CodeExecution,
    CodeResult,
    Document,
    GeminiMeta,
    Image,
    Opaque,
    Reasoning,
    Refusal,
    ServerToolResult,
    ServerToolUse,
    Text,
    ToolUse,
)
from tenuto.rules.body import Fields
from tenuto.rules.gemini_turns import normalize_signature, part_content, turn_text
from tenuto.rules.issued_tokens import IssuedItem, IssuedToken, content_digest


class GeminiTokens(TranscriptTokens):
    """Signatures by their normalized text. A reply has no id: turns and reasoning are found by their texts."""

    @cached_property
    def _places(self) -> dict[str, list[tuple[int, int]]]:
        """The reply and the block of each signature."""
        places: dict[str, list[tuple[int, int]]] = {}
        for reply, index, block in self.blocks():
            if signature := _signature(block):
                places.setdefault(normalize_signature(signature), []).append((reply, index))
        return places

    @cached_property
    def _turns(self) -> dict[str, bool]:
        """The turns of this issuer by their text, and whether they came with a signature."""
        turns: dict[str, bool] = {}
        for message, foreign in zip(self.replies, self.foreign, strict=True):
            if not foreign:
                key = turn_text([_part(block) for block in message.blocks])
                is_signed = any(_signature(block) for block in message.blocks)
                turns[key] = is_signed and turns.get(key, True)
        return turns

    @cached_property
    def _reasoning(self) -> set[str]:
        return {block.text for _, _, block in self.blocks() if type(block) is Reasoning and block.text}

    def find(self, token: str) -> IssuedToken | None:
        places = self._places.get(normalize_signature(token))
        if not places:
            return None
        own = [(i, j) for i, j in places if not self.foreign[i]]
        i, j = (own or places)[0]
        origin = self.replies[i].origin
        parts = [_part(self.replies[i].blocks[j]) for i, j in own]
        contents = [part_content(part) for part in parts] if all(parts) else []
        kind, value = contents[0] if contents else ("", "")
        return IssuedToken(
            kind=kind,
            model=origin.model if origin else "",
            reply=str(i) if len(own) == 1 else "",
            index=j,
            contents=tuple(content_digest(*content) for content in contents),
            length=len(value) if kind == "text" else 0,
            foreign=not own,
        )

    def item(self, id: str) -> IssuedItem | None:
        """Return the turn with this text (`content:...`), or the reasoning with this text (`reasoning:...`)."""
        kind, _, value = id.partition(":")
        if kind == "reasoning":
            return IssuedItem(kind=kind) if value in self._reasoning else None
        return IssuedItem(kind="signed" if self._turns.get(value) else "unsigned")


def _signature(block: Block) -> str:
    if type(block) is Opaque:
        signature = parse_fields(block.raw).get("thoughtSignature")
        return signature if isinstance(signature, str) else ""
    return block.meta.thought_signature if type(block.meta) is GeminiMeta else ""


def _part(block: Block) -> Fields:
    """Return the part that a block came as, as far as a signature is issued for it; empty if it cannot be compared."""
    match block:
        case ToolUse():
            args = parse_value(block.args)
            return {"functionCall": {"name": block.name, "args": args}} if args is None or type(args) is dict else {}
        case Text() | Refusal():
            return {"text": block.text}
        case Reasoning():
            return {"text": block.text, "thought": True}
        case Image() | Audio() | Document() if block.data:
            return {"inlineData": {"data": block.data}}
        case Image() | Audio() | Document():
            return {"fileData": {"fileUri": block.url or block.file_id}}
        case CodeExecution():
            return {"executableCode": {"code": block.code}}
        case CodeResult():
            return {"codeExecutionResult": {"output": block.output}}
        case ServerToolUse():
            return {"toolCall": {"toolType": block.name, "args": parse_value(block.args)}}
        case ServerToolResult():
            return {"toolResponse": {"response": parse_value(block.content)}}
        case Opaque():
            return parse_fields(block.raw)
        case _:
            return {}
