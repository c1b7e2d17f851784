"""Rules for the items of the input: their shapes, and the ids they carry."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from tenuto.sim.judging import Broken, Checks
from tenuto.sim.responses.ids import HOSTED, PREFIXES, place_of
from tenuto.sim.responses.opening import Opened, kind_of, stored

__all__ = ["IDS", "SHAPES"]

Found: TypeAlias = Iterator[Broken | None]
SHAPES, IDS = Checks(), Checks()
_WORDS = {
    dict: "an object",
    list: "an array",
    type(None): "null",
    bool: "a boolean",
    int: "an integer",
    float: "a decimal",
}
_SAID = ("output_text", "refusal")
_PREFIXED = ("message", "reasoning", "function_call", "custom_tool_call")


def _items(opened: Opened, *kinds: str) -> Iterator[tuple[int, dict[str, Any]]]:
    for at, item in enumerate(opened.items if opened.strict else ()):
        if not kinds or kind_of(item) in kinds:
            yield at, item


@SHAPES.holds("OAR-ITEM-09")
def _something_is_said(opened: Opened) -> Found:
    if opened.strict:
        before = any(opened.body.get(key) for key in ("previous_response_id", "conversation", "prompt"))
        yield None if opened.items or before else Broken("OAR-ITEM-09")


@SHAPES.holds("OAR-ITEM-10")
def _special_items_stand_where_they_may(opened: Opened) -> Found:
    for at, _ in _items(opened, "compaction_trigger"):
        last = at == len(opened.items) - 1
        yield None if last else Broken("OAR-ITEM-10", {"i": at, "type": "compaction_trigger"})
    for at, _ in _items(opened, "configuration_update") if opened.request.model else ():
        taken = opened.request.model.startswith("gpt-6")
        yield None if taken else Broken("OAR-ITEM-10", {"i": at, "type": "configuration_update"}, 1)


@SHAPES.holds("OAR-REAS-06")
def _reasoning_has_a_summary(opened: Opened) -> Found:
    asked = opened.strict or opened.request.style.name == "meta"
    for at, item in enumerate(opened.items if asked else ()):
        if kind_of(item) != "reasoning":
            continue
        yield None if "summary" in item else Broken("OAR-REAS-06", {"i": at})


@SHAPES.holds("OAR-REAS-07")
def _reasoning_has_no_status(opened: Opened) -> Found:
    for at, item in _items(opened, "reasoning"):
        yield Broken("OAR-REAS-07", {"i": at}) if item.get("status") is not None else None


@SHAPES.holds("OAR-ITEM-05")
def _parts_fit_the_role(opened: Opened) -> Found:
    for at, item in _items(opened, "message"):
        mine = item["role"] == "assistant"
        for place, part in enumerate(item["content"] if isinstance(item["content"], list) else ()):
            word = str(part.get("type"))
            allowed = "'output_text' and 'refusal'" if mine else "'input_text', 'input_image', and 'input_file'"
            fits = word in _SAID if mine else word.startswith("input_")
            fields = {"i": at, "j": place, "type": word, "allowed": allowed}
            yield None if fits else Broken("OAR-ITEM-05", fields)


@SHAPES.holds("OAR-ITEM-06")
def _arguments_are_text(opened: Opened) -> Found:
    for at, item in _items(opened, "function_call"):
        given = item["arguments"]
        got = _WORDS.get(type(given), "something else")
        yield None if isinstance(given, str) else Broken("OAR-ITEM-06", {"i": at, "got": got})


@IDS.holds("OAR-REAS-08")
def _ids_are_not_empty(opened: Opened) -> Found:
    for at, item in _items(opened):
        if "id" in item:
            yield Broken("OAR-REAS-08", {"i": at}) if item["id"] == "" else None


@IDS.holds("OAR-ITEM-03")
def _ids_are_short(opened: Opened) -> Found:
    for at, item in _items(opened):
        for key in ("call_id", "id"):
            value = item.get(key)
            if isinstance(value, str):
                fields = {"i": at, "key": key, "n": len(value)}
                yield None if len(value) <= 64 else Broken("OAR-ITEM-03", fields, key == "id")


@IDS.holds("OAR-ITEM-02")
def _ids_begin_as_their_type_does(opened: Opened) -> Found:
    for at, item in _items(opened, *_PREFIXED):
        if kind_of(item) == "message" and item["role"] != "assistant":
            continue
        prefix = PREFIXES[kind_of(item)]
        id = item.get("id")
        if isinstance(id, str):
            fields = {"i": at, "id": id, "prefix": prefix}
            yield None if id.startswith(prefix) else Broken("OAR-ITEM-02", fields)


@IDS.holds("OAR-ITEM-01")
def _ids_stand_once(opened: Opened) -> Found:
    seen = {item.get("id") for item in opened.chain}
    for at, item in _items(opened):
        id = item.get("id")
        if isinstance(id, str):
            yield Broken("OAR-ITEM-01", {"i": at, "id": id}) if id in seen else None
            seen.add(id)


@IDS.holds("OAR-ITEM-04")
def _references_lead_somewhere(opened: Opened) -> Found:
    for at, item in _items(opened, "item_reference", *HOSTED):
        id = item.get("id")
        if not isinstance(id, str):
            continue
        if kind_of(item) != "item_reference":
            known = id.startswith(f"{PREFIXES[kind_of(item)]}_")
        else:
            known = place_of(opened.request.seals, id) is not None or stored(opened.request, id) is not None
        yield None if known else Broken("OAR-ITEM-04", {"i": at, "id": id})


@IDS.holds("OAR-REAS-04")
def _reasoning_can_be_had(opened: Opened) -> Found:
    for at, item in enumerate(opened.items if opened.stores else ()):
        id = item.get("id")
        if kind_of(item) not in ("reasoning", "item_reference") or item.get("encrypted_content") or not id:
            continue
        yield None if stored(opened.request, id) else Broken("OAR-REAS-04", {"i": at, "rs_id": id})


@IDS.holds("OAR-ITEM-07")
def _phases_are_kept(opened: Opened) -> Found:
    for at, item in _items(opened, "message"):
        if opened.model.phased and place_of(opened.request.seals, item.get("id")):
            yield None if item.get("phase") else Broken("OAR-ITEM-07", {"i": at})
