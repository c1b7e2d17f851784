"""The models that the catalog lists, and suggestions for names that it does not know.

The list is not complete: model rows also match ids with a date and future models, and any other id is sent to the provider
unchanged.
"""

from __future__ import annotations

import difflib
import re
from datetime import UTC, date, datetime
from functools import cache
from typing import NamedTuple

from tenuto import catalog
from tenuto.agent.config import refusal
from tenuto.catalog import PROVIDERS, is_known_provider, qualify_model, resolve
from tenuto.catalog import find_provider as row_of
from tenuto.catalog.models import model_rows
from tenuto.core.provider import Target

__all__ = ["Known", "known_models", "model_ids", "near_models"]

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
    """Return every model that the catalog lists, in its order, including retired ones."""
    found: list[Known] = []
    for name, row in PROVIDERS.items():
        if name != row.name:  # another word for a row
            continue
        ids = list(row.plays) or [id for model in model_rows(name) for id in model.ids]
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
