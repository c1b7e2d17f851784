"""The rule book as a page: what is refused, with which words, and whether the simulator checks it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from tenuto.core.provider import Dialect
from tenuto.core.rules import Rule, rules
from tenuto.sim.voices import unchecked, voice

__all__ = ["rules_page"]

_INTRODUCTION = """\
# Rules

Made from the rule book by `python -m tenuto.sim --rules`; a test holds that it is current. Change the rows in
`core/rule_rows/`, not this page.

What providers refuse, and what they take and spoil. The simulator enforces every rule that is *checked*, with the
provider's status, form and words. A rule is **refused** (an error), **lost** (taken, and something is silently dropped)
or **warned** (taken, and worse than it could be). *core* rules are those one meets every day.

The wording of a refusal is *verbatim* where it was quoted in traffic, a document or a report, *partial* in one variant
only, *unverified* where only the refusal is certain. Confidence: *recorded* in traffic, *documented*, *practice*
(reported with the text), *inferred*.
"""


def rules_page() -> str:
    """Return every rule as a page in Markdown, by dialect, in the order of the book."""
    why_not = unchecked()
    checked = {id for dialect in get_args(Dialect) for id in voice(dialect).checks}
    by_dialect: dict[str, list[Rule]] = {}
    for found in rules().values():
        by_dialect.setdefault(found.dialect, []).append(found)
    lines = [_INTRODUCTION, "| dialect | rules | core | checked |", "|---|---|---|---|"]
    for dialect, rows in by_dialect.items():
        core, held = sum(row.tier == "core" for row in rows), sum(row.id in checked for row in rows)
        lines.append(f"| [{dialect}](#{dialect}) | {len(rows)} | {core} | {held} |")
    for dialect, rows in by_dialect.items():
        lines += ["", f"## {dialect}"]
        for row in rows:
            told = "checked" if row.id in checked else f"not checked: {why_not.get(row.id, 'no reason is given')}"
            lines += ["", f"### {row.id}", "", *(f"* {fact}" for fact in _facts(row, told))]
    return "\n".join(lines) + "\n"


def _facts(row: Rule, checked: str) -> Iterator[str]:
    yield f"{row.tier}, {row.severity}, {checked}"
    yield f"for: {row.scope}"
    yield f"when: {row.when}"
    if row.status:
        parts = [str(row.status), row.type, *(f"{name} `{value}`" for name, value in _parts(row) if value)]
        yield f"answer: {' '.join(part for part in parts if part)}"
    for text in row.says:
        if text:
            yield f"says ({row.trust}): {_code(text)}"
    if row.place:
        yield f"at: {_code(row.place)}"
    if row.remedy:
        yield f"remedy: {row.remedy}"
    yield f"{row.confidence}, {row.as_of}: {row.source}"


def _parts(row: Rule) -> tuple[tuple[str, str | None], ...]:
    return ("param", row.param), ("code", row.code)


def _code(text: str) -> str:
    """Write a text as code, whatever marks it holds."""
    fence = "``" if "`" in text else "`"
    space = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{space}{text}{space}{fence}"
