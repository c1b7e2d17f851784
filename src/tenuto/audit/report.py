"""What an audit comes to: a verdict on each block, and what the provider would find fault with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

import msgspec

__all__ = ["BlockFate", "Fate", "Finding", "Report", "Severity"]

Severity: TypeAlias = Literal["refused", "changed", "lost", "warned"]
"""The provider answers with an error; what was sent before cannot be made again; it takes it and spoils it; it takes it,
and there is something to know."""
Fate: TypeAlias = Literal["kept", "translated", "stripped", "dropped", "refused"]
"""It goes as it is; in another form; without its token or a part of it; not at all; and the provider would refuse it."""


_PLACES = 5
"""How many places of the same finding are named in a text."""


class Finding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One rule that the request breaks.

    `rule` is its id in the book (`tenuto.core.rules`). `pointer` is a JSON pointer into the request's body, `place` says
    where that stands in the transcript, as far as it stands there (`messages[3].blocks[1]`). `says` is what the provider
    would answer, as far as its words are known; `source` is where the rule is known from.
    """

    rule: str
    severity: Severity
    pointer: str = ""
    place: str = ""
    says: str = ""
    remedy: str = ""
    source: str = ""


class BlockFate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What becomes of one block of the transcript.

    `place` is where it stands (`messages[3].blocks[1]`, `messages[0].content[2]`, `messages[4].results[0]`), `kind` what
    it is, `pointer` where it goes in the request. `token` says that it has a token of its issuer's, and keeps it. Where
    it does not go as it is, `rule` names the reason, `why` says it in words, and `remedy` what can be done about it.
    """

    place: str
    kind: str
    fate: Fate
    pointer: str = ""
    rule: str = ""
    why: str = ""
    remedy: str = ""
    source: str = ""
    token: bool = False


class Report(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What would become of a conversation that is sent to a target.

    `target` is `provider/model`. `compared` counts the requests of the journal that were made again and compared with
    what was sent; each that differs is a finding `changed`.
    """

    target: str
    dialect: str
    blocks: tuple[BlockFate, ...] = ()
    findings: tuple[Finding, ...] = ()
    compared: int = 0

    @property
    def clean(self) -> bool:
        """Whether the provider would take it, and what was sent before can be made again byte for byte."""
        return not any(finding.severity in ("refused", "changed") for finding in self.findings)

    @property
    def refused(self) -> tuple[Finding, ...]:
        """What the provider would refuse."""
        return tuple(finding for finding in self.findings if finding.severity == "refused")

    def as_dict(self) -> dict[str, Any]:
        """Return the report as plain values, for JSON."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        listed = {name: list(value) if isinstance(value, tuple) else value for name, value in plain.items()}
        return {"clean": self.clean, "fates": self.fates(), **listed}

    def fates(self) -> dict[str, int]:
        """Count the blocks by what becomes of them."""
        counts: dict[str, int] = {}
        for block in self.blocks:
            counts[block.fate] = counts.get(block.fate, 0) + 1
        return counts

    def _changed(self) -> int:
        return sum(finding.severity == "changed" for finding in self.findings)

    def __str__(self) -> str:
        """The report in words, a line for each thing there is to say."""
        tokens = sum(block.token for block in self.blocks)
        signed = f" ({tokens} with {'its token' if tokens == 1 else 'their tokens'})" if tokens else ""
        counts = [f"{count} {fate}{signed if fate == 'kept' else ''}" for fate, count in self.fates().items()]
        counted = ", ".join(counts) or "no blocks"
        verdict = "would be taken" if not self.refused else "would be refused"
        lines = [f"{self.target} ({self.dialect}): {verdict}; {counted}"]
        if self.compared:
            again = "request" if self.compared == 1 else "requests"
            lines.append(f"{self.compared} earlier {again} made again, {self._changed() or 'none'} with other bytes")
        lines += _told(self.findings)
        lines += [_fate_line(block) for block in self.blocks if block.fate != "kept"]
        return "\n".join(lines)


def _told(findings: Iterable[Finding]) -> list[str]:
    """Say what was found; the same of several places in one breath."""
    alike: dict[tuple[str, str, str], list[Finding]] = {}
    for finding in findings:
        alike.setdefault(
            (finding.severity, finding.rule, finding.says if finding.severity != "warned" else ""), []
        ).append(finding)
    return [_line(found[0], found[1:]) for found in alike.values()]


def _line(finding: Finding, more: list[Finding]) -> str:
    where = " ".join(filter(None, (finding.pointer, finding.place and f"({finding.place})")))
    parts = [f"{finding.severity}  {finding.rule}  {where}".rstrip()]
    if more:
        others = ", ".join(found.pointer or found.place for found in more[:_PLACES])
        rest = f" and {len(more) - _PLACES} more" if len(more) > _PLACES else ""
        parts.append(f"    also at: {others}{rest}")
    if finding.says:
        parts.append(f"    it says: {_flat(finding.says)}")
    if finding.remedy:
        parts.append(f"    do: {finding.remedy}")
    if finding.source:
        parts.append(f"    known from: {finding.source}")
    return "\n".join(parts)


def _fate_line(block: BlockFate) -> str:
    rule = f" [{block.rule}]" if block.rule else ""
    text = f"{block.fate}  {block.place}  {block.kind}: {_flat(block.why)}{rule}"
    return f"{text}\n    {block.remedy}" if block.remedy else text


def _flat(said: str) -> str:
    """Return in one line what somebody else said: a line of the report is the report's."""
    return " ".join(said.split())
