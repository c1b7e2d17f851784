"""The models that the tables know, by their names.

The tables hold rules, which also cover dates, versions and names to come. Here stand the plain ids that a rule spells
out: its alternatives, with and without what may be left off. What is open in a rule (a date, a number, any ending) is left
off; a rule of which nothing is left then, and rules for families to come, give none. So this is no list of all that there
is: whatever else is asked for goes to the provider as it is.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime
from functools import cache
from typing import NamedTuple

from tenuto import catalog
from tenuto.agent.continuity import refusal
from tenuto.catalog import PROVIDERS, is_known_provider, qualify_model, resolve
from tenuto.catalog import find_provider as row_of
from tenuto.catalog.models import ModelRow, model_rows
from tenuto.core.target import Target

__all__ = ["Known", "known_models", "model_ids", "near_models", "spelt_out"]

_CLOSE = 0.7
_RELEASES = frozenset(("latest", "preview", "exp", "models"))
"""Words of an id that do not name a family."""
_WORD = 3
"""How long a part of a name has to be, for it to say anything."""


class Known(NamedTuple):
    """A model that the tables know: whom it is asked of, its name there, and the day it ends (ISO), if that is known."""

    provider: str
    model: str
    retires: str = ""

    @property
    def id(self) -> str:
        """The name that `-m` takes."""
        return f"{self.provider}/{self.model}"

    def served(self, on: date) -> bool:
        """Tell whether it is still there on a day, as far as is known."""
        return not self.retires or on.isoformat() < self.retires


@cache
def known_models() -> tuple[Known, ...]:
    """Return every model, in the order of the tables; those that have ended as well."""
    found: list[Known] = []
    for name, row in PROVIDERS.items():
        if name != row.name:  # another word for a row
            continue
        ids = list(row.plays) or list(_spelt(name))
        if row.default_model:  # its spelling is the vendor's own
            first = row.default_model
            ids = [first if id.lower() == first.lower() else id for id in ids]
            ids += [first] if first not in ids else []
        ends = [row.retired] if row.retired else []
        for model in ids:
            days = [*ends, catalog.model_traits(name, model).retires]
            found.append(Known(name, model, min(filter(None, days), default="")))
    return tuple(found)


def model_ids(*, ended: bool = False) -> list[str]:
    """Return the models by their names, as `-m` takes them; `ended` ones, too, if they are asked for."""
    today = datetime.now(UTC).date()
    return [model.id for model in known_models() if ended or model.served(today)]


def near_models(name: str, n: int = 3) -> list[str]:
    """Return up to `n` models to use instead of one that cannot be used, all of which an agent with tools can use.

    For a model that the tables know they are the newest of its family; for another name those with a similar name. The
    provider may be wrong, or missing.
    """
    full = qualify_model(name)
    usable = [known.id for known in _usable(datetime.now(UTC).date()) if known.id != full]
    found = _relatives(full, usable) if _is_known(full) else _similar(name, usable, n)
    return found[:n]


@cache
def _usable(on: date) -> tuple[Known, ...]:
    """Return the models that are served on a day and that suit an agent with tools: no speech models."""
    return tuple(known for known in known_models() if known.served(on) and _suits_agents(resolve(known.id)))


def _suits_agents(target: Target) -> bool:
    traits = target.traits
    return traits.served and traits.tools and "audio" not in traits.output_modalities and not refusal(target)


def _is_known(id: str) -> bool:
    """Tell whether a row describes this model, and not only a rule for families to come."""
    provider, _, model = id.partition("/")
    if not is_known_provider(provider) or row_of(provider).plays:  # a simulator has a row for any word
        return False
    return catalog.model_traits(row_of(provider).name, model).confidence in ("high", "medium")


def _relatives(id: str, ids: list[str]) -> list[str]:
    """Sort ids for one that they could replace: of its provider first, most words of the name in common, newest.

    Models of other providers are left out unless they have the first word of the name.
    """
    provider, _, model = id.partition("/")
    home, words = row_of(provider).name, _words(model)

    def rank(other: str) -> tuple[bool, int, int, int, int]:
        name, _, rest = other.partition("/")
        major, minor = _version(rest)
        theirs = _words(rest)
        return name != home, -len(set(words) & set(theirs)), -major, -minor, len(theirs)

    return sorted((other for other in ids if not rank(other)[0] or set(words[:1]) & set(_words(other))), key=rank)


def _words(model: str) -> list[str]:
    """Return the words that name a family: `claude` and `sonnet` of `claude-3-5-sonnet-latest`."""
    return [word for word in re.findall(r"[a-z]{2,}", model.lower()) if word not in _RELEASES]


def _version(model: str) -> tuple[int, int]:
    """Return the version in an id: 5 and 4 of `gpt-5.4-mini`; a date or a size is not part of it."""
    major, minor, *_ = *(int(part) for part in re.findall(r"(?<!\d)\d{1,2}(?![\db])", model)), 0, 0
    return major, minor


def _similar(name: str, ids: list[str], n: int) -> list[str]:
    """Return the ids that look like a name, the most similar first."""
    bare: dict[str, list[str]] = {}
    for id in ids:
        bare.setdefault(id.partition("/")[2].lower(), []).append(id)
    spelt = {id.lower(): [id] for id in ids}
    wanted = name.lower().strip("/")
    tail = wanted.partition("/")[2] or wanted
    found = [*bare.get(tail, ()), *(id for id in ids if len(tail) >= _WORD and tail in id.lower())]
    for word, names in ((wanted, spelt), (tail, bare), (tail, _parts(ids))):
        found += (id for near in difflib.get_close_matches(word, names, n, _CLOSE) for id in names[near])
    return list(dict.fromkeys(found))


def _parts(ids: list[str]) -> dict[str, list[str]]:
    """Return the ids by the words in them."""
    parts: dict[str, list[str]] = {}
    for id in ids:
        for part in re.split(r"[-/]", id.lower()):
            parts.setdefault(part, []).append(id)
    return {part: with_it for part, with_it in parts.items() if len(part) >= _WORD}


def _spelt(vendor: str) -> Iterator[str]:
    """Yield the ids that a vendor's rules spell out, each once, and under the rule that describes it."""
    rules = model_rows(vendor)
    seen: set[str] = set()
    for rule in rules:
        if _is_vague(rule):
            continue
        for id in spelt_out(rule.pattern):
            first = next((one for one in rules if one.match(id)), None)
            if first is rule and id not in seen and catalog.model_traits(vendor, id).known:
                seen.add(id)
                yield id


def _is_vague(rule: ModelRow) -> bool:
    """Tell whether a rule is a guess at what may come, or at what else there may be."""
    return rule.traits.confidence == "low" and ".*" in rule.pattern and not rule.prices


# --- patterns ---------------------------------------------------------------------------------------------------------


def spelt_out(pattern: str) -> list[str]:
    r"""Return the ids that a pattern of the tables spells out, in its order.

    Where anything may stand (`.`, `\d`, a range) there is nothing to spell: what is optional is left off, and an alternative
    that needs it is none. So are those that end, or break off in the middle, where something is missing.
    """
    whole = re.compile(pattern)
    texts = dict.fromkeys(_Pattern(pattern).alternatives())
    return [text for text in texts if _is_whole(text) and whole.fullmatch(text)]


def _is_whole(text: str) -> bool:
    return text[:1].isalnum() and text[-1:].isalnum() and not any(gap in text for gap in ("--", "-/", "/-", "//"))


class _Pattern:
    """Reads a pattern from left to right. Texts that are possible at a place; none where it is open."""

    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._at = 0

    def alternatives(self) -> list[str]:
        """Read as far as the end of the group, or of the pattern."""
        found = self._sequence()
        while self._next("|"):
            found += self._sequence()
        return found

    def _sequence(self) -> list[str]:
        texts = [""]
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            sign = self._text[self._at] != "("
            piece = self._repeated(self._one(), sign=sign)
            texts = [text + end for text in texts for end in piece]
        return texts

    def _repeated(self, piece: list[str], *, sign: bool) -> list[str]:
        if self._next("*"):
            return [""]
        if self._next("+"):
            return []
        if self._next("{"):
            self._at = self._text.index("}", self._at) + 1
            return []
        return _optional(piece, sign=sign) if self._next("?") else piece

    def _one(self) -> list[str]:
        sign = self._text[self._at]
        self._at += 1
        if sign == "(":
            return self._group()
        if sign == "[":
            return self._class()
        if sign == "\\":
            self._at += 1
            return [] if self._text[self._at - 1].isalpha() else [self._text[self._at - 1]]
        return [] if sign == "." else [sign]

    def _group(self) -> list[str]:
        ahead = self._next("?!")
        _ = ahead or self._next("?:") or self._next("?i:")
        found = self.alternatives()
        self._at += 1  # the bracket that closes it
        return [""] if ahead else found

    def _class(self) -> list[str]:
        end = self._text.index("]", self._at)
        signs, self._at = self._text[self._at : end], end + 1
        is_open = signs.startswith("^") or "-" in signs[1:-1]
        return [] if is_open else list(signs)

    def _next(self, signs: str) -> bool:
        found = self._text.startswith(signs, self._at)
        self._at += len(signs) if found else 0
        return found


def _optional(piece: list[str], *, sign: bool) -> list[str]:
    """What may be left off is listed both ways; but a path in front is left off, and a single sign in a name is not."""
    if all(text.endswith(("/", "~")) for text in piece):
        return [""]
    return piece if sign else ["", *piece]
