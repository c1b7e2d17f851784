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
_TOOLS, _CALLS = 8, 20
_LONG = 4000
_ORDER = re.compile(
    r"\b(?:then|after that|afterwards|once (?:you|that|it)|next,|finally|subsequently|first)\b", re.IGNORECASE
)
_ENDS = {"final", "submit", "finish", "done", "respond"}
_DEPENDS = re.compile(
    r"\band (?:then )?(?:e-?mail|mail|send|save|write|store|post|share|put|add|tell|report|forward|log|upload|text)\b[^.!?]{0,30}?"
    r"\b(?:it|them|that|this|the (?:results?|answer|summary|output|weather|forecast|time))\b",
    re.IGNORECASE,
)
_AGAIN = re.compile(
    r"(?:(?:please|ok|okay|now|no|hm|can you|could you),? )*"
    r"(?:(?:try|do|run|check|call|ask)(?: it| that| this)? (?:again|once more)|again|retry|redo(?: it| that)?|once more)(?:,? please)?[.!? ]*",
    re.IGNORECASE,
)
_FOLLOWS = re.compile(
    r"(?:and|or|but|also|what about|how about|no,? (?:i meant|make it)|i meant|same (?:for|in)|now|in|for)\b,?"
    r"(?: (?!what|who|why|how|when|where|which|tell|is|are|do|does|can|could|say|write|explain|thanks|thank)[\w.'\u2019-]+,?){1,5}\s*[?.!]*",
    re.IGNORECASE,
)
_COMMAND = re.compile(
    r"(?:please )?(?:run|execute)\b|(?:select|insert|update|delete)\b.{0,200}\b(?:from|into|set)\b", re.IGNORECASE
)
_ASKING = re.compile(r"\?|^(?:please |can you |could you )?[a-z]+\b", re.IGNORECASE)


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """Where a conversation stands: the last request of the user, and what has come of it since."""

    task: str = ""
    """What is asked; of `try again`, what was asked before."""
    words: str = ""
    """The same as the user put it."""
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
    spoken = [at for at, one in enumerate(said) if one.role == "user" and one.text.strip()]
    at = max(spoken, default=-1)
    begun = max((at for at in spoken if not said[at].results), default=at)  # what stands beside results goes on with it
    since = said[max(begun, 0) :]
    called = Counter(name for one in since for name, _ in one.calls)
    answered = Counter(name for one in since for name, _ in one.results)
    last = said[-1] if said else None
    asked = [_bounded(said[at].text.strip()) for at in spoken]
    meant = next((text for text in reversed(asked) if not _AGAIN.fullmatch(text)), "")
    return Situation(
        task=meant or "".join(asked[-1:]),
        words="".join(asked[-1:]),
        before=tuple(asked[:-1]),
        said=tuple(_bounded(one.text) for one in said if one.role == "assistant" and one.text.strip()),
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
    known = _Known(tools)
    task = _context(at)
    planned = [_Part(tool, task) for tool in named] or _fitting(tools, task, known)
    if task != at.task:
        planned = [_Part(part.tool, task) for part in planned]
    todo: list[Call] = []
    room = _CALLS
    for part in planned:
        made = _made(part, at, mint, known)[:room]
        room -= len(made)
        todo += made[at.made.get(part.tool.name, 0) :]  # counted: a call may have been changed since
    if not todo and forced:
        todo = _made(_Part(_next(named or tools, planned, at), task), at, mint, known)[:1]
    in_order = len(planned) > 1 and bool(_ORDER.search(at.task) or _DEPENDS.search(at.task))
    return tuple(todo[:1] if in_order or not asked.parallel else todo)


def _context(at: Situation) -> str:
    """Return what is asked; `and in Bergen?` together with the question before it."""
    texts = [at.task]
    for earlier in reversed(at.before):
        if len(texts) > 3 or len(texts[-1]) > 80 or not _FOLLOWS.fullmatch(texts[-1]) or is_smalltalk(texts[-1]):
            break
        texts.append(earlier)
    return "\n".join(texts)


def _next(tools: list[Offered], planned: list[_Part], at: Situation) -> Offered:
    """A call must be made, and all that the request asks for is made: that which ends it all, or which is still new."""
    ending = [tool for tool in tools if _ENDS & set(parts(tool.name))]
    unused = [tool for tool in tools if not at.made.get(tool.name)]
    return [*ending, *unused, *(part.tool for part in planned), *tools][0]


def _made(part: _Part, at: Situation, mint: Mint, known: _Known) -> list[Call]:
    """Return all calls of one tool: one, or one for each of several names that stand side by side."""
    ends = bool(_ENDS & set(parts(part.tool.name)))
    text = f"{part.text}\n{at.brought}" if ends else part.text
    words = Words(text, at.brought, part.text, known.of(part.tool.name))
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


class _Known:
    """What the tools of a request are about, by the words that they are described with."""

    def __init__(self, tools: list[Offered]) -> None:
        self._words = {tool.name: _vocabulary(tool) for tool in tools}
        self._shared = Counter(word for words in self._words.values() for word in words)
        self._alone = len(tools) == 1

    def scores(self, text: str, names: Iterable[str] | None = None) -> dict[str, float]:
        """Say how much each tool has in common with a text; a word that several tools have counts the less."""
        said = sorted(set(content(text)))
        found: dict[str, float] = {}
        for name in self._words if names is None else names:
            words = self._words[name]
            found[name] = sum(words[word] / self._shared[word] for word in said if word in words)
            if name in text and ("_" in name or not self._alone) and _stands(name, text):
                found[name] += _NAMED
        return found

    def of(self, name: str) -> frozenset[str]:
        """Return the words of a tool."""
        return frozenset(self._words[name])


def _stands(name: str, text: str) -> bool:
    return bool(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text))


def _fitting(tools: list[Offered], task: str, known: _Known) -> list[_Part]:
    """Return the tools that a request speaks of, in the order in which it does, each with its part of the request."""
    scores = known.scores(task)
    best = max(scores.values(), default=0.0)
    if is_smalltalk(task) and best < _NAMED:
        return []
    chosen = [tool for tool in tools if scores[tool.name] >= max(_ENOUGH, best * 0.4)]
    chosen = [tool for tool in chosen if not _ENDS & set(parts(tool.name))] or chosen
    if not chosen:
        words = Words(task)
        meant = [tool for tool in tools if _is_fed(tool, words)] if not sums.find(task) else []
        meant = meant or [tool for tool in tools if len(tools) == 1 and _is_task(task, tool)]
        return [_Part(tool, task) for tool in meant[:1]]
    if len(chosen) == 1:
        return [_Part(chosen[0], task)]
    likely = sorted(chosen, key=lambda tool: -scores[tool.name])[:_TOOLS]
    clauses = Words(task).clauses()[:40]
    scored = [known.scores(clause, [tool.name for tool in likely]) for clause in clauses]
    parted = [(_first([one[tool.name] for one in scored]), tool) for tool in likely]
    return [_Part(tool, _rich(clauses[at], task)) for at, tool in sorted(parted, key=lambda pair: pair[0])]


def _first(scores: list[float]) -> int:
    return scores.index(max(scores))


def _rich(clause: str, task: str) -> str:
    """A part of the request that names nothing is read with all of it."""
    words = Words(clause)
    return clause if words.names or words.numbers or words.quoted or words.urls or words.paths or words.emails else task


def _vocabulary(tool: Offered) -> dict[str, float]:
    inside = tool.schema.get("properties")
    fields: dict[str, Any] = inside if isinstance(inside, dict) else {}
    told = [tool.description, *(" ".join(parts(name)) for name in fields)]
    for field in fields.values():
        if isinstance(field, dict):
            told.append(str(field.get("description") or ""))
            told.extend(_texts(field.get("enum")))
    elsewhere = {word: _ELSEWHERE for text in told for word in content(text[:_LONG])}
    return elsewhere | {stem(part): _IN_NAME for part in parts(tool.name) if content(part)}


def _texts(values: object) -> Iterable[str]:
    return [value for value in values if isinstance(value, str)] if isinstance(values, list) else []


def _is_fed(tool: Offered, words: Words) -> bool:
    """Say whether a request that does not speak of a tool gives just what it takes: a path, an address, a command."""
    inside, needed = tool.schema.get("properties"), tool.schema.get("required")
    if not isinstance(inside, dict) or not isinstance(needed, list) or not needed:
        return False
    kinds = [choosing.Field(str(name)).kinds()[:1] for name in needed]
    fed = {"path": words.paths, "url": words.urls, "code": _COMMAND.match(words.text)}
    return any(fed.get(kind) and all(one == [kind] for one in kinds) for kind in fed)


def _is_task(task: str, tool: Offered) -> bool:
    """Say whether a request that shares no word with the only tool is still likely to be meant for it."""
    words = Words(task)
    flat = next(flattened(tool.schema, tool.schema), {})
    numeric = "number" in str(flat.get("properties")) or "integer" in str(flat.get("properties"))
    if sums.find(task):
        return numeric or "expression" in str(flat.get("properties"))
    offers = words.names or words.quoted or words.urls or words.paths or words.emails or (numeric and words.numbers)
    return bool(offers and flat.get("properties") and _ASKING.search(task) and task.rstrip().endswith("?"))
