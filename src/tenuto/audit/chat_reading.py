"""Reading a request of the chat dialect that may hold anything: whatever is not as it should be counts as absent."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, TypeAlias

import msgspec

from tenuto.audit.looking import Sent, once
from tenuto.core.rule_rows.holds_chat import CASES

__all__ = [
    "Fields",
    "Pairs",
    "asked_to_think",
    "blank",
    "call_ids",
    "calls",
    "case",
    "forced",
    "listed",
    "messages",
    "pairs",
    "parts",
    "pictures",
    "since_last_user",
    "text",
]

Fields: TypeAlias = dict[str, Any]


class Pairs(msgspec.Struct):
    """Which calls and answers do not belong together.

    `unanswered` are the ids of calls without an answer right behind them, in order, by the place of their message; `strays` are
    the places of answers to nothing. An answer that only comes late is no stray: its call is unanswered.
    """

    unanswered: dict[int, dict[str, None]]
    strays: dict[int, str]


@cache
def _cases() -> dict[str, tuple[str, ...]]:
    lines = (line.partition(" || ") for line in CASES.splitlines() if line)
    return {name: tuple(patterns.split()) for name, _, patterns in lines}


def case(sent: Sent, name: str) -> bool:
    """Tell whether a case of a rule (`OAC-XAI-02 none`) is this model's."""
    named = f"{sent.row}/{sent.model}"
    return any(fnmatchcase(named, pattern) for pattern in _cases()[name])


def listed(value: object) -> list[tuple[int, Fields]]:
    """Return the objects of a list, each with its place."""
    return [(at, item) for at, item in enumerate(value) if isinstance(item, dict)] if isinstance(value, list) else []


def messages(sent: Sent, *roles: str) -> list[tuple[int, Fields]]:
    """Return the messages, each with its place; only those of some roles, if any are named."""
    every = _messages(sent)
    return [(at, message) for at, message in every if message.get("role") in roles] if roles else every


@once
def _messages(sent: Sent) -> list[tuple[int, Fields]]:
    return listed(sent.body.get("messages"))


def calls(message: Fields) -> list[tuple[int, Fields]]:
    """Return the calls of a message, each with its place."""
    return listed(message.get("tool_calls"))


def call_ids(message: Fields) -> list[str]:
    """Return the ids of the calls of a message."""
    return [call["id"] for _, call in calls(message) if isinstance(call.get("id"), str)]


def parts(message: Fields) -> list[tuple[int, Fields]]:
    """Return the parts of a message's content, each with its place; none where it is a text."""
    return listed(message.get("content"))


def pictures(message: Fields) -> Iterator[tuple[int, str]]:
    """Yield the address of each picture in a message, with the place of its part."""
    for at, part in parts(message):
        if part.get("type") == "image_url":
            shown = part.get("image_url")
            url = shown.get("url") if isinstance(shown, dict) else shown
            yield at, url if isinstance(url, str) else ""


def text(message: Fields) -> str:
    """Return what a message says, its parts joined."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    return "".join(part["text"] for _, part in parts(message) if isinstance(part.get("text"), str))


def blank(message: Fields) -> bool:
    """Tell whether a message holds nothing: no text, no part but empty texts, no call and no thought."""
    if text(message) or any(part.get("type") != "text" for _, part in parts(message)):
        return False
    return not message.get("tool_calls") and not message.get("reasoning_content")


def since_last_user(sent: Sent) -> list[tuple[int, Fields]]:
    """Return the assistant's messages behind the last of the user's: the turn that goes on."""
    last = max((at for at, _ in messages(sent, "user")), default=-1)
    return [(at, message) for at, message in messages(sent, "assistant") if at > last]


@once
def pairs(sent: Sent) -> Pairs:
    """Find the calls without an answer, and the answers without a call."""
    found = Pairs({}, {})
    head, asked, waiting = -1, frozenset[str](), dict[str, None]()
    for at, message in [*messages(sent), (-1, {})]:
        role, id = message.get("role"), message.get("tool_call_id")
        id = id if isinstance(id, str) else ""
        if role == "tool":
            if id not in asked and id not in found.unanswered.get(head, {}):
                found.strays[at] = id
            waiting.pop(id, None)
            continue
        if waiting:
            found.unanswered[head] = waiting
        asked, waiting = frozenset(), {}
        if role == "assistant":
            head, waiting = at, dict.fromkeys(call_ids(message))
            asked = frozenset(waiting)
    return found


def forced(sent: Sent) -> bool:
    """Tell whether the model has to call a tool, or a certain one; there need not be any."""
    choice = sent.body.get("tool_choice")
    if isinstance(choice, dict):
        allowed = choice.get("allowed_tools")
        return choice.get("type") != "allowed_tools" or (
            isinstance(allowed, dict) and allowed.get("mode") == "required"
        )
    return choice in ("required", "any")


def asked_to_think(sent: Sent) -> bool | None:
    """Tell whether the request turns thinking on or off; None if it says nothing of it."""
    body = sent.body
    thinking, template, reasoning = (
        value if isinstance(value, dict) else {}
        for value in (body.get("thinking"), body.get("chat_template_kwargs"), body.get("reasoning"))
    )
    toggles = (body.get("enable_thinking"), template.get("enable_thinking"), reasoning.get("enabled"))
    toggle = next((value for value in toggles if isinstance(value, bool)), None)
    if toggle is not None:
        return toggle
    words = (thinking.get("type"), reasoning.get("effort"), body.get("reasoning_effort"))
    word = next((value for value in words if isinstance(value, str)), None)
    if word is not None:
        return word not in ("disabled", "none")
    return True if reasoning.get("max_tokens") else None
