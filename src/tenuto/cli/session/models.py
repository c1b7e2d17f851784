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
from tenuto.errors import UnknownProvider

SIMULATOR_MODEL = "sim/anthropic"
"""The model without an API key."""
_NAMED_VARIABLES = 3
"""The number of key variables in the note."""


class ModelChoice(NamedTuple):
    """A model, and a note on why it was selected; the note may be empty."""

    model: str
    note: str = ""


def default_model(given_model: str | None) -> ModelChoice:
    """Return the given model, else the default of the first provider with a key, else the simulator's.

    Raise `click.UsageError` for an unusable file of keys or configuration.
    """
    if given_model:
        return ModelChoice(given_model)
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
    """Split `provider/model:effort`; `ollama/llama3:8b` stays whole."""
    name, _, effort = model.rpartition(":")
    return (name, effort) if name and effort in get_args(Effort) else (model, None)


def model_resolver() -> Callable[[str], Target]:
    """Return a function that resolves a model, also of custom servers. It needs no key and sends nothing."""
    from tenuto.client.routing import Router

    return Router({}, configured_providers(), None).target


def resolve_model(model: str, find: Callable[[str], Target]) -> Target:
    """Return the target of a model name. Raise `UnknownProvider` or, without a provider, a usage error with candidates."""
    try:
        return find(model)
    except UnknownProvider as exc:
        if not exc.bare:
            raise
        near = [] if exc.suggestions else suggest_models(model) or [SIMULATOR_MODEL]
        raise click.UsageError(f"{exc}, such as {' or '.join(near)}" if near else str(exc)) from None


def check_handover_target(model: str, find: Callable[[str], Target]) -> str:
    """Return the full name of a model to switch to. Raise like `resolve_model`, and a usage error for an effort."""
    _, effort = split_effort(model)
    if effort is not None:
        raise click.UsageError(f"{model}: effort cannot change on resume; drop :{effort}")
    resolve_model(model, find)
    return qualify_model(model)


_CUTOFF = 0.7
_RELEASES = frozenset(("latest", "preview", "exp", "models"))
"""Words of an id that do not name a family."""
_SHORTEST_WORD = 3
"""The shortest part of a name that is compared."""


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
        return not self.retires or on.isoformat() < self.retires


@cache
def list_models() -> tuple[ListedModel, ...]:
    """Return every model that the catalog lists, in its order, including retired ones."""
    found: list[ListedModel] = []
    for name, row in PROVIDERS.items():
        if name != row.name:  # an alias
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
    """Return the names that `-m` takes, with `ended` also of retired models."""
    today = datetime.now(UTC).date()
    return [model.id for model in list_models() if ended or model.is_served(today)]


def suggest_models(name: str, n: int = 3) -> list[str]:
    """Return up to `n` models to use instead of one: of a known model the newest of its family, else similar names."""
    full = qualify_model(name)
    usable = [known.id for known in _usable_models(datetime.now(UTC).date()) if known.id != full]
    found = _rank_relatives(full, usable) if _has_own_row(full) else _find_similar(name, usable, n)
    return found[:n]


@cache
def _usable_models(on: date) -> tuple[ListedModel, ...]:
    """Return the models that suit an agent with tools."""
    return tuple(known for known in list_models() if known.is_served(on) and _is_usable(resolve(known.id)))


def _is_usable(target: Target) -> bool:
    traits = target.traits
    return traits.served and traits.tools and "audio" not in traits.output_modalities and not refusal(target)


def _has_own_row(id: str) -> bool:
    """Return whether a row describes this very model."""
    provider, _, model = id.partition("/")
    if not is_known_provider(provider) or row_of(provider).plays:  # a simulator has a row for any word
        return False
    return catalog.model_traits(row_of(provider).name, model).confidence in ("high", "medium")


def _rank_relatives(id: str, ids: list[str]) -> list[str]:
    """Sort ids by provider, common words and version. Other providers need the first word of the name."""
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
    """Return `claude` and `sonnet` of `claude-3-5-sonnet-latest`."""
    return [word for word in re.findall(r"[a-z]{2,}", model.lower()) if word not in _RELEASES]


def _version(model: str) -> tuple[int, int]:
    """Return 5 and 4 of `gpt-5.4-mini`, without dates and sizes."""
    major, minor, *_ = *(int(part) for part in re.findall(r"(?<!\d)\d{1,2}(?![\db])", model)), 0, 0
    return major, minor


def _find_similar(name: str, ids: list[str], n: int) -> list[str]:
    """Return the ids that look like a name, the most similar first."""
    bare: dict[str, list[str]] = {}
    for id in ids:
        bare.setdefault(id.partition("/")[2].lower(), []).append(id)
    full = {id.lower(): [id] for id in ids}
    wanted = name.lower().strip("/")
    tail = wanted.partition("/")[2] or wanted
    found = [*bare.get(tail, ()), *(id for id in ids if len(tail) >= _SHORTEST_WORD and tail in id.lower())]
    for word, names in ((wanted, full), (tail, bare), (tail, _ids_by_word(ids))):
        found += (id for near in difflib.get_close_matches(word, names, n, _CUTOFF) for id in names[near])
    return list(dict.fromkeys(found))


def _ids_by_word(ids: list[str]) -> dict[str, list[str]]:
    """Return the ids by the words in them."""
    parts: dict[str, list[str]] = {}
    for id in ids:
        for part in re.split(r"[-/]", id.lower()):
            parts.setdefault(part, []).append(id)
    return {part: with_it for part, with_it in parts.items() if len(part) >= _SHORTEST_WORD}
