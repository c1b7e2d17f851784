"""Which tools the simulated model calls, how often and with what: a plan made of the request's own words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec

from tenuto.sim import choosing, sums
from tenuto.sim.asked import Asked, Offered, Said
from tenuto.sim.filling import fill
from tenuto.sim.merging import flattened
from tenuto.sim.mint import Mint
from tenuto.sim.schemas import types
from tenuto.sim.script import Call
from tenuto.sim.smalltalk import is_smalltalk
from tenuto.sim.words import Words, content, parts, stem

__all__ = ["Situation", "calls", "situation"]

_NAMED, _IN_NAME, _ELSEWHERE = 10.0, 3.0, 1.0
_ENOUGH = 1.0
_ORDER = re.compile(
    r"\b(?:then|after that|afterwards|once (?:you|that|it)|next,|finally|subsequently|first)\b", re.IGNORECASE
)
_ENDS = {"final", "submit", "finish", "done", "respond"}
_ASKING = re.compile(r"\?|^(?:please |can you |could you )?[a-z]+\b", re.IGNORECASE)


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """Where a conversation stands: the last request of the user, and what has come of it since."""

    task: str = ""
    before: tuple[str, ...] = ()
    """What the user said before that."""
    said: tuple[str, ...] = ()
    """What the assistant said before that."""
    prefill: str = ""
    """The beginning of the answer, where the request gives it."""
    made: dict[str, int] = {}
    """How often each tool was called since."""
    results: tuple[tuple[str, str], ...] = ()

    @property
    def brought(self) -> str:
        """All that the tools brought."""
        return "\n".join(text for _, text in self.results)


def situation(said: tuple[Said, ...]) -> Situation:
    """Read where a conversation stands."""
    at = max((at for at, one in enumerate(said) if one.role == "user" and one.text.strip()), default=-1)
    since = said[max(at, 0) :]
    called = Counter(name for one in since for name, _ in one.calls)
    answered = Counter(name for one in since for name, _ in one.results)
    last = said[-1] if said else None
    return Situation(
        task=_bounded(said[at].text.strip()) if at >= 0 else "",
        before=tuple(one.text for one in said[: max(at, 0)] if one.role == "user" and one.text.strip()),
        said=tuple(one.text for one in said if one.role == "assistant" and one.text.strip()),
        prefill=last.text if last and last.role == "assistant" and not last.calls else "",
        made=dict(called | answered),
        results=tuple(result for one in since for result in one.results),
    )


def _bounded(text: str) -> str:
    """What is asked for stands at the beginning of a long text, or at its end."""
    return text if len(text) <= 20_000 else f"{text[:10_000]}\n{text[-10_000:]}"


class _Part(msgspec.Struct, frozen=True):
    """A tool with the part of the request that is meant for it."""

    tool: Offered
    text: str


def calls(asked: Asked, at: Situation, mint: Mint) -> tuple[Call, ...]:
    """Return the calls to make now; none if there is nothing more to call."""
    tools = [tool for tool in asked.tools if tool.kind in ("function", "custom")]
    if asked.choice == "none" or not tools:
        return ()
    forced = asked.choice not in ("auto", "none")
    named = [tool for tool in tools if tool.name == asked.choice]
    planned = [_Part(tool, at.task) for tool in named] or _fitting(tools, at.task)
    todo = [call for part in planned for call in _left(part, at, mint)]
    if not todo and forced:
        todo = _made(_Part(_next(named or tools, planned, at), at.task), at, mint)[:1]
    one_by_one = not asked.parallel or (len(planned) > 1 and bool(_ORDER.search(at.task)))
    return tuple(todo[:1] if one_by_one else todo)


def _next(tools: list[Offered], planned: list[_Part], at: Situation) -> Offered:
    """A call must be made, and all that the request asks for is made: that which ends it all, or which is still new."""
    ending = [tool for tool in tools if _ENDS & set(parts(tool.name))]
    unused = [tool for tool in tools if not at.made.get(tool.name)]
    return [*ending, *unused, *(part.tool for part in planned), *tools][0]


def _left(part: _Part, at: Situation, mint: Mint) -> list[Call]:
    """Return the calls of a tool that have not been made yet. They are counted: a call may have been changed since."""
    return _made(part, at, mint)[at.made.get(part.tool.name, 0) :]


def _made(part: _Part, at: Situation, mint: Mint) -> list[Call]:
    """Return all calls of one tool: one, or one for each of several names that stand side by side."""
    words = Words(
        f"{part.text}\n{at.brought}" if _ENDS & set(parts(part.tool.name)) else part.text, at.brought, part.text
    )
    if part.tool.kind == "custom":
        found = sums.find(part.text)
        return [Call(part.tool.name, found.expression if found else choosing.wish(part.text))]
    group = words.group if _takes_one(part.tool.schema) else ()
    given = [_arguments(part.tool, words.only(member), mint) for member in group] or [
        _arguments(part.tool, words, mint)
    ]
    unique = [one for at, one in enumerate(given) if one not in given[:at]]
    return [Call(part.tool.name, arguments) for arguments in unique]


def _arguments(tool: Offered, words: Words, mint: Mint) -> dict[str, Any]:
    schema = tool.schema or {"type": "object", "properties": {}}
    found = fill(schema, words, mint)
    return found if isinstance(found, dict) else {}


def _takes_one(schema: dict[str, Any]) -> bool:
    """Say whether a tool takes one name at a time: it has a field for a text, and none for a list."""
    flat = next(flattened(schema, schema), {})
    inside = flat.get("properties")
    kinds = [types(one) for one in inside.values() if isinstance(one, dict)] if isinstance(inside, dict) else []
    return any("string" in kind for kind in kinds) and not any("array" in kind for kind in kinds)


def _fitting(tools: list[Offered], task: str) -> list[_Part]:
    """Return the tools that a request speaks of, in the order in which it does, each with its part of the request."""
    scores = _scores(tools, task)
    best = max(scores.values(), default=0.0)
    if is_smalltalk(task) and best < _NAMED:
        return []
    chosen = [tool for tool in tools if scores[tool.name] >= max(_ENOUGH, best * 0.4)]
    chosen = [tool for tool in chosen if not _ENDS & set(parts(tool.name))] or chosen
    if not chosen:
        return [_Part(tools[0], task)] if len(tools) == 1 and _is_task(task, tools[0]) else []
    if len(chosen) == 1:
        return [_Part(chosen[0], task)]
    clauses = Words(task).clauses()[:40]
    parted = [(_clause(tool, tools, clauses), tool) for tool in chosen]
    return [_Part(tool, _rich(clauses[at], task)) for at, tool in sorted(parted, key=lambda pair: pair[0])]


def _clause(tool: Offered, tools: list[Offered], clauses: tuple[str, ...]) -> int:
    scored = [_scores(tools, clause)[tool.name] for clause in clauses]
    return scored.index(max(scored))


def _rich(clause: str, task: str) -> str:
    """A part of the request that names nothing is read with all of it."""
    words = Words(clause)
    return clause if words.names or words.numbers or words.quoted or words.urls or words.paths or words.emails else task


def _scores(tools: list[Offered], task: str) -> dict[str, float]:
    """Say how much each tool has in common with a request; a word that several tools have counts the less."""
    known = {tool.name: _vocabulary(tool) for tool in tools}
    shared = Counter(word for words in known.values() for word in words)
    said = set(content(task))
    found: dict[str, float] = {}
    for tool in tools:
        words = known[tool.name]
        found[tool.name] = sum(words[word] / shared[word] for word in said if word in words)
        if re.search(rf"(?<!\w){re.escape(tool.name)}(?!\w)", task) and ("_" in tool.name or len(tools) > 1):
            found[tool.name] += _NAMED
    return found


def _vocabulary(tool: Offered) -> dict[str, float]:
    inside = tool.schema.get("properties")
    fields: dict[str, Any] = inside if isinstance(inside, dict) else {}
    told = [tool.description, *(" ".join(parts(name)) for name in fields)]
    for field in fields.values():
        if isinstance(field, dict):
            told.append(str(field.get("description") or ""))
            told.extend(_texts(field.get("enum")))
    elsewhere = {word: _ELSEWHERE for text in told for word in content(text)}
    return elsewhere | {stem(part): _IN_NAME for part in parts(tool.name) if content(part)}


def _texts(values: object) -> Iterable[str]:
    return [value for value in values if isinstance(value, str)] if isinstance(values, list) else []


def _is_task(task: str, tool: Offered) -> bool:
    """Say whether a request that shares no word with the only tool is still likely to be meant for it."""
    words = Words(task)
    flat = next(flattened(tool.schema, tool.schema), {})
    numeric = "number" in str(flat.get("properties")) or "integer" in str(flat.get("properties"))
    if sums.find(task):
        return numeric or "expression" in str(flat.get("properties"))
    offers = words.names or words.quoted or words.urls or words.paths or words.emails or (numeric and words.numbers)
    return bool(offers and flat.get("properties") and _ASKING.search(task) and task.rstrip().endswith("?"))
