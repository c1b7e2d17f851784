"""The default model, the models that the catalog lists, and suggestions for unknown names."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from functools import cache
from typing import NamedTuple, get_args

import click

from tenuto import catalog
from tenuto.agent.config import refusal
from tenuto.catalog import PROVIDERS, is_known_provider, qualify_model, resolve
from tenuto.catalog import find_provider as row_of
from tenuto.catalog.models import model_rows
from tenuto.cli.config import configured_providers
from tenuto.cli.keys_file import key_source
from tenuto.core.provider import Target
from tenuto.core.request import Effort

SIMULATOR_MODEL = "sim/anthropic"
"""The model without an API key."""
_NAMED_VARIABLES = 3
"""The number of key variables in the note."""


class ModelChoice(NamedTuple):
    """A model, and a note on why it was selected; the note may be empty."""

    model: str
    note: str = ""


def default_model(given_model: str | None) -> ModelChoice:
    """Return the model that is meant: the one that is named, with `:effort` if it has one; else the default of the first
    provider, as `tenuto providers` lists them, that has one and for which there is a key; else the simulator's.

    Raise `click.UsageError` for a file of keys, or a configuration, that cannot be used.
    """
    if given_model:
        return ModelChoice(given_model)
    from tenuto.catalog import PROVIDERS

    rows = [row for name, row in PROVIDERS.items() if name == row.name and row.default_model]
    for row in rows:
        if key_source(row.name):
            return ModelChoice(f"{row.name}/{row.default_model}")
    *first, last = [row.key_env[0] for row in rows[:_NAMED_VARIABLES]]
    return ModelChoice(
        SIMULATOR_MODEL,
        f"no API key: using the simulator. Set {', '.join(first)} or {last}, or pass -m",
    )


def split_effort(model: str) -> tuple[str, str | None]:
    """Split `provider/model:effort` where it ends in an effort that there is: `ollama/llama3:8b` stays whole."""
    name, colon, effort = model.rpartition(":")
    return (name, effort) if colon and effort in get_args(Effort) and name else (model, None)


def model_resolver() -> Callable[[str], Target]:
    """Return a function that resolves a model, also of custom servers. It needs no key and sends nothing."""
    from tenuto.client.routing import Router

    return Router({}, configured_providers(), None).target


def resolve_model(model: str, find: Callable[[str], Target]) -> Target:
    """Return the target of a model name.

    Raise `UnknownProvider`, and for a model name without a clear provider a usage error that lists candidates.
    """
    from tenuto.errors import UnknownProvider

    try:
        return find(model)
    except UnknownProvider as exc:
        if not exc.bare:
            raise

        near = [] if exc.suggestions else suggest_models(model) or [SIMULATOR_MODEL]
        raise click.UsageError(f"{exc}, such as {' or '.join(near)}" if near else str(exc)) from None


def check_handover_target(model: str, find: Callable[[str], Target]) -> str:
    """Return the model, with its provider, that an existing session switches to.

    Raise what `target_of` raises, and a usage error for an effort.
    """
    from tenuto.catalog import qualify_model

    _, effort = split_effort(model)
    if effort is not None:
        raise click.UsageError(f"{model}: effort cannot change on resume; drop :{effort}")
    resolve_model(model, find)
    return qualify_model(model)


_CUTOFF = 0.7
_RELEASES = frozenset(("latest", "preview", "exp", "models"))
"""Words of an id that do not name a family."""
_SHORTEST_WORD = 3
"""How long a part of a name has to be, for it to say anything."""


class ListedModel(NamedTuple):
    """A model of the catalog: its provider, its name there, and its retirement date (ISO) if known."""

    provider: str
    model: str
    retires: str = ""

    @property
    def id(self) -> str:
        """The name that `-m` takes."""
        return f"{self.provider}/{self.model}"

    def is_served(self, on: date) -> bool:
        """Tell whether it is still there on a day, as far as is known."""
        return not self.retires or on.isoformat() < self.retires


@cache
def list_models() -> tuple[ListedModel, ...]:
    """Return every model that the catalog lists, in its order, including retired ones."""
    found: list[ListedModel] = []
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
            found.append(ListedModel(name, model, min(filter(None, days), default="")))
    return tuple(found)


def model_ids(*, ended: bool = False) -> list[str]:
    """Return the models by their names, as `-m` takes them; `ended` ones, too, if they are asked for."""
    today = datetime.now(UTC).date()
    return [model.id for model in list_models() if ended or model.is_served(today)]


def suggest_models(name: str, n: int = 3) -> list[str]:
    """Return up to `n` models to use instead of one that cannot be used, all of which an agent with tools can use.

    For a model that the tables know they are the newest of its family; for another name those with a similar name. The
    provider may be wrong, or missing.
    """
    full = qualify_model(name)
    usable = [known.id for known in _usable_models(datetime.now(UTC).date()) if known.id != full]
    found = _rank_relatives(full, usable) if _has_own_row(full) else _find_similar(name, usable, n)
    return found[:n]


@cache
def _usable_models(on: date) -> tuple[ListedModel, ...]:
    """Return the models that are served on a day and that suit an agent with tools: no speech models."""
    return tuple(known for known in list_models() if known.is_served(on) and _is_usable(resolve(known.id)))


def _is_usable(target: Target) -> bool:
    traits = target.traits
    return traits.served and traits.tools and "audio" not in traits.output_modalities and not refusal(target)


def _has_own_row(id: str) -> bool:
    """Tell whether a row describes this model, and not only a rule for families to come."""
    provider, _, model = id.partition("/")
    if not is_known_provider(provider) or row_of(provider).plays:  # a simulator has a row for any word
        return False
    return catalog.model_traits(row_of(provider).name, model).confidence in ("high", "medium")


def _rank_relatives(id: str, ids: list[str]) -> list[str]:
    """Sort ids for one that they could replace: of its provider first, most words of the name in common, newest.

    Models of other providers are left out unless they have the first word of the name.
    """
    provider, _, model = id.partition("/")
    home, words = row_of(provider).name, _family_words(model)

    def rank(other: str) -> tuple[bool, int, int, int, int]:
        name, _, rest = other.partition("/")
        major, minor = _version(rest)
        theirs = _family_words(rest)
        return name != home, -len(set(words) & set(theirs)), -major, -minor, len(theirs)

    return sorted(
        (other for other in ids if not rank(other)[0] or set(words[:1]) & set(_family_words(other))), key=rank
    )


def _family_words(model: str) -> list[str]:
    """Return the words that name a family: `claude` and `sonnet` of `claude-3-5-sonnet-latest`."""
    return [word for word in re.findall(r"[a-z]{2,}", model.lower()) if word not in _RELEASES]


def _version(model: str) -> tuple[int, int]:
    """Return the version in an id: 5 and 4 of `gpt-5.4-mini`; a date or a size is not part of it."""
    major, minor, *_ = *(int(part) for part in re.findall(r"(?<!\d)\d{1,2}(?![\db])", model)), 0, 0
    return major, minor


def _find_similar(name: str, ids: list[str], n: int) -> list[str]:
    """Return the ids that look like a name, the most similar first."""
    bare: dict[str, list[str]] = {}
    for id in ids:
        bare.setdefault(id.partition("/")[2].lower(), []).append(id)
    spelt = {id.lower(): [id] for id in ids}
    wanted = name.lower().strip("/")
    tail = wanted.partition("/")[2] or wanted
    found = [*bare.get(tail, ()), *(id for id in ids if len(tail) >= _SHORTEST_WORD and tail in id.lower())]
    for word, names in ((wanted, spelt), (tail, bare), (tail, _ids_by_word(ids))):
        found += (id for near in difflib.get_close_matches(word, names, n, _CUTOFF) for id in names[near])
    return list(dict.fromkeys(found))


def _ids_by_word(ids: list[str]) -> dict[str, list[str]]:
    """Return the ids by the words in them."""
    parts: dict[str, list[str]] = {}
    for id in ids:
        for part in re.split(r"[-/]", id.lower()):
            parts.setdefault(part, []).append(id)
    return {part: with_it for part, with_it in parts.items() if len(part) >= _SHORTEST_WORD}
