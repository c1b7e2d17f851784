"""What can be seen in a chat request of thoughts that go back: in their field, with their tokens, as they came.

Where the replies are known, a message of the request is taken for the reply that made its calls, or that says the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from tenuto.audit.chat_reading import (
    Fields,
    asked_to_think,
    call_ids,
    calls,
    case,
    listed,
    messages,
    pairs,
    parts,
    since_last_user,
    text,
)
from tenuto.audit.looking import Broken, Checks, Sent
from tenuto.core import jsonio
from tenuto.core.blocks import ChatMeta, Reasoning
from tenuto.core.messages import AssistantMessage

__all__ = ["THOUGHTS"]

THOUGHTS = Checks()
T = TypeVar("T")

_FORMATS = ("anthropic-claude-v1", "google-gemini-v1", "openai-responses-v1")
_FIELDS = ("reasoning_content", "reasoning", "reasoning_details")


# --- in their field ---------------------------------------------------------------------------------------------------


def _silent(sent: Sent, *fields: str) -> Iterator[int]:
    """Yield the places of messages with calls that have none of these keys."""
    for at, message in messages(sent, "assistant"):
        if message.get("tool_calls") and not any(field in message for field in fields):
            yield at


def _thinks(sent: Sent, id: str) -> bool:
    asked = asked_to_think(sent)
    return asked if asked is not None else case(sent, f"{id} thinks-by-default")


@THOUGHTS.holds("OAC-DS-01")
def _left_out_deepseek(sent: Sent) -> Iterator[Broken]:
    if _thinks(sent, "OAC-DS-01"):
        for at in _silent(sent, "reasoning_content"):
            yield Broken("OAC-DS-01", {"i": at})


@THOUGHTS.holds("OAC-KIMI-01")
def _left_out_kimi(sent: Sent) -> Iterator[Broken]:
    if _thinks(sent, "OAC-KIMI-01"):
        for at in _silent(sent, "reasoning_content"):
            yield Broken("OAC-KIMI-01", {"i": at})


@THOUGHTS.holds("OAC-OR-02")
def _refused_behind(sent: Sent) -> Iterator[Broken]:
    found = pairs(sent)
    for at in (*found.unanswered, *found.strays):
        yield Broken("OAC-OR-02", {"i": at})
    if case(sent, "OAC-OR-02 reasoning-back") and _thinks(sent, "OAC-OR-02"):
        for at in _silent(sent, *_FIELDS):
            yield Broken("OAC-OR-02", {"i": at})


@THOUGHTS.holds("OAC-GROQ-01")
def _wrong_word(sent: Sent) -> Iterator[Broken]:
    for at, message in messages(sent, "assistant"):
        if "reasoning_content" in message:
            yield Broken("OAC-GROQ-01", {"i": at})


@THOUGHTS.holds("OAC-GROQ-02")
def _no_reasoning_there(sent: Sent) -> Iterator[Broken]:
    for at, message in messages(sent):
        if "reasoning" in message:
            yield Broken("OAC-GROQ-02", {"i": at})
    if "reasoning" in sent.body:
        yield Broken("OAC-GROQ-02", variant=1, at="/reasoning")


@THOUGHTS.holds("OAC-OAI-16")
def _nowhere_to_go(sent: Sent) -> Iterator[Broken]:
    word = sent.body.get("reasoning_effort")
    effort = word if isinstance(word, str) else sent.target.traits.effort_default
    thinks = {"effort", "always"} & set(sent.target.traits.thinking)
    if thinks and effort != "none":
        for at, message in since_last_user(sent):
            if message.get("tool_calls"):
                yield Broken("OAC-OAI-16", {"i": at})


# --- compared with what was given -------------------------------------------------------------------------------------


class _Given(Generic[T]):
    """How the replies of this provider looked, by their calls, or by what they say where they have none.

    Several replies may say the same, or have calls of one name: a message is any of them.
    """

    def __init__(self, sent: Sent, look: Callable[[AssistantMessage], T]) -> None:
        self.looks: dict[str, set[T]] = {}
        for reply in _own(sent):
            for key in _keys([call.id for call in reply.tool_calls()], str(reply)):
                self.looks.setdefault(key, set()).add(look(reply))

    def of(self, message: Fields) -> set[T] | None:
        """Return how the reply may have looked that a message sends back; None if it is none of the replies."""
        keys = _keys(call_ids(message), text(message))
        return next((self.looks[key] for key in keys if key in self.looks), None)


def _keys(ids: list[str], said: str) -> list[str]:
    return [f"call {id}" for id in ids] or [f"text {said}"]


def _own(sent: Sent) -> Iterator[AssistantMessage]:
    """Yield the replies that came from whom this goes to."""
    row, target = sent.target.provider, sent.target
    for reply in sent.given:
        origin = reply.origin
        if origin is None:
            yield reply
            continue
        same = (origin.provider, origin.dialect) == (row.name, target.dialect)
        part = not row.plays or origin.model.partition("/")[0] == sent.row  # a simulator has many
        if same and part and not (origin.account and target.account and origin.account != target.account):
            yield reply


def _thoughts(reply: AssistantMessage) -> list[tuple[str, ChatMeta]]:
    found = [(block.text, block.meta) for block in reply.blocks if isinstance(block, Reasoning)]
    return [(told, meta) for told, meta in found if isinstance(meta, ChatMeta)]


def _told(reply: AssistantMessage) -> str:
    return "".join(told for told, _ in _thoughts(reply))


@THOUGHTS.holds("OAC-MIS-06")
def _chunks(sent: Sent) -> Iterator[Broken]:
    given = _Given(sent, lambda reply: tuple((told, meta.signature) for told, meta in _thoughts(reply)))
    for at, message in messages(sent, "assistant") if given.looks else ():
        held = tuple(_chunk(part) for _, part in parts(message) if part.get("type") == "thinking")
        if held not in (given.of(message) or {held}):
            yield Broken("OAC-MIS-06", {"i": at})


def _chunk(part: Fields) -> tuple[str, str]:
    """Return the text of a thinking part, and its signature."""
    told = part.get("thinking")
    if isinstance(told, list):
        told = "".join(piece["text"] for _, piece in listed(told) if isinstance(piece.get("text"), str))
    signature = part.get("signature")
    return told if isinstance(told, str) else "", signature if isinstance(signature, str) else ""


@THOUGHTS.holds("OAC-ZAI-02")
def _left_out_glm(sent: Sent) -> Iterator[Broken]:
    thinking = sent.body.get("thinking")
    every = isinstance(thinking, dict) and thinking.get("clear_thinking") is False
    if asked_to_think(sent) is False:
        return
    loop = {at for at, message in since_last_user(sent) if message.get("tool_calls")}
    given = _Given(sent, _told)
    for at, message in messages(sent, "assistant") if given.looks else ():
        held = message.get("reasoning_content")
        held = held if isinstance(held, str) else ""
        if (every or at in loop) and held not in (given.of(message) or {held}):
            yield Broken("OAC-ZAI-02", {"i": at})


@THOUGHTS.holds("OAC-MM-01")
def _left_out_minimax(sent: Sent) -> Iterator[Broken]:
    given = _Given(sent, lambda reply: bool(_told(reply)))
    for at, message in messages(sent, "assistant") if given.looks else ():
        silent = not any(message.get(field) for field in _FIELDS) and "<think>" not in text(message)
        if message.get("tool_calls") and silent and given.of(message) == {True}:
            yield Broken("OAC-MM-01", {"i": at})


# --- OpenRouter's details ---------------------------------------------------------------------------------------------


@THOUGHTS.holds("OAC-OR-04")
def _details(sent: Sent) -> Iterator[Broken]:
    turn = {at for at, _ in since_last_user(sent)} if case(sent, "OAC-OR-04 signed-calls") else set()
    own = next((format for format in _FORMATS if case(sent, f"OAC-OR-04 {format}")), "")
    ledger = _Ledger(sent)
    seen: set[str] = set()
    for at, message in messages(sent, "assistant"):
        details = [detail for _, detail in listed(message.get("reasoning_details"))]
        unsigned = at in turn and bool(calls(message)) and not _tokens(details)
        ids = [id for id in (detail.get("id") for detail in details if detail.get("data")) if isinstance(id, str)]
        twice = own == _FORMATS[2] and not seen.isdisjoint(ids)
        seen.update(ids)
        if unsigned or twice or any(_odd(detail, own) for detail in details) or ledger.differs(message, details):
            yield Broken("OAC-OR-04", {"i": at})


def _tokens(details: list[Fields]) -> list[str]:
    held = (detail.get(name) for detail in details for name in ("signature", "data"))
    return [token for token in held if isinstance(token, str) and token]


def _odd(detail: Fields, own: str) -> bool:
    """Tell whether a detail is another family's, or a thought of Claude's that lost its signature."""
    format = detail.get("format")
    if own and format in _FORMATS and format != own:
        return True
    return format == _FORMATS[0] and detail.get("type") == "reasoning.text" and not detail.get("signature")


class _Ledger:
    """The details that were given, whole and token by token."""

    def __init__(self, sent: Sent) -> None:
        self.known = bool(sent.given)
        self.given = _Given(sent, lambda reply: _spelt(_given_details(reply)))
        self.tokens = {token for reply in _own(sent) for token in _tokens(_given_details(reply))}

    def differs(self, message: Fields, details: list[Fields]) -> bool:
        """Tell whether details go back otherwise than they came. All of them may stay away."""
        if not self.known or not details:
            return False
        spelt = _spelt(details)
        return not self.tokens.issuperset(_tokens(details)) or spelt not in (self.given.of(message) or {spelt})


def _given_details(reply: AssistantMessage) -> list[Fields]:
    found: list[Any] = []
    for _, meta in _thoughts(reply):
        if meta.details.startswith("[") and not jsonio.problem(meta.details):
            found += jsonio.parse(meta.details)
    return [detail for detail in found if isinstance(detail, dict)]


def _spelt(details: list[Fields]) -> str:
    """Write details in one form. What is null says the same as nothing."""
    plain = [{name: value for name, value in detail.items() if value is not None} for detail in details]
    return json.dumps(plain, sort_keys=True)
