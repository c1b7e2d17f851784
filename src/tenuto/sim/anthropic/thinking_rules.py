"""Rules of reasoning that comes back: its form, its token, its place, and what it is bound to."""

from __future__ import annotations

import re

from tenuto.sim.anthropic.fates import fates
from tenuto.sim.anthropic.opened import REASONING, Message, Opened
from tenuto.sim.anthropic.request_rules import Found
from tenuto.sim.anthropic.sealing import id_kind
from tenuto.sim.judging import Broken, Checks

__all__ = ["CHECKS"]

CHECKS = Checks()
_TAGS = re.compile(r"</?think(?:ing)?>")


def _told(opened: Opened, rule: str, type: str = "") -> Found:
    """Tell of every block of reasoning whether it keeps a rule, or only of those of one type."""
    for fate in fates(opened):
        if type in ("", fate.block.type):
            yield Broken(rule, fate.block.at) if fate.rule == rule else None


def _told_if_bound(opened: Opened, rule: str) -> Found:
    return _told(opened, rule) if opened.model.bound else ()


@CHECKS.holds("ANT-THINK-18")
def thoughts_are_not_marked(opened: Opened) -> Found:
    """A thought carries no cache mark."""
    for block in opened.blocks(*REASONING):
        fields = {**block.at, "type": block.type}
        yield Broken("ANT-THINK-18", fields) if "cache_control" in block.raw else None


@CHECKS.holds("ANT-THINK-01")
def thoughts_are_signed(opened: Opened) -> Found:
    """A thought has a signature."""
    return _told(opened, "ANT-THINK-01", "thinking")


@CHECKS.holds("ANT-THINK-03")
def thoughts_have_a_text(opened: Opened) -> Found:
    """A thought has a text, be it empty."""
    return _told(opened, "ANT-THINK-03", "thinking")


@CHECKS.holds("ANT-THINK-14")
def hidden_thoughts_are_whole(opened: Opened) -> Found:
    """A hidden thought comes back as it went."""
    for fate in fates(opened):
        if fate.block.type == "redacted_thinking":
            altered = int("data" in fate.block.raw)
            broken = fate.rule == "ANT-THINK-14"
            yield Broken("ANT-THINK-14", fate.block.at, variant=altered) if broken else None


@CHECKS.holds("ANT-THINK-05")
def tool_turns_begin_with_a_thought(opened: Opened) -> Found:
    """With a budget, the turn whose calls are being answered begins with a thought."""
    opening = _opening(opened)
    if opened.mode != "enabled" or opening is None:
        return
    first = opening.blocks[0]
    kinds = {id_kind(opened.request.seals, block.raw["id"]) for block in opening.of("tool_use")}
    kept = first.type in REASONING or "silent" in kinds  # a model told not to think by its script has nothing to bring
    yield None if kept else Broken("ANT-THINK-05", {"i": first.i, "type": first.type})


def _opening(opened: Opened) -> Message | None:
    """Return the assistant message that opens the run of calls and results at the end, if there is one."""
    spoken = [message for message in opened.merged if message.role != "system"]
    found = None
    for at in range(len(spoken) - 1, 0, -2):
        answer, call = spoken[at], spoken[at - 1]
        results = answer.of("tool_result")
        if answer.role != "user" or call.role != "assistant" or not results:
            break
        if found and len(results) < len(answer.blocks):  # the user spoke: a turn of its own
            break
        found = call
    return found if found and found.blocks else None


@CHECKS.holds("ANT-THINK-06")
def prefills_have_no_thoughts(opened: Opened) -> Found:
    """Without thinking, a turn that goes on has no thoughts in it."""
    last = opened.continued
    if last is None or opened.thinks or opened.mode == "between_tools":
        return
    thoughts = last.of(*REASONING)
    yield Broken("ANT-THINK-06", thoughts[0].at) if thoughts else None


@CHECKS.holds("ANT-THINK-07")
def thoughts_lead_somewhere(opened: Opened) -> Found:
    """A message does not end with a thought."""
    for _, message in opened.assistants():
        if message.thinks:
            last = message.blocks[-1]
            at = f"/messages/{last.i}/content/{last.j}"
            yield Broken("ANT-THINK-07", {"i": last.i}, at=at) if last.type == "thinking" else None


@CHECKS.holds("ANT-THINK-02")
def signatures_are_whole(opened: Opened) -> Found:
    """A signature is one that was given for this thought."""
    return _told(opened, "ANT-THINK-02", "thinking")


@CHECKS.holds("ANT-THINK-13")
def signatures_stay_on_their_platform(opened: Opened) -> Found:
    """A signature was given by this platform."""
    return _told(opened, "ANT-THINK-13")


@CHECKS.holds("ANT-THINK-16")
def thoughts_stay_apart(opened: Opened) -> Found:
    """A thought was neither joined with another nor cut in two."""
    return _told(opened, "ANT-THINK-16", "thinking")


@CHECKS.holds("ANT-THINK-04")
def latest_thoughts_stay_as_they_are(opened: Opened) -> Found:
    """In the latest turn, thoughts have their text and their place."""
    for fate in fates(opened):
        if fate.latest:
            yield Broken("ANT-THINK-04", fate.block.at) if fate.rule == "ANT-THINK-04" else None


@CHECKS.holds("ANT-THINK-09")
def bound_thoughts_stay_together(opened: Opened) -> Found:
    """A bound thought has those that came before it in its turn."""
    return _told_if_bound(opened, "ANT-THINK-09")


@CHECKS.holds("ANT-THINK-08")
def bound_thoughts_keep_their_prefix(opened: Opened) -> Found:
    """A bound thought stands behind what it was thought behind."""
    return _told_if_bound(opened, "ANT-THINK-08")


@CHECKS.holds("ANT-THINK-10")
def thoughts_are_read_by_few(opened: Opened) -> Found:
    """A thought that the model cannot read is dropped."""
    return _told(opened, "ANT-THINK-10")


@CHECKS.holds("ANT-THINK-11")
def thoughts_belong_to_an_account(opened: Opened) -> Found:
    """A bound thought of another account is dropped."""
    return _told_if_bound(opened, "ANT-THINK-11")


@CHECKS.holds("ANT-THINK-12")
def unbound_thoughts_are_dropped(opened: Opened) -> Found:
    """A bound thought behind another prefix is dropped, where that is asked for."""
    return _told_if_bound(opened, "ANT-THINK-12")


@CHECKS.holds("ANT-THINK-15")
def thoughts_come_back(opened: Opened) -> Found:
    """A turn that had thoughts still has them."""
    for _, message in opened.assistants():
        kinds = {id_kind(opened.request.seals, block.raw["id"]) for block in message.of("tool_use")}
        if "thought" in kinds:
            yield None if message.thinks else Broken("ANT-THINK-15", {"i": message.i})


@CHECKS.holds("ANT-THINK-17")
def thoughts_are_no_text(opened: Opened) -> Found:
    """A thought does not come back as text in tags."""
    for message in opened.messages:
        for block in message.of("text") if message.role == "assistant" else ():
            yield Broken("ANT-THINK-17", block.at) if _TAGS.search(block.raw["text"]) else None


@CHECKS.holds("ANT-THINK-19")
def deepseek_wants_thoughts(opened: Opened) -> Found:
    """Where DeepSeek speaks the dialect and thinks, every assistant message has its thought."""
    if opened.signs or opened.mode == "disabled":
        return
    for message in opened.messages:
        if message.role == "assistant":
            yield None if message.thinks else Broken("ANT-THINK-19", {"i": message.i})
