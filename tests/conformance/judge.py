"""Run every check on every exchange of a conversation."""

from __future__ import annotations

import dataclasses
import traceback
from pathlib import Path
from typing import Any

from conformance import checks
from conformance.ancestors import Ancestor, Conversation
from conformance.audit_checks import audited, follows
from conformance.checks import Judged
from conformance.corpus import Exchange
from conformance.jsontext import load
from conformance.replay import replayed
from conformance.subject import Outcome
from tenuto.core.blocks import Opaque
from tenuto.core.messages import AssistantMessage

__all__ = ["CHECKS", "Case", "judge"]

CHECKS = ("decoded", "streamed", "rechunked", "stored", "whole", "replayed", "audited")


@dataclasses.dataclass
class Case:
    """The results of one exchange.

    `opaque` names the wire types that were decoded as `Opaque`. `follows` is whether the request contains an earlier
    reply. `oracles_differ` is whether the corpus marks the case with `own_agrees: false`.
    """

    name: str
    dialect: str
    provider: str
    judged: dict[str, Judged] = dataclasses.field(default_factory=dict)
    blocks: int = 0
    opaque: list[str] = dataclasses.field(default_factory=list)
    follows: bool = False
    oracles_differ: bool = False
    corpus: str = ""
    source: str = ""


def judge(folders: list[Path], wanted: frozenset[Path] | None = None) -> list[Case]:
    """Judge the exchanges of one conversation; only those whose folders are `wanted`, if given."""
    conversation = Conversation(folders)
    selected = [one for one in conversation.exchanges if one.judged and (wanted is None or one.folder in wanted)]
    return [_case(exchange, conversation) for exchange in selected]


def _case(exchange: Exchange, conversation: Conversation) -> Case:
    case = Case(exchange.name, exchange.dialect, exchange.provider, corpus=exchange.corpus, source=exchange.source)
    with _Check(case, "decoded"):
        target, outcome = conversation.decoded(exchange)
        case.oracles_differ = exchange.expected.get("own_agrees") is False
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
            ancestors = conversation.ancestors(exchange)
            case.judged["replayed"] = replayed(exchange, ancestors, conversation.linked(exchange))
    if (
        exchange.request is None or exchange.about.get("recorded") is False
    ):  # no provider accepted a constructed request
        return case
    with _Check(case, "audited"):
        case.follows = follows(exchange)
        replies = [_message(ancestor) for ancestor in conversation.ancestors(exchange)]
        case.judged["audited"] = audited(exchange, [message for message in replies if message is not None])
    return case


class _Check:
    """Record an exception of a check as its fault, so that the run continues."""

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


def _message(ancestor: Ancestor) -> AssistantMessage | None:
    response = ancestor.outcome.reply
    return response.choices[0].message if response is not None and response.choices else None


def _count(case: Case, outcome: Outcome) -> None:
    for choice in outcome.reply.choices if outcome.reply else ():
        for block in choice.message.blocks:
            case.blocks += 1
            if isinstance(block, Opaque):
                case.opaque.append(_kind(load(block.raw)))


def _kind(raw: Any) -> str:
    if not isinstance(raw, dict):
        return type(raw).__name__
    named = raw.get("type")
    return named if isinstance(named, str) else ",".join(sorted(raw))
