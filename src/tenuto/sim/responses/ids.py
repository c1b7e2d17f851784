"""Item ids that say what they were given for, so that a request can be judged without remembering the response.

At OpenAI and Azure an id is a prefix and 50 hex digits: which response, which place in it, which reasoning item stood
before it and what came after that one, and a mac over it all. xAI names items after their response; DeepSeek's ids
say nothing.
"""

from __future__ import annotations

import re

import msgspec

from tenuto.sim.mint import Seals

__all__ = [
    "HOSTED",
    "NEXT",
    "PREFIXES",
    "Place",
    "foretell",
    "item_id",
    "place_of",
    "response_id",
    "uuid",
    "xai_id",
    "xai_root",
]

PREFIXES = {
    "message": "msg", "reasoning": "rs", "function_call": "fc", "custom_tool_call": "ctc", "web_search_call": "ws",
    "code_interpreter_call": "ci", "image_generation_call": "ig",
}  # fmt: skip
HOSTED = ("web_search_call", "code_interpreter_call", "image_generation_call")
NEXT = (
    "", "message", "reasoning", "function_call", "custom_tool_call", "web_search_call", "code_interpreter_call",
    "image_generation_call",
)  # fmt: skip
"""What can follow a reasoning item; nothing where the response ended with it."""
_KINDS = {prefix: kind for kind, prefix in PREFIXES.items()}
_SHAPE = re.compile(
    "(?P<prefix>[a-z]+)_(?P<body>(?P<response>[0-9a-f]{16})01(?P<made>[0-9a-f]{8})(?P<index>[0-9a-f]{3})"
    "(?P<needs>[0-9a-f]{3})(?P<run>[0-9a-f])(?P<next>[0-9a-f]))(?P<mac>[0-9a-f]{16})"
)
_XAI = re.compile("[a-z]+_(?P<root>[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})(?:_.*)?")
_LAST = 0xFFF


class Place(msgspec.Struct, frozen=True):
    """Where an item stood in which response.

    `needs` is the reasoning item it must come after, by its index, -1 for none. `run` and `next` belong to that
    reasoning item, or to this one if it is one: how many reasoning items stand right before it, and the type of the item
    that follows.
    """

    kind: str
    response: str
    made: int
    index: int
    needs: int = -1
    run: int = 0
    next: str = ""

    def reasoning(self) -> Place:
        """The place of the reasoning item that must stand before this one."""
        run = self.run - 1 if self.kind == "reasoning" else self.run
        following = "reasoning" if self.kind == "reasoning" else self.next
        return Place("reasoning", self.response, self.made, self.needs, self.needs - 1 if run else -1, run, following)


def item_id(seals: Seals, place: Place) -> str:
    """Return the id of an item in a place."""
    body = (
        f"{place.response}01{place.made:08x}{min(place.index, _LAST):03x}{min(place.needs + 1, _LAST):03x}"
        f"{min(place.run, 15):x}{NEXT.index(place.next):x}"
    )
    prefix = PREFIXES[place.kind]
    return f"{prefix}_{body}{seals.mac(prefix, body)}"


def place_of(seals: Seals, id: object) -> Place | None:
    """Return what an id says; None if it was not made here."""
    found = _SHAPE.fullmatch(id) if isinstance(id, str) else None
    if found is None or found["prefix"] not in _KINDS or seals.mac(found["prefix"], found["body"]) != found["mac"]:
        return None
    return Place(
        _KINDS[found["prefix"]],
        found["response"],
        int(found["made"], 16),
        int(found["index"], 16),
        int(found["needs"], 16) - 1,
        int(found["run"], 16),
        NEXT[int(found["next"], 16)],
    )


def foretell(kinds: list[str], response: str, made: int) -> list[Place]:
    """Say for each item of a response, given their types in order, what its id has to say."""
    places: list[Place] = []
    last: Place | None = None
    for index, kind in enumerate(kinds):
        following = kinds[index + 1] if index + 1 < len(kinds) else ""
        if kind == "reasoning":
            follows = last is not None and last.index == index - 1
            run = last.run + 1 if last and follows else 0
            last = Place(kind, response, made, index, index - 1 if follows else -1, run, following)
            places.append(last)
        elif last:
            places.append(Place(kind, response, made, index, last.index, last.run, last.next))
        else:
            places.append(Place(kind, response, made, index))
    return places


def response_id(seals: Seals, response: str, made: int) -> str:
    """Return the id of a response."""
    body = f"{response}01{made:08x}fff00000"
    return f"resp_{body}{seals.mac('resp', body)}"


def uuid(hexes: str) -> str:
    """Write 32 hex digits as a UUID."""
    return f"{hexes[:8]}-{hexes[8:12]}-{hexes[12:16]}-{hexes[16:20]}-{hexes[20:]}"


def xai_root(seals: Seals, id: object) -> str:
    """Return which response an id of xAI's belongs to; empty if it was not made here."""
    found = _XAI.fullmatch(id) if isinstance(id, str) else None
    hexes = found["root"].replace("-", "") if found else ""
    return hexes[:16] if hexes and seals.mac("xai", hexes[:16]) == hexes[16:] else ""


def xai_id(seals: Seals, response: str) -> str:
    """Return the id of a response of xAI's."""
    return uuid(response + seals.mac("xai", response))
