"""What a search looks into: the words of an entry, as plain text."""

from __future__ import annotations

from tenuto.core import jsonio
from tenuto.core.blocks import Block, Reasoning, Refusal, Text, ToolUse
from tenuto.core.journal import CallFinished, EntryPayload, MessageAdded, ReplyReceived, SteeringAdded, UnknownPayload
from tenuto.core.messages import AssistantMessage, ToolResult, ToolResults
from tenuto.store.words import snippet_of, words_in

__all__ = ["LONGEST", "snippet_of", "text_of", "words_in"]

LONGEST = 256 * 1024
"""How many characters of an entry are looked into."""


def text_of(act: EntryPayload | UnknownPayload) -> str:
    """Return what was said in an entry: questions, replies, calls and their results. NUL and half characters are out."""
    if isinstance(act, MessageAdded | SteeringAdded):
        message = act.message
        if isinstance(message, AssistantMessage):
            return _joined([_of_block(block) for block in message.blocks])
        if isinstance(message, ToolResults):
            return _joined([_of_result(result) for result in message.results])
        return _joined([str(message)])
    if isinstance(act, ReplyReceived):
        return _joined([_of_block(block) for block in act.message.blocks])
    if isinstance(act, CallFinished):
        return _joined([_of_result(act.result)])
    return ""


def _of_block(block: Block) -> str:
    if isinstance(block, Text | Reasoning | Refusal):
        return block.text
    return f"{block.name} {block.args}" if isinstance(block, ToolUse) else ""


def _of_result(result: ToolResult) -> str:
    if isinstance(result.content, str):
        return result.content
    return " ".join(_of_block(part) for part in result.content)


def _joined(pieces: list[str]) -> str:
    text = "\n".join(piece[:LONGEST] for piece in pieces if piece)[:LONGEST]
    return jsonio.printable(text).replace("\0", " ")
