"""Differences between the recorded and the current behavior, as text."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence

from baseline.traffic import TARGETS

__all__ = [
    "compare_commands",
    "compare_coverage",
    "compare_events",
    "compare_requests",
    "compare_runs",
    "count_targets",
    "within_tolerance",
]

Sections = dict[str, list[str]]
_ALLOWED = 1
"""The tolerance of coverage in points: some lines run only in some orders of events."""


def compare_events(recorded: Sections, current: Sections, cases: dict[str, str]) -> list[str]:
    """List the responses whose events differ, with the difference."""
    found = []
    for case, old, new in _changed_cases(recorded, current, cases):
        if old is None or new is None:
            found.append(f"{case}: {_presence(old)}")
            continue
        differences = []
        if old[0] != new[0]:
            differences.append(f"{old[0]} events recorded, now {new[0]}")
        if old[1] != new[1]:
            differences.append("the events before the last differ")
        if old[2] != new[2]:
            differences.append("the response differs" + _errors(old[2], new[2]))
        if old[3:4] != new[3:4]:
            differences.append(f"losses recorded: {_one(old[3:4])}, now: {_one(new[3:4])}")
        elif old[4:] != new[4:]:
            differences.append("the texts of losses differ")
        found.append(f"{case}: {'; '.join(differences)}")
    return found


def compare_requests(recorded: Sections, current: Sections, cases: dict[str, str]) -> list[str]:
    """List the transcripts whose requests differ, with their targets."""
    found: list[str] = []
    for case, old, new in _changed_cases(recorded, current, cases):
        if old is None or new is None or len(old) == 1 or len(new) == 1:
            found.append(
                f"{case}: {_presence(old) if old is None or new is None else 'its transcript is empty or not'}"
            )
            continue
        changed = [
            (target, _part(before, after))
            for target, before, after in zip(TARGETS, old, new, strict=False)
            if before != after
        ]
        differences = [f"{target} ({part})" for target, part in changed] or ["the texts of losses differ"]
        found.append(f"{case}: {', '.join(differences)}")
    return found


def count_targets(found: Sequence[str]) -> str:
    """Return the number of differing requests for each target."""
    counts = Counter(target for target in TARGETS for one in found if f" {target} (" in one)
    return ", ".join(f"{target} {count}" for target, count in counts.most_common())


def compare_runs(recorded: Sections, current: Sections) -> list[str]:
    """List the agent runs that differ, with the first differing line."""
    found = _presences(recorded, current)
    for name in (name for name in recorded if name in current and recorded[name] != current[name]):
        old, new = recorded[name], current[name]
        at = next((at for at, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
        differing = sum(1 for line in difflib.unified_diff(old, new, n=0) if line[0] in "+-") - 2
        found.append(
            f"{name}: line {at + 1} differs ({differing} lines in all)\n"
            f"  recorded: {old[at] if at < len(old) else '(ends here)'}\n"
            f"  now:      {new[at] if at < len(new) else '(ends here)'}"
        )
    return found


def compare_commands(recorded: Sections, current: Sections, *, exit_codes: bool = False) -> list[str]:
    """List the command lines whose output differs, as unified diffs; or compare the exit codes alone."""
    found = _presences(recorded, current)
    for name in (name for name in recorded if name in current):
        old, new = (lines[name][:1] if exit_codes else lines[name] for lines in (recorded, current))
        if old != new:
            found.append("\n".join([f"{name}:", *_diff(old, new)]))
    return found


def compare_coverage(recorded: Sections, current: Sections, packages: dict[str, str]) -> list[str]:
    """List the packages whose coverage is below the recorded one by more than the tolerance."""
    now = {name: int(lines[0]) for name, lines in current.items()}
    found = []
    for old, lines in recorded.items():
        new = packages.get(old, old)
        if new not in now:
            found.append(f"{old}: {lines[0]} % recorded, and there is no {new}: add the package to renames.PACKAGES")
        elif now[new] < int(lines[0]) - _ALLOWED:
            found.append(f"{old}: {lines[0]} % recorded, now {now[new]} %")
    return found


def within_tolerance(recorded: Sections | None, current: Sections) -> Sections:
    """Return the current coverage; within the tolerance, the recorded one."""
    recorded_percentages = recorded or {}
    return {
        name: recorded_percentages[name]
        if name in recorded_percentages and abs(int(recorded_percentages[name][0]) - int(lines[0])) <= _ALLOWED
        else lines
        for name, lines in current.items()
    }


def _changed_cases(recorded: Sections, current: Sections, cases: dict[str, str]):
    for group in dict.fromkeys((*recorded, *current)):
        old, new = (_by_key(lines.get(group, [])) for lines in (recorded, current))
        for key in dict.fromkeys((*old, *new)):
            if old.get(key) != new.get(key):
                case = cases.get(f"{group} {key}", f"(case {key}, which is not in the corpus)")
                yield f"{group}/{case}", old.get(key), new.get(key)


def _by_key(lines: Sequence[str]) -> dict[str, list[str]]:
    return {line.split()[0]: line.split()[1:] for line in lines}


def _presence(old: list[str] | None) -> str:
    return "not recorded" if old is None else "recorded, and not there any more"


def _presences(recorded: Sections, current: Sections) -> list[str]:
    return [
        f"{name}: {'recorded, and not there any more' if name in recorded else 'not recorded'}"
        for name in dict.fromkeys((*recorded, *current))
        if (name in recorded) != (name in current)
    ]


def _errors(old: str, new: str) -> str:
    before, after = old.partition("!")[2], new.partition("!")[2]
    return f" (error recorded: {before or 'none'}, now: {after or 'none'})" if before != after else ""


def _one(kinds: list[str]) -> str:
    return kinds[0] if kinds else "none"


def _part(old: str, new: str) -> str:
    if "!" in (old[0], new[0]):
        return f"{old if old[0] == '!' else 'encoded'}, now {new if new[0] == '!' else 'encoded'}"
    (body, _, losses), (body_now, _, losses_now) = old.partition(":"), new.partition(":")
    parts = [part for part, differs in (("bytes", body != body_now), ("losses", losses != losses_now)) if differs]
    return " and ".join(parts)


def _diff(old: list[str], new: list[str]) -> list[str]:
    lines = list(difflib.unified_diff(old, new, "recorded", "now", lineterm="", n=1))
    return [f"  {line}" for line in lines]
