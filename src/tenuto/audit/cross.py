"""What can be seen in a request of any dialect before it is sent: traces of another provider, and of what was broken.

Most of it is seen by comparing the request with the replies as they were received. Each such rule has a rule of the
dialect beside it, which says what the provider answers; these say where it comes from.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from tenuto.audit.cross_reading import Called, answers, calls, held_tokens, messages, tokens, tokens_given
from tenuto.audit.dialects import conversation_fields, dialect_for
from tenuto.audit.looking import Broken, Checks, Sent, once
from tenuto.audit.scope import elsewhere
from tenuto.core import jsonio
from tenuto.core.blocks import Reasoning, ToolUse
from tenuto.core.messages import AssistantMessage

__all__ = ["CHECKS", "UNSEEN"]

CHECKS = Checks()
UNSEEN: dict[str, str] = {}
"""Rules that no request shows to be broken, each with the reason."""

_UNCHANGED = re.compile(r"[a-zA-Z0-9+/=_.:|-]*")
"""What tokens are made of; a filter that hides secrets puts other signs in their place."""
_ALIKE = 8
"""So many characters at either end tell that two tokens were the same once."""


def _called(given: Iterable[AssistantMessage]) -> dict[str, ToolUse]:
    return {block.id: block for message in given for block in message.blocks if isinstance(block, ToolUse)}


@once
def _all_called(sent: Sent) -> dict[str, ToolUse]:
    return _called(sent.given)


@once
def _parted(sent: Sent) -> tuple[list[AssistantMessage], list[AssistantMessage]]:
    """Part the replies into those of whom the request goes to, and those of others."""
    foreign = elsewhere(sent)
    if not any(foreign):
        return list(sent.given), []
    own = [message for message, other in zip(sent.given, foreign, strict=True) if not other]
    return own, [message for message, other in zip(sent.given, foreign, strict=True) if other]


# --- what another provider gave ---------------------------------------------------------------------------------------


@CHECKS.holds("XP-01")
def foreign_ids(sent: Sent) -> Iterator[Broken]:
    """The id of a call that another gave fits here."""
    theirs = _called(_parted(sent)[1])
    if not theirs:
        return
    accepts = dialect_for(sent.target.dialect).accepts_call_id
    for pointer, id in (*((call.pointer, call.id) for call in calls(sent)), *answers(sent)):
        if id in theirs and not accepts(sent.target.provider, id):
            yield Broken("XP-01", at=pointer)


@CHECKS.holds("XP-02")
def foreign_tokens(sent: Sent) -> Iterator[Broken]:
    """A token goes back to whom gave it, and to nobody else."""
    own, others = _parted(sent)
    if not others:
        return
    theirs = set().union(*map(tokens_given, others)).difference(*map(tokens_given, own))
    if not theirs.isdisjoint(held_tokens(sent)):
        yield from (Broken("XP-02", at=pointer) for pointer, token in tokens(sent) if token in theirs)


@CHECKS.holds("XP-03")
def no_reasoning(sent: Sent) -> Iterator[Broken]:
    """Where calls want their reasoning back, those of others have an empty one."""
    traits, switches = sent.target.traits, sent.target.provider.chat
    wanted = switches.empty_reasoning and (traits.passback or switches.passback) != "never"
    has_field = dialect_for(sent.target.dialect).has_reasoning_field
    if not has_field or not wanted or not sent.model or traits.thinking == ("none",):
        return
    toggle = sent.body.get("thinking")
    if isinstance(toggle, dict) and toggle.get("type") == "disabled":
        return
    strange = {call.i for call in _strange_calls(sent)}
    for i, _, message in messages(sent):
        if i in strange and message.get(switches.reasoning_field) is None:
            yield Broken("XP-03", {"i": i})


def _strange_calls(sent: Sent) -> list[Called]:
    """Return the calls that whom the request goes to did not make, if somebody else is known to have spoken."""
    own, others = _parted(sent)
    if not others:
        return []
    made = _called(own)
    names = {call.name for call in made.values()}
    return [call for call in calls(sent) if (call.id not in made if call.id else call.name not in names)]


@CHECKS.holds("XP-04")
def no_stand_in(sent: Sent) -> Iterator[Broken]:
    """The first call of each step of the current turn is signed, if only with the stand-in."""
    levels = "level" in sent.target.traits.thinking and "budget" not in sent.target.traits.thinking
    if not dialect_for(sent.target.dialect).signs_calls or not levels or not sent.model:
        return
    strange = {call.i: call for call in reversed(_strange_calls(sent))}
    every = messages(sent) if strange else []
    start = max((i for i, _, content in every if content.get("role") != "model" and _says(content)), default=-1)
    begun = False
    for i, _, content in every:
        if content.get("role") != "model":
            begun = False
            continue
        first = next((part for part in _parts(content) if isinstance(part.get("functionCall"), dict)), None)
        if first is not None and not begun:
            begun = True
            if i > start and i in strange and not first.get("thoughtSignature"):
                yield Broken("XP-04", {"i": i})


def _parts(content: dict[str, Any]) -> list[dict[str, Any]]:
    parts = content.get("parts")
    return [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []


def _says(content: dict[str, Any]) -> bool:
    parts = _parts(content)
    return any("text" in part for part in parts) and not any("functionResponse" in part for part in parts)


@CHECKS.holds("XP-05")
def made_for_another(sent: Sent) -> Iterator[Broken]:
    """The conversation stands where this dialect has it, not where another one does."""
    own = dialect_for(sent.target.dialect).conversation
    if own not in sent.body and not conversation_fields().isdisjoint(sent.body):
        yield Broken("XP-05")


# --- what was broken on the way ---------------------------------------------------------------------------------------


@CHECKS.holds("XP-06")
def hidden(sent: Sent) -> Iterator[Broken]:
    """A token that begins or ends like one that was given has no signs in it that no token has."""
    given = set().union(*map(tokens_given, sent.given))
    odd = {token for token in held_tokens(sent) - given if not _UNCHANGED.fullmatch(token)} if given else ()
    if odd:
        ends = {token[:_ALIKE] for token in given} | {token[-_ALIKE:] for token in given}
        alike = {token for token in odd if {token[:_ALIKE], token[-_ALIKE:]} & ends}
        yield from (Broken("XP-06", at=pointer) for pointer, token in tokens(sent) if token in alike)


@CHECKS.holds("XP-07")
def broken_off(sent: Sent) -> Iterator[Broken]:
    """Of a turn that was broken off, no call is left open or half written, and no thought is unsigned."""
    cut = [message for message in sent.given if message.incomplete]
    if not cut:
        return
    made = _called(cut)
    answered = {id for _, id in answers(sent)}
    for call in calls(sent):
        half = made.get(call.id)
        if half is not None and (call.id not in answered or (half.args_error and call.written == half.args)):
            yield Broken("XP-07", at=call.pointer)
    thought = {block.text for message in cut for block in message.blocks if isinstance(block, Reasoning)}
    for _, place, message in messages(sent):
        content = message.get("content")
        for j, block in enumerate(content if isinstance(content, list) else ()):
            if _unsigned(block) and block["thinking"] in thought:
                yield Broken("XP-07", at=f"{place}/content/{j}")


def _unsigned(block: object) -> bool:
    named = isinstance(block, dict) and block.get("type") == "thinking" and isinstance(block.get("thinking"), str)
    return isinstance(block, dict) and named and not block.get("signature")


@CHECKS.holds("XP-08")
def cut_between(sent: Sent) -> Iterator[Broken]:
    """The answer to a call that was given does not stand there without it, unless the provider keeps the call."""
    if not sent.given or any(sent.body.get(name) for name in ("previous_response_id", "conversation")):
        return
    known, there = _all_called(sent), {call.id for call in calls(sent)}
    yield from (Broken("XP-08", at=pointer) for pointer, id in answers(sent) if id in known and id not in there)


@CHECKS.holds("XP-09")
def written_anew(sent: Sent) -> Iterator[Broken]:
    """Arguments go back as they were written, also where others would mean the same."""
    made = _all_called(sent)
    for call in calls(sent) if made else ():
        was = made.get(call.id)
        if was is not None and was.kind == "function" and not was.args_error and _anew(was.args, call.written):
            yield Broken("XP-09", at=call.pointer)


def _anew(was: str, now: object) -> bool:
    """Tell whether arguments mean the same and are written otherwise; of objects only the order can be seen."""
    if was == now or not was:
        return False
    try:
        meant = jsonio.parse(was)
        told = jsonio.parse(now) if isinstance(now, str) else now
    except jsonio.JsonError:
        return False
    if told != meant:
        return False
    return isinstance(now, str) or repr(now) != repr(meant)  # what is equal has another repr if its order differs
