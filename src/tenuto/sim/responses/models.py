"""What the models at this endpoint take and do, by pattern: efforts, sampling, phases, windows."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from tenuto.sim.asked import Request

__all__ = ["Model", "exists", "model_of"]


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """A model. No efforts: any is taken. `effort` is the default; None: none, or not published. `window` 0 is not
    published either. `sampling` says when temperature and its like are: with the effort `none` only, or always, or never. `phased` messages say whether they are commentary or the answer; `all_turns` is what
    `reasoning.context` is by default.
    """

    efforts: tuple[str, ...] = ()
    effort: str | None = "medium"
    reasons: bool = True
    sampling: Literal["always", "none", "never"] = "always"
    phased: bool = True
    window: int = 0
    all_turns: bool | None = None
    top_p: float = 0.98


def _row(efforts: str, window: int, sampling: Literal["always", "none", "never"], phased: bool) -> Model:
    """Return a model that reasons; the default effort is marked with `*`, if it is published."""
    words = efforts.split()
    return Model(
        efforts=tuple(word.rstrip("*") for word in words),
        effort=next((word.rstrip("*") for word in words if word.endswith("*")), None),
        sampling=sampling,
        phased=phased,
        window=window,
        all_turns=False,
        top_p=0.98 if phased or "none*" in words else 1.0,
    )


_FULL = "none low medium* high xhigh max"
_GPT_6 = msgspec.structs.replace(_row(_FULL, 1_050_000, "none", True), all_turns=True)
_ALWAYS = msgspec.structs.replace(_row("low medium* high xhigh max", 1_050_000, "never", True), all_turns=True)
_OLD = Model(effort=None, reasons=False, phased=False, window=128_000, all_turns=False, top_p=1.0)
_DATE = r"(?:-\d{4}-\d{2}-\d{2})?"
_OPENAI = [
    (re.compile(f"(?:{pattern}){_DATE}"), row)
    for pattern, row in (
        (r"gpt-6-astra|gpt-6\.1-sol", _ALWAYS),
        (r"gpt-6-(?:sol|luna)|gpt-6\.1-terra|gpt-5\.6(?:-(?:sol|terra|luna))?|(?:gpt-)?daybreak-blue-latest", _GPT_6),
        (r"gpt-5\.6-cyber|(?:gpt-)?daybreak-red-latest", msgspec.structs.replace(_GPT_6, window=400_000)),
        (r"gpt-6-(?:cyber|rosalind)|gpt-rosalind-(?:research|discovery)|gpt-5\.5-cyber(?:-preview)?",
         msgspec.structs.replace(_ALWAYS, window=0)),
        (r"gpt-5\.[45]-pro", _row("medium high xhigh", 1_050_000, "never", True)),
        (r"gpt-5\.2-pro", _row("medium high xhigh", 400_000, "never", True)),
        (r"gpt-5\.5", _row("none low medium* high xhigh", 1_050_000, "none", True)),
        (r"gpt-5\.4", _row("none* low medium high xhigh", 1_050_000, "none", True)),
        (r"gpt-5\.4-(?:mini|nano)", _row("none* low medium high xhigh", 400_000, "none", True)),
        (r"gpt-5\.3-codex", _row("none* low medium high xhigh", 400_000, "none", True)),
        (r"gpt-5\.[123]-chat(?:-latest)?", _row("medium*", 128_000, "never", False)),
        (r"gpt-chat-latest|chat-latest", _row("medium*", 400_000, "never", False)),
        (r"gpt-5\.2", _row("none* low medium high xhigh", 400_000, "none", False)),
        (r"gpt-5\.1", _row("none* low medium high", 400_000, "none", False)),
        (r"gpt-5\.1-codex-max|gpt-5\.2-codex", _row("low medium* high xhigh", 400_000, "never", False)),
        (r"gpt-5\.1-codex(?:-mini)?|gpt-5-codex", _row("low medium* high", 400_000, "never", False)),
        (r"gpt-5-pro", _row("high*", 400_000, "never", False)),
        (r"gpt-5-chat(?:-latest)?", _OLD),
        (r"gpt-5(?:-(?:mini|nano))?", _row("minimal low medium* high", 400_000, "never", False)),
        (r"(?:o[13]|o[34]-mini|o1-mini|o[13]-pro|o1-preview|o[34](?:-mini)?-deep-research|codex-mini-latest)",
         _row("low medium* high", 200_000, "never", False)),
        (r"gpt-4\.1(?:-(?:mini|nano))?", msgspec.structs.replace(_OLD, window=1_047_576)),
        (r"gpt-4o(?:-mini)?(?:-(?:search|audio)-preview)?|chatgpt-4o-latest|gpt-4-turbo", _OLD),
        (r"gpt-4", msgspec.structs.replace(_OLD, window=8_192)),
        (r"gpt-3\.5-turbo.*", msgspec.structs.replace(_OLD, window=16_385)),
        (r"computer-use-preview", Model(effort=None, phased=False, window=8_192, all_turns=False)),
    )
]  # fmt: skip
_XAI = [
    (re.compile(pattern), row)
    for pattern, row in (
        (r".*-non-reasoning.*", Model(reasons=False, effort=None, phased=False, window=1_000_000, top_p=0.95)),
        (r"grok-.*", Model(phased=False, top_p=0.95)),
    )
]
_ANY = Model()
_ANY_XAI = Model(phased=False, top_p=0.95)
_UNKNOWN = Model(phased=False, top_p=1.0)
_DEEPSEEK = Model(effort=None, top_p=1.0)


def model_of(request: Request) -> Model:
    """Return what is known of the model that is asked; one that takes everything if none is named."""
    if request.style.name == "deepseek":
        return _DEEPSEEK
    if request.style.name not in ("openai", "azure", "xai"):
        return _UNKNOWN
    rows, otherwise = (_XAI, _ANY_XAI) if request.style.name == "xai" else (_OPENAI, _ANY)
    return next((row for pattern, row in rows if pattern.fullmatch(request.model)), otherwise)


def exists(request: Request) -> bool:
    """Tell whether there is such a model. Azure's deployments are named by their owners, so all of them are."""
    if not request.model or request.style.name == "azure" or request.model.startswith("ft:"):
        return True
    if not re.fullmatch(request.style.models, request.model):
        return False
    return request.style.name != "openai" or any(pattern.fullmatch(request.model) for pattern, _ in _OPENAI)
