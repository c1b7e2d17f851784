"""The items of a Responses request: their ids, their shape, and what they had when they were given."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from tenuto.audit.looking import Broken, Checks, Sent
from tenuto.audit.responses_ledger import CALLS, Given, Item, items, ledger, named_tools, stored, word
from tenuto.core.blocks import Refusal, ServerToolUse, Text, ToolUse
from tenuto.core.rule_rows.holds_responses import RECONFIGURED

__all__ = ["CHECKS"]

CHECKS = Checks()

_LONGEST_ID = 64
_PREFIXES = {"message": "msg", "reasoning": "rs", "function_call": "fc", "custom_tool_call": "ctc"}
_STRANGERS = ("toolu_", "srvtoolu_")
"""How ids of another dialect begin that are taken along by mistake."""
_SAID: tuple[tuple[str, ...], str] = (("output_text", "refusal"), "'input_text', 'input_image', and 'input_file'")
_PARTS: dict[str, tuple[tuple[str, ...], str]] = {
    "assistant": (("input_text", "input_image", "input_file", "text"), "'output_text' and 'refusal'"),
    "user": _SAID,
    "system": _SAID,
    "developer": _SAID,
}
"""By who speaks: parts that are not theirs, and a word for those that are."""


@CHECKS.holds("OAR-ITEM-09")
def nothing_said(sent: Sent) -> Iterator[Broken]:
    """There is something to answer, here or in what the request goes on from."""
    if sent.body.get("input") in (None, []) and not stored(sent) and not sent.body.get("prompt"):
        yield Broken("OAR-ITEM-09")


@CHECKS.holds("OAR-REAS-08")
def empty_ids(sent: Sent) -> Iterator[Broken]:
    """An id is left out, not emptied."""
    for item in items(sent):
        if item.fields.get("id") == "":
            yield Broken("OAR-REAS-08", {"i": item.i})


@CHECKS.holds("OAR-ITEM-03")
def long_ids(sent: Sent) -> Iterator[Broken]:
    """Ids have 64 characters at most."""
    for item in items(sent):
        for key, id in (("id", item.id), ("call_id", item.call_id)):
            if len(id) > _LONGEST_ID:
                yield Broken("OAR-ITEM-03", {"i": item.i, "key": key, "n": len(id)}, variant=1)


@CHECKS.holds("OAR-ITEM-02")
def prefixes(sent: Sent) -> Iterator[Broken]:
    """An id begins as its kind of item wants it."""
    for item in items(sent):
        id, prefix = item.id, _PREFIXES.get(item.kind, "")
        if id and not id.startswith(prefix):
            yield Broken("OAR-ITEM-02", {"i": item.i, "id": id, "prefix": prefix})


@CHECKS.holds("OAR-ITEM-01")
def twice(sent: Sent) -> Iterator[Broken]:
    """Each item stands once: here, or in the stored replies that the request goes on from."""
    goes_on = bool(sent.given) and bool(sent.body.get("previous_response_id"))
    known = {id for id, one in ledger(sent).by_id.items() if not one.foreign} if goes_on else set()
    for item in items(sent):
        id = item.id
        if id and id in known:
            yield Broken("OAR-ITEM-01", {"i": item.i, "id": id})
        known.add(id)


@CHECKS.holds("OAR-ITEM-04")
def strangers(sent: Sent) -> Iterator[Broken]:
    """What is looked up by its id was stored by this provider."""
    foreign = _foreign_ids(sent)
    for item in items(sent):
        id = item.id
        if _looked_up(item) and (id.startswith(_STRANGERS) or id in foreign):
            yield Broken("OAR-ITEM-04", {"i": item.i, "id": id})


def _looked_up(item: Item) -> bool:
    """Tell whether an item is a reference, or belongs to one of the provider's own tools."""
    type = item.kind
    return type == "item_reference" or (type.endswith("_call") and type not in CALLS)


def _foreign_ids(sent: Sent) -> set[str]:
    found: set[str] = set()
    for reply in ledger(sent).replies if sent.given else ():
        for one in reply:
            if one.foreign:
                found |= {one.id} | {block.id for block in one.blocks if isinstance(block, ToolUse | ServerToolUse)}
    return found - {""}


@CHECKS.holds("OAR-ITEM-05")
def parts(sent: Sent) -> Iterator[Broken]:
    """The assistant's parts are outputs, everybody else's are inputs."""
    for item in items(sent):
        wrong, allowed = _PARTS.get(item.role, ((), ""))
        content = item.fields.get("content")
        for j, part in enumerate(content if isinstance(content, list) else ()):
            if isinstance(part, dict) and part.get("type") in wrong:
                yield Broken("OAR-ITEM-05", {"i": item.i, "j": j, "type": part["type"], "allowed": allowed})


@CHECKS.holds("OAR-ITEM-06")
def arguments(sent: Sent) -> Iterator[Broken]:
    """Arguments are the text that the model wrote."""
    for item in items(sent):
        if item.kind == "function_call" and not isinstance(item.fields.get("arguments", ""), str):
            yield Broken("OAR-ITEM-06", {"i": item.i, "got": _spoken(item.fields["arguments"])})


def _spoken(value: object) -> str:
    if value is None:
        return "null"
    names = {dict: "an object", list: "an array", bool: "a boolean", int: "an integer", float: "a decimal"}
    return names.get(type(value), "another value")


@CHECKS.holds("OAR-ITEM-07")
def lost_phases(sent: Sent) -> Iterator[Broken]:
    """A message that had a phase keeps it. It is known again by its id, or else by its words."""
    if not sent.given:
        return
    given = ledger(sent)
    by_text = {_words(one): one for reply in given.replies for one in reply if one.type == "message"}
    for item in items(sent):
        if item.role != "assistant" or item.fields.get("phase") is not None:
            continue
        one = given.by_id.get(item.id) or by_text.get(_text(item))
        if one is not None and not one.foreign and one.type == "message" and one.field("phase"):
            yield Broken("OAR-ITEM-07", {"i": item.i})


def _words(one: Given) -> str:
    return "".join(block.text for block in one.blocks if isinstance(block, Text | Refusal))


def _text(item: Item) -> str:
    content = item.fields.get("content")
    if not isinstance(content, list):
        return word(item.fields, "content")
    held = [part for part in content if isinstance(part, dict)]
    return "".join(word(part, "text") or word(part, "refusal") for part in held)


@CHECKS.holds("OAR-ITEM-08")
def lost_namespaces(sent: Sent) -> Iterator[Broken]:
    """A call names the namespace of its tool, as it did when it was given."""
    given = ledger(sent)
    spaced: set[str] = set()
    plain: set[str] = set()
    for _, _, tool, space in named_tools(sent):
        (spaced if space else plain).add(word(tool, "name"))
    for item in items(sent):
        if item.kind not in CALLS or item.fields.get("namespace") is not None:
            continue
        one = given.calls.get(item.call_id)
        had = one is not None and not one.foreign and bool(one.field("namespace"))
        if had or word(item.fields, "name") in spaced - plain:
            yield Broken("OAR-ITEM-08", {"i": item.i})


@CHECKS.holds("OAR-ITEM-10")
def settings(sent: Sent) -> Iterator[Broken]:
    """What asks for a compaction stands last, and only later models are told other settings on the way."""
    every = items(sent)
    named = f"{sent.row}/{sent.model}"
    earlier = sent.target.traits.known and bool(sent.model) and not any(fnmatchcase(named, one) for one in RECONFIGURED)
    for item in every:
        type = item.kind
        if type == "compaction_trigger" and item is not every[-1]:
            yield Broken("OAR-ITEM-10", {"i": item.i, "type": type})
        elif type == "configuration_update" and earlier:
            yield Broken("OAR-ITEM-10", {"i": item.i, "type": type}, variant=1)
