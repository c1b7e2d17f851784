"""Rules for reasoning items: what must stand beside them, and the blobs they carry."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from tenuto.sim.judging import Broken, Checks
from tenuto.sim.responses.ids import Place, item_id, place_of
from tenuto.sim.responses.opening import Opened, is_ours, kind_of
from tenuto.sim.responses.sealed import claims_of

__all__ = ["ORDER", "TOKENS"]

Found: TypeAlias = Iterator[Broken | None]
ORDER, TOKENS = Checks(), Checks()


def _place(opened: Opened, item: dict[str, Any]) -> Place | None:
    return place_of(opened.request.seals, item.get("id"))


def _present(opened: Opened, item: dict[str, Any]) -> Any:
    """The id of an item, or of the reasoning item whose blob it is if it carries none."""
    if item.get("id") or kind_of(item) != "reasoning":
        return item.get("id")
    return (claims_of(opened.request.seals, item.get("encrypted_content")) or {}).get("id")


def _lonely(opened: Opened) -> Iterator[tuple[int, dict[str, Any], str | None]]:
    """Every new item whose id says that it came after a reasoning item; with that one's id if it is not before it."""
    seen = {_present(opened, item) for item in opened.chain}
    for at, item in enumerate(opened.items if opened.strict else ()):
        place = _place(opened, item)
        if place and place.needs >= 0:
            needed = item_id(opened.request.seals, place.reasoning())
            yield at, item, None if needed in seen else needed
        seen.add(_present(opened, item))


@ORDER.holds("OAR-REAS-01")
def _call_has_its_reasoning(opened: Opened) -> Found:
    for at, item, missing in _lonely(opened):
        if not item["id"].startswith("msg_"):
            kind = _type(opened, item)
            fields = {"i": at, "fc_id": item["id"], "type": kind, "rs_id": missing}
            yield Broken("OAR-REAS-01", fields, kind != "function_call") if missing else None


def _type(opened: Opened, item: dict[str, Any]) -> str:
    place = _place(opened, item)
    return place.kind if place else kind_of(item)


@ORDER.holds("OAR-REAS-02")
def _message_has_its_reasoning(opened: Opened) -> Found:
    for at, item, missing in _lonely(opened):
        if item["id"].startswith("msg_"):
            yield Broken("OAR-REAS-02", {"i": at, "msg_id": item["id"], "rs_id": missing}) if missing else None


@ORDER.holds("OAR-REAS-03")
def _reasoning_has_what_followed_it(opened: Opened) -> Found:
    for at, item in enumerate(opened.items if opened.strict else ()):
        place = _place(opened, item)
        if place is None or place.kind != "reasoning":
            continue
        after = opened.items[at + 1] if at + 1 < len(opened.items) else {}
        yield None if _follows(opened, place, after) else Broken("OAR-REAS-03", {"i": at, "rs_id": item["id"]})


def _follows(opened: Opened, place: Place, after: dict[str, Any]) -> bool:
    if not after or not place.next:
        return False
    id = _present(opened, after)
    if not id:  # nothing says which item it is: its type has to do
        return kind_of(after) == place.next and is_ours(after)
    found = place_of(opened.request.seals, id)
    return found is not None and (found.response, found.index) == (place.response, place.index + 1)


def _blobs(opened: Opened, *kinds: str) -> Iterator[tuple[int, dict[str, Any], dict[str, Any] | None]]:
    for at, item in enumerate(opened.items):
        if kind_of(item) in (kinds or ("reasoning",)) and item.get("encrypted_content"):
            yield at, item, claims_of(opened.request.seals, item["encrypted_content"])


def _broken_blob(rule: str, at: int, item: dict[str, Any]) -> Broken:
    blob = str(item["encrypted_content"])
    fields = {"i": at, "rs_id": item.get("id"), "first4": blob[:4], "last4": blob[-4:]}
    return Broken(rule, fields, 0 if item.get("id") else 1)


@TOKENS.holds("OAR-REAS-10")
def _blob_is_of_the_finished_item(opened: Opened) -> Found:
    for at, item, claims in _blobs(opened) if opened.strict else ():
        if claims:
            yield _broken_blob("OAR-REAS-10", at, item) if claims.get("part") == "added" else None


@TOKENS.holds("OAR-REAS-05")
def _blob_is_as_it_was_given(opened: Opened) -> Found:
    request = opened.request
    for at, item, claims in _blobs(opened, "reasoning", "compaction") if opened.strict else ():
        good = (
            claims is not None
            and kind_of(item) == "reasoning"  # no compaction was ever made here
            and claims.get("account") == request.account
            and claims.get("style") == request.style.name
            and item.get("id") in (None, claims.get("id"))
        )
        yield None if good else _broken_blob("OAR-REAS-05", at, item)


@TOKENS.holds("OAR-XAI-02")
def _xai_item_is_whole(opened: Opened) -> Found:
    for at, item, _ in _blobs(opened) if opened.request.style.name == "xai" else ():
        whole = "summary" in item and item.get("content", ()) is not None
        yield None if whole else Broken("OAR-XAI-02", {"i": at})


@TOKENS.holds("OAR-XAI-01")
def _xai_blob_is_as_it_was_given(opened: Opened) -> Found:
    for at, _, claims in _blobs(opened) if opened.request.style.name == "xai" else ():
        yield None if claims and claims.get("style") == "xai" else Broken("OAR-XAI-01", {"i": at})


@TOKENS.holds("OAR-REAS-09")
def _reasoning_without_id_is_taken(opened: Opened) -> Found:
    for at, item, _ in _blobs(opened) if opened.stores else ():
        yield Broken("OAR-REAS-09", {"i": at}) if "id" not in item else None


@TOKENS.holds("OAR-REAS-11")
def _earlier_reasoning_is_read(opened: Opened) -> Found:
    asked = (opened.body.get("reasoning") or {}).get("context")
    current = opened.model.all_turns is False if asked in (None, "auto") else asked == "current_turn"
    last = max((at for at, item in enumerate(opened.items) if item.get("role") == "user"), default=-1)
    for at, item in enumerate(opened.items if opened.strict else ()):
        if kind_of(item) == "reasoning":
            yield Broken("OAR-REAS-11", {"i": at}) if current and at < last else None


@TOKENS.holds("OAR-DS-01")
def _calls_end_their_turn(opened: Opened) -> Found:
    if opened.request.style.name != "deepseek":
        return
    for at, item in enumerate(opened.items):
        if kind_of(item) == "function_call":
            after = opened.items[at + 1] if at + 1 < len(opened.items) else {}
            moved = bool(after) and is_ours(after) and kind_of(after) != "function_call"
            yield Broken("OAR-DS-01", {"i": at}) if moved else None
