"""The text that a model summarizes: a conversation without the syntax of any provider, cut to a number of tokens.

What a user wrote is kept longest, then calls and results of tools, then the text of replies, then reasoning. The audit
writes past requests for summaries again: a change of these texts raises `ENCODER_VERSION`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from tenuto.core.blocks import (
    Audio,
    Block,
    CodeExecution,
    CodeResult,
    Document,
    Image,
    Reasoning,
    Refusal,
    Text,
    ToolUse,
)
from tenuto.core.messages import AssistantMessage, Content, Message, SystemMessage, ToolResults

SUMMARY_HEADER = "Summary of the earlier conversation, which continues below:"
"""The first line of the user message with a summary."""
TOKEN_CHARACTERS = 4
"""The estimated number of characters of a token."""

_GAP = " [...] "
_EXCERPT = 600
"""The number of characters to which a long text is shortened before any text is left out."""
_INSTRUCTIONS = """\
Write a summary of the conversation, so that the work can continue without it. Use these headings, in this order:
Goal, Decisions, Facts, Open work, Files. Under Facts, keep every fact, name, number, date and preference that the user
stated, and the results of tools that may be needed again. Repeat what an earlier summary says. Answer with the
summary only: do not continue the conversation and do not call tools.\
"""


def summary_instructions(focus: str = "") -> str:
    """Return the instructions for a summary; `focus` is what it should emphasize."""
    return f"{_INSTRUCTIONS} Pay special attention to this: {focus}" if focus else _INSTRUCTIONS


def summary_prompt(messages: Iterable[Message], focus: str, budget: int) -> str:
    """Return the message that asks for a summary of a conversation, of which at most `budget` tokens are shown."""
    return f"{summary_instructions(focus)}\n\n--- The conversation ---\n\n{conversation_text(messages, budget)}"


def conversation_text(messages: Iterable[Message], budget: int) -> str:
    """Return a conversation as text of at most `budget` tokens, estimated."""
    pieces = [piece for message in messages for piece in _pieces(message)]
    excess = sum(len(piece.text) for piece in pieces) - budget * TOKEN_CHARACTERS
    for rank in sorted({piece.rank for piece in pieces}, reverse=True):
        for limit in (_EXCERPT, 0):
            for piece in pieces:
                if excess <= 0:
                    break
                if piece.rank == rank:
                    excess -= piece.shorten(limit)
    return "\n\n".join(piece.text for piece in pieces if piece.text)


class _Piece(msgspec.Struct):
    rank: int
    """The lowest is kept longest: an earlier summary, then what the user wrote."""
    text: str

    def shorten(self, limit: int) -> int:
        """Shorten the text to its start and end. Return the number of characters that this saves."""
        before = len(self.text)
        if before > limit + len(_GAP) or not limit:
            self.text = f"{self.text[: limit * 2 // 3]}{_GAP}{self.text[-limit // 3 :]}" if limit else ""
        return before - len(self.text)


def _pieces(message: Message) -> Iterator[_Piece]:
    if isinstance(message, AssistantMessage):
        for block in message.blocks:
            if text := block_text(block):
                rank = 3 if isinstance(block, Reasoning) else 1 if isinstance(block, ToolUse) else 2
                label = "Note of the assistant" if isinstance(block, Reasoning) else "Assistant"
                yield _Piece(rank, f"{label}: {text}")
    elif isinstance(message, ToolResults):
        for result in message.results:
            kind = "Error of the tool" if result.is_error else "Tool result"
            yield _Piece(1, f"{kind}: {_content_text(result.content)}")
    else:
        who, text = "System" if isinstance(message, SystemMessage) else "User", _content_text(message.content)
        yield _Piece(-1 if text.startswith(SUMMARY_HEADER) else 0, f"{who}: {text}")


def _content_text(content: str | tuple[Content, ...]) -> str:
    return content if isinstance(content, str) else "\n".join(filter(None, map(block_text, content)))


def block_text(block: Block) -> str:
    """Return the text of a block, also of a call; a note in brackets for media."""
    match block:
        case Text() | Refusal() | Reasoning():
            return block.text
        case ToolUse():
            return f"calls {block.name} {block.args}"
        case CodeExecution():
            return f"runs code: {block.code}"
        case CodeResult():
            return f"the code gave: {block.output}"
        case Document() if block.text or block.title:
            return f"[document {block.title or ''}] {block.text}"
        case Image() | Audio() | Document():
            return f"[{type(block).__name__.lower()}]"
    return ""
