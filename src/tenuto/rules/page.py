"""The rule book as a page: `python -m tenuto.sim --rules > docs/rules.md`."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from itertools import groupby

import msgspec

from tenuto.core.provider import Provider
from tenuto.rules.book import Rule, UnverifiedText, all_rules

_INTRODUCTION = """\
# Rules

Conditions under which providers refuse a request, drop a part of it, or accept it with a caveat. The simulator refuses
with these rules, and the audit predicts with them. `python -m tenuto.sim --rules > docs/rules.md` writes this page from
`src/tenuto/rules/`; a test checks that it is current.

* **severity**: `refused`: the provider returns an error. `lost`: accepted, but content is dropped. `warned`: accepted,
  with a caveat.
* **for**: the targets for which the rule holds. A name in code quotes is a model trait, a switch of the provider row, or
  a property of the request.
* **certain**: whether the audit reports a refusal; otherwise it warns, and the simulator refuses nevertheless. `partly`:
  other providers may accept the request.

A message is the provider's own text, with names in braces, unless it is marked as *unverified*.
"""
_SWITCH_GROUPS = {field.name for field in msgspec.structs.fields(Provider) if isinstance(field.default, msgspec.Struct)}
_NAVIGATION = {
    *dir(builtins),
    *_SWITCH_GROUPS,
    *("body", "context", "dialect", "get", "known", "model", "row", "switches", "traits"),
}
"""Names in a condition that lead to a trait or switch, but are none."""


def rules_page() -> str:
    """Return every rule as Markdown, by dialect, in the order of checking."""
    dialects = {dialect: list(rules) for dialect, rules in groupby(all_rules().values(), key=lambda rule: rule.dialect)}
    lines = [_INTRODUCTION, "| dialect | rules | refused |", "|---|---|---|"]
    for dialect, rules in dialects.items():
        refused = sum(rule.severity == "refused" for rule in rules)
        lines.append(f"| [{dialect}](#{dialect}) | {len(rules)} | {refused} |")
    for dialect, rules in dialects.items():
        lines += ["", f"## {dialect}", "", "| rule | summary | severity | for | certain |", "|---|---|---|---|---|"]
        lines += [_row(rule) for rule in rules]
        for rule in rules:
            lines += ["", f"<details><summary>{rule.id}</summary>", "", *(f"* {fact}" for fact in _details(rule))]
            lines += ["", "</details>"]
    return "\n".join(lines) + "\n"


def _row(rule: Rule) -> str:
    certain = "no" if not rule.certain else "partly" if rule.refused_by else "yes"
    severity = f"{rule.severity}, unchecked" if rule.unchecked else rule.severity
    cells = [rule.summary, severity, _audience(rule), certain if rule.severity == "refused" else ""]
    escaped = [cell.replace("|", "\\|") for cell in cells]
    return " | ".join([f'| <a id="{rule.id.lower()}"></a>{rule.id}', *escaped]) + " |"


def _audience(rule: Rule) -> str:
    """Return the targets for which a rule holds, as far as the fields of the rule tell."""
    parts = [", ".join(rule.only)] if rule.only else []
    if rule.applies:
        used = [
            name
            for applies in rule.applies
            for name in (applies.__code__.co_names if applies.__name__ == "<lambda>" else [applies.__name__.strip("_")])
        ]
        names = dict.fromkeys(name for name in used if name.islower() and name[0] != "_" and name not in _NAVIGATION)
        parts.append("by " + ", ".join(f"`{name}`" for name in names) if names else "some models")
    if rule.refused_by:
        parts.append(f"certain for {', '.join(rule.refused_by)}")
    if rule.accepted_by:
        parts.append(f"accepted by {', '.join(rule.accepted_by)}")
    return "; ".join(parts) or "all"


def _details(rule: Rule) -> Iterator[str]:
    for message in rule.messages:
        mark = " (unverified)" if isinstance(message, UnverifiedText) else ""
        yield f"message{mark}: {_code(message)}"
    if rule.severity == "refused":
        fields = {"type": rule.type, "param": rule.param, "code": rule.code}
        named = [f"{name} {_code(value)}" for name, value in fields.items() if value]
        yield ", ".join([f"status: {rule.status}", *named])
    if rule.unchecked:
        yield f"unchecked: {rule.unchecked}"
    yield f"remedy: {rule.remedy}"
    yield f"source ({rule.confidence}{', ' if rule.as_of else ''}{rule.as_of}): {rule.source}"


def _code(text: str) -> str:
    """Write a text as code, also one that contains backticks."""
    fence = "``" if "`" in text else "`"
    space = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{space}{text}{space}{fence}"
