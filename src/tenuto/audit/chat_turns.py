"""What can be seen in the messages of a chat request: who speaks when, calls and their answers, parts and pictures."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Iterator
from typing import Any

from tenuto.audit.chat_reading import blank, call_ids, calls, messages, pairs, parts, pictures, text
from tenuto.audit.looking import Broken, Checks, Sent

__all__ = ["TURNS"]

TURNS = Checks()

_NINE = re.compile(r"[a-zA-Z0-9]{9}")
_WEB = re.compile(r"https?://(?:[^/?#]*@)?(\[[^\]]*\]|[^/?#:]*)", re.IGNORECASE)
_NOWHERE = (".invalid", ".test", ".localhost")
_CHAT_PARTS = ("text", "image_url", "input_audio", "file", "video_url", "refusal")
_MISTRAL_KEYS = {
    "system": frozenset(("role", "content")),
    "user": frozenset(("role", "content")),
    "assistant": frozenset(("role", "content", "tool_calls", "prefix")),
    "tool": frozenset(("role", "content", "tool_call_id", "name")),
}
_LETTERS_A_TOKEN = 8
"""No common text has so many: what is longer than this for each token of the window does not fit, whatever it says."""


# --- calls and answers ------------------------------------------------------------------------------------------------


@TURNS.holds("OAC-OAI-01")
def _unanswered(sent: Sent) -> Iterator[Broken]:
    for at, ids in pairs(sent).unanswered.items():
        yield Broken("OAC-OAI-01", {"i": at, "ids": ", ".join(ids)})


@TURNS.holds("OAC-OAI-02")
def _unasked(sent: Sent) -> Iterator[Broken]:
    for at in pairs(sent).strays:
        yield Broken("OAC-OAI-02", {"i": at})


@TURNS.holds("OAC-DS-03")
def _unanswered_deepseek(sent: Sent) -> Iterator[Broken]:
    for at in pairs(sent).unanswered:
        yield Broken("OAC-DS-03", {"i": at})


@TURNS.holds("OAC-DS-04")
def _unasked_deepseek(sent: Sent) -> Iterator[Broken]:
    for at in pairs(sent).strays:
        yield Broken("OAC-DS-04", {"i": at})


@TURNS.holds("OAC-ALI-03")
def _unpaired_qwen(sent: Sent) -> Iterator[Broken]:
    found = pairs(sent)
    for at, ids in found.unanswered.items():
        yield Broken("OAC-ALI-03", {"i": at, "ids": ", ".join(ids)})
    for at in found.strays:
        yield Broken("OAC-ALI-03", {"i": at}, variant=1)


@TURNS.holds("OAC-COH-01")
def _unpaired_or_long(sent: Sent) -> Iterator[Broken]:
    found = pairs(sent)
    for id in (*(id for ids in found.unanswered.values() for id in ids), *found.strays.values()):
        yield Broken("OAC-COH-01", {"id": id}, variant=1)
    if over := _over(sent):
        yield Broken("OAC-COH-01", {"n": over, "max": sent.target.traits.context_window})


@TURNS.holds("OAC-MIS-01")
def _nine_letters(sent: Sent) -> Iterator[Broken]:
    if sent.target.provider.chat.call_id != "nine":
        return
    for at, message in messages(sent):
        for place, call in calls(message):
            if not _nine(call.get("id")):
                yield Broken("OAC-MIS-01", {"i": at, "k": place, "id": call.get("id")})
        if message.get("role") == "tool" and not _nine(message.get("tool_call_id")):
            yield Broken("OAC-MIS-01", {"id": message.get("tool_call_id")}, at=f"/messages/{at}/tool_call_id")


def _nine(id: object) -> bool:
    return isinstance(id, str) and _NINE.fullmatch(id) is not None


@TURNS.holds("OAC-MIS-04")
def _counted(sent: Sent) -> Iterator[Broken]:
    """Mistral counts: as many answers behind an assistant's message as it has calls, and none behind anybody else's."""
    head, open_calls, before = -1, 0, "nobody"
    for at, message in [*messages(sent), (-1, {})]:
        role = message.get("role")
        if role == "tool" and before in ("assistant", "tool"):
            open_calls -= 1
        elif role == "tool":
            yield Broken("OAC-MIS-04", {"i": at, "role": before})
            head, open_calls = -1, -1
        else:
            if head >= 0 and open_calls and (at >= 0 or before == "tool"):  # calls at the very end are OAC-MIS-02's
                yield Broken("OAC-MIS-04", {"i": head}, variant=1)
            head, open_calls = (at, len(calls(message))) if role == "assistant" else (-1, 0)
        before = role if isinstance(role, str) else "nobody"


@TURNS.holds("OAC-OAI-03")
def _long_ids(sent: Sent) -> Iterator[Broken]:
    for at, message in messages(sent):
        for place, call in calls(message):
            id = call.get("id")
            if isinstance(id, str) and len(id) > 40:
                yield Broken("OAC-OAI-03", {"i": at, "k": place, "n": len(id)})


@TURNS.holds("OAC-OAI-04")
def _arguments(sent: Sent) -> Iterator[Broken]:
    for at, message in messages(sent):
        for place, call in calls(message):
            function = call.get("function")
            if isinstance(function, dict) and not isinstance(function.get("arguments", ""), str):
                yield Broken("OAC-OAI-04", {"i": at, "k": place, "kind": _kind(function["arguments"])})


def _kind(value: object) -> str:
    kinds: dict[type, str] = {dict: "an object", list: "an array", bool: "a boolean", int: "an integer"}
    return "null" if value is None else kinds.get(type(value), "a number")


# --- who speaks when --------------------------------------------------------------------------------------------------


@TURNS.holds("OAC-MIS-02")
def _unflagged_end(sent: Sent) -> Iterator[Broken]:
    at, last = _last(sent)
    if last.get("role") == "assistant" and last.get("prefix") is not True:
        yield Broken("OAC-MIS-02", {"i": at})


@TURNS.holds("OAC-PPLX-02")
def _wrong_end_or_long(sent: Sent) -> Iterator[Broken]:
    at, last = _last(sent)
    if last and last.get("role") not in ("user", "tool"):
        yield Broken("OAC-PPLX-02", {"i": at})
    if _over(sent):
        yield Broken("OAC-PPLX-02", variant=1, at="/messages")


def _last(sent: Sent) -> tuple[int, dict[str, Any]]:
    found = sent.body.get("messages")
    if isinstance(found, list) and found and isinstance(found[-1], dict):
        return len(found) - 1, found[-1]
    return -1, {}


@TURNS.holds("OAC-MIS-03")
def _user_behind_tool(sent: Sent) -> Iterator[Broken]:
    before: object = None
    for at, message in messages(sent):
        if before == "tool" and message.get("role") == "user":
            yield Broken("OAC-MIS-03", {"i": at})
        before = message.get("role")


@TURNS.holds("OAC-PPLX-01")
def _no_turns(sent: Sent) -> Iterator[Broken]:
    if not sent.target.provider.chat.alternate:
        return
    behind = {"": ("system", "developer", "user"), "user": ("assistant",), "tool": ("assistant", "tool")}
    before = ""
    for at, message in messages(sent):
        role = message.get("role")
        if role not in behind.get(before, ("user", "tool")):
            yield Broken("OAC-PPLX-01", {"i": at})
        if isinstance(role, str) and (before or role not in ("system", "developer")):
            before = role


@TURNS.holds("OAC-AZ-02")
def _developer(sent: Sent) -> Iterator[Broken]:
    for at, _ in messages(sent, "developer"):
        yield Broken("OAC-AZ-02", {"i": at})


# --- what a message holds ---------------------------------------------------------------------------------------------


@TURNS.holds("OAC-OAI-10")
def _null_content(sent: Sent) -> Iterator[Broken]:
    for at, message in messages(sent, "assistant"):
        held = any(message.get(name) for name in ("tool_calls", "function_call", "refusal", "audio"))
        if message.get("content") is None and not held:
            yield Broken("OAC-OAI-10", {"i": at})


@TURNS.holds("OAC-KIMI-05")
def _odd_messages(sent: Sent) -> Iterator[Broken]:
    for at in pairs(sent).strays:
        yield Broken("OAC-KIMI-05", {"i": at})
    for at, message in messages(sent):
        if message.get("role") == "assistant" and blank(message):
            yield Broken("OAC-KIMI-05", {"i": at}, variant=1)
        for _, url in pictures(message):
            if _WEB.match(url):
                yield Broken("OAC-KIMI-05", {"i": at, "url": url}, variant=2)


@TURNS.holds("OAC-ZAI-01")
def _illegal(sent: Sent) -> Iterator[Broken]:
    """The refusal names no place and no reason: one finding is enough."""
    found = [message for _, message in messages(sent)]
    ids = [id for message in found for id in call_ids(message)]
    unpaired = pairs(sent)
    empty = any(message.get("role") in ("user", "assistant", "system") and blank(message) for message in found)
    nobody = not any(message.get("role") == "user" for message in found)
    if found and (nobody or empty or len(ids) > len(set(ids)) or unpaired.unanswered or unpaired.strays):
        yield Broken("OAC-ZAI-01")


@TURNS.holds("OAC-MIS-05")
def _unknown_keys(sent: Sent) -> Iterator[Broken]:
    for at, message in messages(sent):
        role = message.get("role")
        known = _MISTRAL_KEYS.get(role) if isinstance(role, str) else None
        for key in message:
            if known is not None and key not in known:
                yield Broken("OAC-MIS-05", {"i": at, "key": key})
    if sent.body.get("tools") == []:
        yield Broken("OAC-MIS-05", variant=1, at="/tools")


@TURNS.holds("OAC-DS-05")
def _foreign_parts(sent: Sent) -> Iterator[Broken]:
    for at, message in messages(sent):
        for place, part in parts(message):
            kind = part.get("type")
            if isinstance(kind, str) and kind not in _CHAT_PARTS:
                variant = 0 if kind == "thinking" else 1
                yield Broken("OAC-DS-05", {"i": at, "j": place, "type": kind}, variant=variant)


@TURNS.holds("OAC-OLL-02")
def _fields_without_meaning(sent: Sent) -> Iterator[Broken]:
    for at, message in messages(sent):
        if "reasoning" in message and "reasoning_content" in message:
            yield Broken("OAC-OLL-02", {"i": at})


# --- pictures and lengths ---------------------------------------------------------------------------------------------


@TURNS.holds("OAC-OAI-08")
def _pictures_elsewhere(sent: Sent) -> Iterator[Broken]:
    for at, message in messages(sent, "tool", "assistant"):
        for place, _ in pictures(message):
            yield Broken("OAC-OAI-08", {"i": at, "j": place, "role": message["role"]})


@TURNS.holds("OAC-OAI-14")
def _unreadable_pictures(sent: Sent) -> Iterator[Broken]:
    for at, message in messages(sent):
        for place, url in pictures(message):
            if url[:5].lower() != "data:":
                if _out_of_reach(url):
                    yield Broken("OAC-OAI-14", {"i": at, "j": place, "url": url}, variant=1)
            elif not _is_picture(url):
                yield Broken("OAC-OAI-14", {"i": at, "j": place})


def _is_picture(url: str) -> bool:
    """Look at the first bytes of what a `data:` URL holds."""
    head, _, held = url.partition(",")
    if not head.lower().endswith(";base64"):
        return True  # written out as text: nobody knows what becomes of it
    try:
        first = base64.b64decode(held[:16], validate=True)
    except (binascii.Error, ValueError):
        return False
    return first.startswith((b"\x89PNG", b"\xff\xd8\xff", b"GIF8")) or (first[:4] == b"RIFF" and first[8:] == b"WEBP")


def _out_of_reach(url: str) -> bool:
    """Tell whether an address is none of the web, or one that only this machine can know, or nobody."""
    found = _WEB.match(url)
    if found is None:
        return True
    host = found[1].lower().strip("[]").rstrip(".")
    try:
        return not ipaddress.ip_address(host).is_global
    except ValueError:
        return not host or host == "localhost" or host.endswith(_NOWHERE)


def _over(sent: Sent) -> int:
    """Say by how many tokens at least the messages are too long; 0 if they may fit, or if nobody knows the window."""
    window = sent.target.traits.context_window
    if not window or not sent.may_have(window * _LETTERS_A_TOKEN):
        return 0
    letters = sum(len(text(message)) for _, message in messages(sent))
    return max(0, letters // _LETTERS_A_TOKEN - window)
