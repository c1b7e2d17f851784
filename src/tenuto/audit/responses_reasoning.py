"""Reasoning in a Responses request: its ids and its neighbours, its ciphertext, its shape.

The provider remembers, by ids and in the ciphertext, what it gave and in which order. What comes back is compared with
the replies as they were received; where nothing is known of them, only what is wrong in any case is told.
"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from tenuto.audit.looking import Broken, Checks, Sent, once
from tenuto.audit.responses_ledger import CALLS, Given, Item, items, ledger, stored, word
from tenuto.core.rule_rows.holds_responses import ALL_TURNS

__all__ = ["CHECKS"]

CHECKS = Checks()

_SEALED = ("reasoning", "compaction")
_REFERENCE = "item_reference"
_SHOWN = 4
_LONGEST_ID = 64


# --- shape ------------------------------------------------------------------------------------------------------------


@once
def _thoughts(sent: Sent) -> list[Item]:
    return [item for item in items(sent) if item.kind == "reasoning"]


@CHECKS.holds("OAR-REAS-06")
def no_summary(sent: Sent) -> Iterator[Broken]:
    """There is a summary, if only an empty one."""
    for item in _thoughts(sent):
        if "summary" not in item.fields:
            yield Broken("OAR-REAS-06", {"i": item.i})


@CHECKS.holds("OAR-REAS-07")
def status(sent: Sent) -> Iterator[Broken]:
    """Only replies say how far reasoning has come."""
    for item in _thoughts(sent):
        if "status" in item.fields:
            yield Broken("OAR-REAS-07", {"i": item.i})


@CHECKS.holds("OAR-XAI-02")
def undecodable(sent: Sent) -> Iterator[Broken]:
    """Sealed reasoning has a summary, and no content that is null."""
    for item in _thoughts(sent):
        if item.blob and ("summary" not in item.fields or item.fields.get("content", ()) is None):
            yield Broken("OAR-XAI-02", {"i": item.i})


@CHECKS.holds("OAR-REAS-09")
def nameless(sent: Sent) -> Iterator[Broken]:
    """Sealed reasoning without an id is taken."""
    for item in _thoughts(sent):
        if item.blob and item.fields.get("id") is None:
            yield Broken("OAR-REAS-09", {"i": item.i})


@CHECKS.holds("OAR-REAS-11")
def passed_over(sent: Sent) -> Iterator[Broken]:
    """Reasoning of earlier turns is read only where all turns are."""
    traits, told = sent.target.traits, sent.body.get("reasoning")
    context = word(told, "context") if isinstance(told, dict) else ""
    if context in ("", "auto") and traits.known and traits.thinking != ("none",):
        named = f"{sent.row}/{sent.model}"
        context = "all_turns" if any(fnmatchcase(named, one) for one in ALL_TURNS) else "current_turn"
    if context == "current_turn":
        last = max((item.i for item in items(sent) if item.role == "user"), default=-1)
        yield from (Broken("OAR-REAS-11", {"i": item.i}) for item in _thoughts(sent) if item.i < last)


@CHECKS.holds("OAR-DS-01")
def calls_inside(sent: Sent) -> Iterator[Broken]:
    """Where calls are moved to the end of their turn, they are best sent there."""
    if not sent.target.provider.responses.calls_last:
        return
    calls: list[int] = []
    for item in items(sent):
        if item.kind in CALLS:
            calls.append(item.i)
            continue
        if item.role == "assistant" or item.kind == "reasoning":
            yield from (Broken("OAR-DS-01", {"i": at}) for at in calls)
        calls.clear()


# --- neighbours -------------------------------------------------------------------------------------------------------


@once
def _without_reasoning(sent: Sent) -> list[tuple[Item, Given]]:
    """Return the items that have their id, and not the reasoning that they came directly after.

    What is stored may hold it; a model that does not reason asks for none.
    """
    if not sent.given or stored(sent) or sent.target.traits.thinking == ("none",):
        return []
    given = ledger(sent)
    found: list[tuple[Item, Given]] = []
    seen: set[str] = set()
    for item in items(sent):
        one = given.own(item.id)
        thought = given.before(one) if one is not None and item.kind != _REFERENCE else None
        tokens = {thought.id, thought.blob} - {""} if thought is not None and thought.type == "reasoning" else set()
        if thought is not None and tokens and not tokens & seen:
            found.append((item, thought))
        seen |= {item.id, item.blob}
    return found


@CHECKS.holds("OAR-REAS-01")
def call_without_reasoning(sent: Sent) -> Iterator[Broken]:
    """A call that has its id has its reasoning before it; so has every other item but a message."""
    for item, thought in _without_reasoning(sent):
        if item.kind != "message":
            told = {"i": item.i, "fc_id": item.id, "type": item.kind, "rs_id": thought.id}
            yield Broken("OAR-REAS-01", told, variant=1)


@CHECKS.holds("OAR-REAS-02")
def message_without_reasoning(sent: Sent) -> Iterator[Broken]:
    """A message that has its id has its reasoning before it."""
    for item, thought in _without_reasoning(sent):
        if item.kind == "message":
            yield Broken("OAR-REAS-02", {"i": item.i, "msg_id": item.id, "rs_id": thought.id})


@CHECKS.holds("OAR-REAS-03")
def without_follower(sent: Sent) -> Iterator[Broken]:
    """Behind reasoning with an id stands what followed it. The user, a tool and the end never do."""
    given = ledger(sent)
    every = items(sent)
    for at, item in enumerate(every):
        id = item.id
        if item.kind != "reasoning" or not id:
            continue
        after = every[at + 1] if at + 1 < len(every) else None
        one = given.own(id)
        if after is None or _from_outside(after) or (one is not None and not _is(after, given.after(one))):
            yield Broken("OAR-REAS-03", {"i": item.i, "rs_id": id})


def _from_outside(item: Item) -> bool:
    return item.role in ("user", "system", "developer") or item.kind in CALLS.values()


def _is(item: Item, one: Given | None) -> bool:
    """Tell whether an item is the one that was given; without its id, it is known by its kind and its call."""
    if one is None:
        return False
    if item.id and one.id:
        return item.id == one.id
    if item.kind != one.type or (one.type == "message" and item.role != "assistant"):
        return False
    if one.type == "reasoning":
        return not one.blob or item.blob == one.blob
    return not one.call_id or len(one.call_id) > _LONGEST_ID or item.call_id == one.call_id


# --- what nobody can look up or read ----------------------------------------------------------------------------------


@CHECKS.holds("OAR-REAS-04")
def not_stored(sent: Sent) -> Iterator[Broken]:
    """An id alone is worth something only where the provider keeps what it names.

    It keeps nothing that was asked for with `store` false, and nothing that it never gave.
    """
    if stored(sent):
        return
    given = ledger(sent)
    kept = sent.body.get("store") is not False
    for item in items(sent):
        id = item.id
        if not id or not _bare(item):
            continue
        never_given = given.known and id not in given.by_id and (item.kind == "reasoning" or id.startswith("rs_"))
        given_unkept = not kept and (item.kind == "reasoning" or id in given.by_id)
        if never_given or given_unkept:
            yield Broken("OAR-REAS-04", {"i": item.i, "rs_id": id})


def _bare(item: Item) -> bool:
    return item.kind == _REFERENCE or (item.kind == "reasoning" and not item.fields.get("encrypted_content"))


@once
def _unreadable(sent: Sent) -> list[Item]:
    """Return what carries a ciphertext that was given to nobody, to somebody else, or with another item."""
    if not sent.given:
        return []
    known = ledger(sent).by_blob
    sealed = [item for item in items(sent) if item.blob and item.kind in _SEALED]
    return [item for item in sealed if not _fits(item, known.get(item.blob))]


def _fits(item: Item, one: Given | None) -> bool:
    """Tell whether a ciphertext stands on its own item, and goes back to whom gave it; an id may be left out."""
    if one is None or one.foreign:
        return False
    return item.kind == one.type and (not one.id or item.id in ("", one.id))


@CHECKS.holds("OAR-REAS-05")
def not_verified(sent: Sent) -> Iterator[Broken]:
    """A ciphertext comes back to the letter, with its item, to whom gave it."""
    for item in _unreadable(sent):
        id, blob = item.id, item.blob
        told = {"i": item.i, "rs_id": id, "first4": blob[:_SHOWN], "last4": blob[-_SHOWN:]}
        yield Broken("OAR-REAS-05", told, variant=int(not id))


@CHECKS.holds("OAR-XAI-01")
def not_decrypted(sent: Sent) -> Iterator[Broken]:
    """The same, in other words."""
    yield from (Broken("OAR-XAI-01", {"i": item.i}) for item in _unreadable(sent))
