"""Rules of messages: whose turn it is, what may be empty, how large it all may be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tenuto.sim.anthropic.opened import Block, Message, Opened
from tenuto.sim.anthropic.opening import prompt_tokens
from tenuto.sim.anthropic.request_rules import Found
from tenuto.sim.judging import Broken, Checks

__all__ = ["CHECKS", "LENGTH"]

CHECKS = Checks()
LENGTH = Checks()


@CHECKS.holds("ANT-MSG-07")
def roles_alternate(opened: Opened) -> Found:
    """Neighbours of one role are joined."""
    for before, message in zip(opened.messages, opened.messages[1:], strict=False):
        yield Broken("ANT-MSG-07", {"i": message.i}) if before.role == message.role else None


@CHECKS.holds("ANT-MSG-06")
def users_begin(opened: Opened) -> Found:
    """The user begins, unless a compaction stands for what was said before."""
    first = opened.messages[0]
    compacted = any(block.type == "compaction" for block in first.blocks[:1])
    yield Broken("ANT-MSG-06") if first.role == "assistant" and not compacted else None


@CHECKS.holds("ANT-MSG-08")
def system_role_is_offered(opened: Opened) -> Found:
    """A model has a system role among the messages."""
    for message in opened.messages:
        if message.role == "system":
            yield None if opened.model.system else Broken("ANT-MSG-08", {"i": message.i})


@CHECKS.holds("ANT-MSG-09")
def system_follows_user(opened: Opened) -> Found:
    """A system message stands right behind what the user said."""
    for at, message in enumerate(opened.merged):
        if message.role == "system":
            lost = at == 0 or opened.merged[at - 1].role != "user"
            told = f"messages.{message.i}: a `system` message must directly follow a `user` message"
            yield Broken("ANT-MSG-09", {"i": message.i}, says=told) if lost else None


@CHECKS.holds("ANT-MSG-03")
def messages_say_something(opened: Opened) -> Found:
    """Only the last message of an assistant may be empty."""
    for message in opened.messages:
        last = message is opened.messages[-1] and message.role == "assistant"
        yield None if message.blocks or last else Broken("ANT-MSG-03", {"i": message.i})


@CHECKS.holds("ANT-CACHE-03")
def marked_text_says_something(opened: Opened) -> Found:
    """A cache mark stands on no empty text."""
    for block in opened.blocks("text"):
        if block.raw.get("cache_control") is not None:
            yield None if block.raw["text"] else Broken("ANT-CACHE-03", block.at)


@CHECKS.holds("ANT-MSG-01")
def texts_are_not_empty(opened: Opened) -> Found:
    """No block of text is empty, in a result neither."""
    for place, text in _texts(opened):
        where = "system" if place.startswith("/system") else "messages"
        told = f"{where}: text content blocks must be non-empty"
        yield None if text else Broken("ANT-MSG-01", says=told, at=place)


def _texts(opened: Opened) -> Iterator[tuple[str, str]]:
    system = opened.body.get("system")
    for at, found in enumerate(system if isinstance(system, list) else []):
        yield f"/system/{at}/text", found["text"]
    for block in opened.blocks("text", "tool_result"):
        if block.type == "text":
            yield f"{block.place}/text", block.raw["text"]
        inner = block.raw.get("content")
        for at, found in enumerate(inner if isinstance(inner, list) else []):
            if found["type"] == "text":
                yield f"{block.place}/content/{at}/text", found["text"]


@CHECKS.holds("ANT-MSG-02")
def messages_are_not_blank(opened: Opened) -> Found:
    """No message is whitespace and nothing else."""
    for message in opened.messages:
        if message.blocks and all(block.type == "text" for block in message.blocks):
            blank = not any(block.raw["text"].strip() for block in message.blocks)
            first = message.blocks[0]
            pointer = first.place if first.plain else f"{first.place}/text"
            yield Broken("ANT-MSG-02", first.at, at=pointer) if blank else None


@CHECKS.holds("ANT-MSG-04")
def users_end(opened: Opened) -> Found:
    """Newer models take no prefill; a paused turn is none."""
    if not opened.paused:
        prefill = opened.continued is not None and not opened.model.prefills
        last = len(opened.messages) - 1
        yield Broken("ANT-MSG-04", at=f"/messages/{last}/role") if prefill else None


@CHECKS.holds("ANT-MSG-05")
def prefills_are_trimmed(opened: Opened) -> Found:
    """A prefill has no space at its end, and goes with no thinking."""
    last = opened.continued
    if last is None or opened.paused:
        return
    at = f"/messages/{len(opened.messages) - 1}/content"
    text = last.blocks[-1].raw.get("text", "") if last.blocks else ""
    if isinstance(text, str) and text != text.rstrip():
        yield Broken("ANT-MSG-05", at=at)
    elif opened.mode in ("enabled", "adaptive"):
        yield Broken("ANT-MSG-05", variant=1, at=at)
    else:
        yield None


@CHECKS.holds("ANT-SRV-06")
def compactions_are_whole(opened: Opened) -> Found:
    """A compaction says something; one of the newer kind is the only one and stands first."""
    newer = opened.has_beta("compact-2026-09-")
    found = list(opened.blocks("compaction"))
    for block in found:
        fault = _compaction_fault(opened, block, len(found)) if newer else ""
        if block.raw.get("content") == "":
            fault = "compaction_content_mismatch"
        told = f"{fault}: messages.{block.i}.content.{block.j}" if fault else ""
        yield Broken("ANT-SRV-06", {**block.at, "code": fault}, says=told) if fault else None


def _compaction_fault(opened: Opened, block: Block, count: int) -> str:
    if count > 1:
        return "compaction_block_ambiguous"
    return "" if block is _first(opened.messages) else "compaction_block_misplaced"


def _first(messages: tuple[Message, ...]) -> Block | None:
    return messages[0].blocks[0] if messages[0].blocks else None


@LENGTH.holds("ANT-MSG-10")
def prompt_fits(opened: Opened) -> Found:
    """What is said fits into the window."""
    window = opened.model.window or opened.request.style.window
    size: Any = prompt_tokens(opened.body)
    yield Broken("ANT-MSG-10", {"n": size, "max": window}) if size > window else None
