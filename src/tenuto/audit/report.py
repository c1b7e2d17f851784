"""The result of an audit: an outcome for each block, and the rules that the request breaks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

import msgspec

from tenuto.core.cache_misses import CacheMiss
from tenuto.core.loss import Location

Severity: TypeAlias = Literal["refused", "changed", "lost", "warned"]
"""`refused`: the provider returns an error; `changed`: a past request is no longer reproduced byte for byte; `lost`:
accepted, but content is dropped; `warned`: accepted with a caveat, or possibly refused."""
OutcomeKind: TypeAlias = Literal["kept", "translated", "stripped", "dropped", "refused"]
"""Sent unchanged; in another form; without its token or a part; not sent; sent, and the provider refuses it."""
_MAX_PLACES = 5


class Finding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One rule that the request breaks, or a past request that changed."""

    rule: str
    """The id of the rule (docs/rules.md)."""
    severity: Severity
    pointer: str = ""
    """JSON pointer into the body."""
    location: Location | None = None
    """The block of the transcript at the pointer, if there is one."""
    entry: int | None = None
    """The number of the journal entry, for a past request."""
    says: str = ""
    """The provider's error message."""
    remedy: str = ""
    source: str = ""
    certain: bool = True
    """Whether the provider is known to refuse. Otherwise the severity is `warned`."""
    verbatim: bool = True
    """Whether `says` is the provider's own text."""


class BlockOutcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What happens to one block of the transcript."""

    location: Location
    kind: str
    outcome: OutcomeKind
    pointer: str = ""
    """JSON pointer into the body; empty if the block is not sent."""
    loss: str = ""
    """The kind of the loss, if the block is not kept."""
    rule: str = ""
    """The rule that refuses the block, or that the loss avoids to break."""
    reason: str = ""
    remedy: str = ""
    source: str = ""
    token: bool = False
    """Whether the block has a token of its issuer and keeps it."""


class Report(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What happens to a conversation that is sent to a target."""

    target: str
    """`provider/model`."""
    dialect: str
    blocks: tuple[BlockOutcome, ...] = ()
    findings: tuple[Finding, ...] = ()
    compared: int = 0
    """The number of past requests of the journal that were written again and compared with their digests."""
    cache_misses: tuple[CacheMiss, ...] = ()
    """The past replies that read less from the provider's prompt cache than they could, with the cause."""
    compactions: tuple[str, ...] = ()
    """The compactions of the journal: what each covers, and the reason."""
    plan: str = ""
    """The compaction that would run now, if it was requested."""

    @property
    def clean(self) -> bool:
        """Whether the provider accepts the request, and all past requests are reproduced byte for byte."""
        return not any(finding.severity in ("refused", "changed") for finding in self.findings)

    @property
    def refused(self) -> tuple[Finding, ...]:
        """The findings for which the provider returns an error."""
        return tuple(finding for finding in self.findings if finding.severity == "refused")

    def as_dict(self) -> dict[str, Any]:
        """Return the report as plain values, for JSON."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        values = {name: list(value) if isinstance(value, tuple) else value for name, value in plain.items()}
        return {"clean": self.clean, "outcomes": self.outcomes(), **values}

    def outcomes(self) -> dict[str, int]:
        return dict(Counter(block.outcome for block in self.blocks))

    def __str__(self) -> str:
        """The report as text, one line per block that is not kept and a few per finding."""
        tokens = sum(block.token for block in self.blocks)
        signed = f" ({tokens} signed)" if tokens else ""
        counts = [
            f"{count} {outcome}{signed if outcome == 'kept' else ''}" for outcome, count in self.outcomes().items()
        ]
        verdict = "refused" if self.refused else "accepted"
        lines = [f"{self.target} ({self.dialect}): {verdict}; blocks: {', '.join(counts) or 'none'}"]
        if self.compared:
            changed = sum(finding.severity == "changed" for finding in self.findings)
            requests = "1 past request" if self.compared == 1 else f"{self.compared} past requests"
            lines.append(f"{requests} written again: {changed or 'none'} with other bytes")
        lines += [*self.compactions, *([self.plan] if self.plan else [])]
        lines += [f"entry {miss.seq}: {miss}" for miss in self.cache_misses]
        lines += _finding_lines(self.findings)
        lines += [_block_line(block) for block in self.blocks if block.outcome != "kept"]
        return "\n".join(lines)


def _finding_lines(findings: Iterable[Finding]) -> list[str]:
    """Describe the findings; equal findings at several places once."""
    groups: dict[tuple[str, str, str], list[Finding]] = {}
    for finding in findings:
        text = finding.says if finding.severity != "warned" else ""
        groups.setdefault((finding.severity, finding.rule, text), []).append(finding)
    return [_describe(*group) for group in groups.values()]


def _describe(finding: Finding, *others: Finding) -> str:
    lines = [f"{finding.severity}  {finding.rule}  {_place(finding)}".rstrip()]
    if others:
        places = ", ".join(other.pointer or _place(other) for other in others[:_MAX_PLACES])
        rest = f" and {len(others) - _MAX_PLACES} more" if len(others) > _MAX_PLACES else ""
        lines.append(f"    also at: {places}{rest}")
    if not finding.certain:
        lines.append("    may be refused: not confirmed for this provider")
    for name, text in (("message", finding.says), ("remedy", finding.remedy), ("source", finding.source)):
        if text:
            lines.append(f"    {name}: {' '.join(text.split())}")
    return "\n".join(lines)


def _place(finding: Finding) -> str:
    if finding.entry is not None:
        return f"entry {finding.entry}"
    return f"{finding.pointer} ({finding.location})" if finding.location else finding.pointer


def _block_line(block: BlockOutcome) -> str:
    name = block.loss or block.rule
    text = f"{block.outcome}  {block.location}  {block.kind}: {' '.join(block.reason.split())}{f' [{name}]' if name else ''}"
    return f"{text}\n    {block.remedy}" if block.remedy else text
