"""What each family of Claude takes: thinking modes, sampling, forced calls, prefill, and what its thoughts are bound to."""

from __future__ import annotations

import re

import msgspec

__all__ = ["ANY", "Model", "facts"]

_EFFORTS = "low medium high xhigh max"


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """One family. `modes` are the values of `thinking.type` that it takes.

    `thinks` says whether it thinks unasked, `omits` whether its thoughts are then empty. `sampling` is `any`, `one` (not
    temperature and top_p together) or `none`. `calm` families take no effort above high with thinking turned off. `reads` is a
    pattern of the families whose thoughts it can read; blocks of others are dropped. `bound` thoughts hold only behind
    the very prefix under which they came. `looks` says whether a picture must be of the type that it names.
    """

    modes: frozenset[str]
    thinks: bool = True
    omits: bool = True
    sampling: str = "none"
    forces: bool = True
    prefills: bool = False
    system: bool = True
    calm: bool = False
    bound: bool = False
    fast: bool = True
    looks: bool = True
    efforts: frozenset[str] = frozenset(_EFFORTS.split())
    reads: str = ".*"
    window: int = 1_000_000


def _modes(names: str) -> frozenset[str]:
    return frozenset(names.split())


ANY = Model(
    modes=_modes("adaptive enabled disabled between_tools"),
    omits=False,
    sampling="any",
    prefills=True,
    looks=False,
    window=0,
)
"""No model in particular: only what no model of the provider takes is refused. Its window is the style's."""
_NOT_5_1 = r"(?!.*(?:fable|mythos)-5-[12]).*"
_OLD = Model(
    modes=_modes("enabled disabled"), thinks=False, omits=False, sampling="any", prefills=True, system=False,
    efforts=frozenset(), reads=_NOT_5_1, window=200_000,
)  # fmt: skip
_ONE = msgspec.structs.replace(_OLD, sampling="one")
_NEW = Model(modes=_modes("adaptive disabled"), reads=_NOT_5_1)
_4_6 = Model(
    modes=_modes("adaptive enabled disabled"), thinks=False, omits=False, sampling="any", system=False,
    efforts=frozenset(("low", "medium", "high", "max")), reads=_NOT_5_1,
)  # fmt: skip
_ALWAYS = Model(modes=_modes("adaptive"), forces=False, bound=True)
_FAMILIES: tuple[tuple[str, Model], ...] = (
    ("claude-mythos-5-1", msgspec.structs.replace(_ALWAYS, bound=False)),
    ("claude-(?:fable|mythos)-5-[12]", _ALWAYS),
    ("claude-opus-5-5", msgspec.structs.replace(_ALWAYS, reads=_NOT_5_1)),
    ("claude-sonnet-5-5",
     msgspec.structs.replace(_ALWAYS, modes=_modes("adaptive between_tools"), calm=True, reads=_NOT_5_1)),
    ("claude-haiku-5-5", msgspec.structs.replace(_NEW, bound=True, calm=True, reads=".*haiku-5-5.*")),
    ("claude-opus-5", msgspec.structs.replace(_NEW, calm=True)),
    ("claude-sonnet-5", _NEW),
    ("claude-(?:fable|mythos)-5", Model(modes=_modes("adaptive"), reads=_NOT_5_1)),
    ("claude-mythos-preview", Model(modes=_modes("adaptive"), system=False, reads=_NOT_5_1)),
    ("claude-opus-4-8", msgspec.structs.replace(_NEW, thinks=False)),
    ("claude-opus-4-7", msgspec.structs.replace(_NEW, thinks=False, system=False, fast=False)),
    ("claude-(?:opus|sonnet)-4-6", _4_6),
    ("claude-opus-4-5", msgspec.structs.replace(_ONE, efforts=frozenset(("low", "medium", "high")))),
    ("claude-(?:sonnet|haiku)-4-5", _ONE),
    ("claude-opus-4-1", _ONE),
    (r"claude-(?:opus|sonnet)-4(?:-0|(?!-\d\d?(?!\d)))|claude-3-7", _OLD),
    (r"claude-(?:[123]|instant|v\d)", msgspec.structs.replace(_OLD, modes=_modes("disabled"), looks=False)),
    ("claude-", Model(modes=_modes("adaptive"), forces=False)),
)  # fmt: skip
"""The first that fits; a number that goes on is another model."""
_COMPILED = tuple((re.compile(rf"(?:{pattern})(?!\d)"), model) for pattern, model in _FAMILIES)


def facts(model: str) -> Model:
    """Return what is known of a model by its id, wherever it is hosted. An empty or foreign name is `ANY`."""
    at = model.find("claude-")
    if at < 0:
        return ANY
    named = model[at:].replace(".", "-")
    return next(found for pattern, found in _COMPILED if pattern.match(named))
