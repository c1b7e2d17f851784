"""What the simulator knows of Gemini models, by their names."""

from __future__ import annotations

import re
from functools import cache
from typing import Literal

import msgspec

from tenuto.sim.asked import Request

__all__ = ["Facts", "facts"]

_GENERATION = re.compile(r"gemini-(\d+(?:\.\d+)?)")
_ALIASES = {
    "gemini-flash-latest": 3.8, "gemini-flash-lite-latest": 3.5, "gemini-pro-latest": 3.1,
    "gemini-robotics-er-2-preview": 3.0,
}  # fmt: skip
"""The generation of models whose names do not tell it."""
_ELSEWHERE = re.compile(
    r"gemini-omni-.*|deep-research-.*|.*-live(?:-.*)?|gemini-robotics-er-2-streaming.*|.*-native-audio.*|lyria-.*"
    r"|imagen.*|veo.*|.*embedding.*"
)
"""Models of other endpoints: interactions, live sessions, pictures, films, vectors."""
_KNOWN = re.compile(r"(?!gemini-).*|gemini-(?:\d|exp|pro|flash|ultra|nano|robotics|computer).*")
"""Names that some model has, or may come to have."""
_THOUGHTLESS = re.compile(r"gemma-.*|learnlm.*|.*-tts(?:-.*)?|.*nano-banana.*|gemini-(?:1\.|2\.0|exp|pro$|pro-vision).*|gemini-2\.5-flash-image.*|gemini-2\.5-computer-use.*")  # fmt: skip
_NEWEST = 4.0


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What a model takes and gives. `generation` is its number; `family` whose signatures it reads.

    `signs` tells whether a call without a signature is refused, taken, or nothing is ever signed; by one that `draws` it
    is taken in any case. `budget` is the range of `thinkingBudget`, `off` whether 0 is taken besides. `prefill` tells
    whether the last content may be the model's. `window` 0 is not published.
    """

    generation: float = 3.0
    family: str = "3"
    signs: Literal["required", "optional", "no"] = "required"
    draws: bool = False
    thinks: bool = True
    level: bool = True
    minimal: bool = True
    budget: tuple[int, int] | None = None
    off: bool = True
    ids: bool = True
    prefill: bool = False
    window: int = 1_048_576
    here: bool = True


def facts(request: Request) -> Facts:
    """Return what is known of the model that is asked. Of a bare style: what holds for all, with signatures as of 3."""
    if not request.model:
        return _bare(request.style.thinks, request.style.window)
    return _of(request.model)


@cache
def _bare(thinks: bool, window: int) -> Facts:
    return Facts(thinks=thinks, window=window, ids=False)


@cache
def _of(model: str) -> Facts:
    found = _GENERATION.match(model)
    number = _ALIASES.get(model) or (float(found[1]) if found else _NEWEST)
    thinks = not _THOUGHTLESS.fullmatch(model)
    if not thinks:
        number = number if found else 2.0
    lite = "flash-lite" in model
    return Facts(
        generation=number,
        family=str(int(number)),
        signs="no" if not thinks else "required" if number >= 3 else "optional",
        draws="-image" in model,
        thinks=thinks,
        level=thinks and number >= 3,
        minimal=not (number >= 4 or ("pro" in model and number < 3.5) or number >= 3.7),
        budget=_budget(model, lite=lite) if number == 2.5 and thinks else None,
        off="pro" not in model,
        ids=number >= 3.5,
        prefill=number < 3.5 or (number == 3.5 and not lite) or "tts" in model,
        window=_window(model),
        here=bool(_KNOWN.fullmatch(model)) and not _ELSEWHERE.fullmatch(model),
    )


def _budget(model: str, *, lite: bool) -> tuple[int, int]:
    if "pro" in model:
        return 128, 32_768
    return (512 if lite else 0), 24_576


def _window(model: str) -> int:
    if "tts" in model:
        return 8_192
    if model.startswith("gemini-1.5"):
        return 2_097_152 if "pro" in model else 1_048_576
    if re.match(r"gemini-(?:1\.|exp|pro$|pro-vision|2\.5-computer-use)|learnlm", model):
        return 0
    if "image" in model or "banana" in model:
        return 65_536 if "pro-image" in model or "2.5" in model else 131_072
    if model.startswith("gemma-"):
        return 262_144 if model.startswith("gemma-4") else 131_072
    return 131_072 if "robotics" in model else 1_048_576
