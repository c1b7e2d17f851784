"""Judge a conversation: every check on every exchange in it, and each replay against its ancestors."""

from __future__ import annotations

import dataclasses
import traceback
from pathlib import Path
from typing import Any

from conformance import checks
from conformance.audited import audited, follows
from conformance.checks import Judged
from conformance.corpus import DIALECTS, Exchange
from conformance.jsontext import load
from conformance.replay import Ancestor, excluded, replayed
from conformance.subject import Outcome, decode, target_for
from tenuto.core.blocks import Opaque
from tenuto.core.messages import AssistantMessage
from tenuto.core.target import Target

__all__ = ["CHECKS", "Case", "judge"]

CHECKS = ("decoded", "streamed", "rechunked", "stored", "whole", "replayed", "audited")


@dataclasses.dataclass
class Case:
    """What came of one exchange. `opaque` names the wire types that came back as `Opaque`; `follows` tells whether the
    request sends an earlier reply back.
    """

    name: str
    dialect: str
    provider: str
    judged: dict[str, Judged] = dataclasses.field(default_factory=dict)
    blocks: int = 0
    opaque: list[str] = dataclasses.field(default_factory=list)
    follows: bool = False


def judge(folders: list[Path], wanted: frozenset[str] | None = None) -> list[Case]:
    """Judge the exchanges of one conversation; only those whose names are `wanted`, if given."""
    known = [Exchange(folder) for folder in folders]
    steps = {exchange.about.get("step"): exchange for exchange in known}
    reading = _Reading()
    cases = []
    for exchange in known:
        if exchange.dialect not in DIALECTS or exchange.about.get("status") != 200:
            continue
        if wanted is None or exchange.name in wanted:
            cases.append(_case(exchange, steps, reading))
    return cases


class _Reading:
    """Decodes each exchange once."""

    def __init__(self) -> None:
        self._done: dict[str, tuple[Target, Outcome]] = {}

    def of(self, exchange: Exchange) -> tuple[Target, Outcome]:
        if exchange.name not in self._done:
            target = target_for(exchange)
            self._done[exchange.name] = (target, decode(exchange, target))
        return self._done[exchange.name]


def _case(exchange: Exchange, steps: dict[Any, Exchange], reading: _Reading) -> Case:
    case = Case(exchange.name, exchange.dialect, exchange.provider)
    with _Check(case, "decoded"):
        target, outcome = reading.of(exchange)
        _count(case, outcome)
        case.judged["decoded"] = checks.decoded(exchange, outcome)
        with _Check(case, "streamed"):
            case.judged["streamed"] = checks.streamed(exchange, outcome)
        if exchange.streamed:
            with _Check(case, "rechunked"):
                case.judged["rechunked"] = checks.rechunked(exchange, outcome, target)
        with _Check(case, "stored"):
            case.judged["stored"] = checks.stored(exchange, outcome)
        with _Check(case, "whole"):
            case.judged["whole"] = checks.whole(exchange, outcome)
    if "parent_step" in exchange.about:
        with _Check(case, "replayed"):
            case.judged["replayed"] = _replay(exchange, steps, reading)
    if exchange.request is None or exchange.about.get("recorded") is False:  # what was made up was taken by nobody
        return case
    with _Check(case, "audited"):
        case.follows = follows(exchange)
        given = [_said(ancestor) for ancestor in _ancestors(exchange, steps, reading)]
        case.judged["audited"] = audited(exchange, [message for message in given if message is not None])
    return case


class _Check:
    """A check whose exceptions are faults: a codec that raises has failed it, and the run goes on."""

    def __init__(self, case: Case, name: str) -> None:
        self._case = case
        self._name = name

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, _: object) -> bool:
        if not isinstance(exc, Exception):
            return False
        last = traceback.extract_tb(exc.__traceback__)[-1]
        where = f"{Path(last.filename).name}:{last.lineno}"
        self._case.judged[self._name] = Judged([f"raised {type(exc).__name__}: {str(exc)[:200]} ({where})"])
        return True


def _replay(exchange: Exchange, steps: dict[Any, Exchange], reading: _Reading) -> Judged:
    parent = steps.get(exchange.about["parent_step"])
    if rule := excluded(exchange, parent):
        return Judged(excluded=rule)
    return replayed(exchange, _ancestors(exchange, steps, reading))


def _ancestors(exchange: Exchange, steps: dict[Any, Exchange], reading: _Reading) -> list[Ancestor]:
    """Return the exchanges that led to this one, the first one first, as far as they were answered in its dialect."""
    parent = steps.get(exchange.about.get("parent_step")) if "parent_step" in exchange.about else None
    ancestors: list[Ancestor] = []
    seen = {exchange.name}
    while parent is not None and parent.name not in seen and parent.dialect == exchange.dialect:
        if parent.about.get("status") != 200:
            break
        seen.add(parent.name)
        ancestors.insert(0, Ancestor(parent, reading.of(parent)[1]))
        parent = steps.get(parent.about.get("parent_step"))
    return ancestors


def _said(ancestor: Ancestor) -> AssistantMessage | None:
    said = ancestor.outcome.said
    return said.choices[0].message if said is not None and said.choices else None


def _count(case: Case, outcome: Outcome) -> None:
    for choice in outcome.said.choices if outcome.said else ():
        for block in choice.message.blocks:
            case.blocks += 1
            if isinstance(block, Opaque):
                case.opaque.append(_kind(load(block.raw)))


def _kind(raw: Any) -> str:
    if not isinstance(raw, dict):
        return type(raw).__name__
    named = raw.get("type")
    return named if isinstance(named, str) else ",".join(sorted(raw))
