"""The default model, the models that the catalog lists, and suggestions for unknown names."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from typing import NamedTuple, get_args

import click

from tenuto import catalog, settings
from tenuto.agent.config import refusal
from tenuto.catalog import PROVIDERS, is_known_provider, qualify_model, resolve
from tenuto.catalog import find_provider as row_of
from tenuto.catalog.model_list import list_models
from tenuto.cli.config import configured_providers
from tenuto.cli.keys_file import key_source
from tenuto.cli.terminal.text import similar_names
from tenuto.core.provider import Target
from tenuto.core.request import Effort
from tenuto.errors import UnknownProvider

SIMULATOR_MODEL = "sim/anthropic"  # the model without an API key
_NAMED_VARIABLES = 3  # the number of key variables in the note


class ModelChoice(NamedTuple):
    """A model, and a note on why it was selected; the note may be empty."""

    model: str
    note: str = ""


def default_model(given_model: str | None) -> ModelChoice:
    """Return the given model, else the default of the first provider with a key, else the simulator's."""
    if given_model:
        return ModelChoice(given_model)
    rows = [row for name, row in PROVIDERS.items() if name == row.name and row.default_model]
    for row in rows:
        if key_source(row.name):
            return ModelChoice(f"{row.name}/{row.default_model}")
    *first, last = [row.key_env[0] for row in rows[:_NAMED_VARIABLES]]
    note = f"no API key: using the simulator. Set {', '.join(first)} or {last}, or pass -m"
    return ModelChoice(SIMULATOR_MODEL, note)


def split_effort(model: str) -> tuple[str, Effort | None]:
    """Split `provider/model:effort`; `ollama/llama3:8b` stays whole."""
    name, _, suffix = model.rpartition(":")
    effort: Effort | None = next((one for one in get_args(Effort) if one == suffix), None)
    return (name, effort) if name and effort else (model, None)


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


def model_notice(target: Target) -> str:
    """Return a notice about a model that the catalog does not list; empty for other models."""
    provider = target.provider.name
    name = f"{provider}/{target.model}"
    if target.provider.plays or target.traits.confidence in ("high", "medium") or name in model_ids(ended=True):
        return ""
    near = similar_names(name, [id for id in model_ids() if id.startswith(f"{provider}/")], 1)
    if near:
        return f"{name} is not in the model table; did you mean {near[0]}?"
    return f"{name} is not in the catalog; its reasoning is sent back as received"


def is_first_notice(notice: str) -> bool:
    """Whether a notice was not shown on this machine before; remember it."""
    path = settings.home() / "notices"
    with suppress(OSError):  # it is shown again
        if path.exists() and notice in path.read_text("utf-8").splitlines():
            return False
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{notice}\n")
    return True


_RELEASES = frozenset(("latest", "preview", "exp", "models"))  # words of an id that do not name a family
_SHORTEST_WORD = 3  # the shortest part of a name that is compared


def model_ids(*, ended: bool = False) -> list[str]:
    """Return the names that `-m` takes, with `ended` also of retired models."""
    today = datetime.now(UTC).date().isoformat()
    return [model.id for model in list_models() if ended or not model.retires or today < model.retires]


def suggest_models(name: str, n: int = 3) -> list[str]:
    """Return up to `n` models to use instead of one: of a known model the newest of its family, else similar names."""
    full = qualify_model(name)
    ids = [id for id in _usable_ids() if id != full]
    provider, _, model = full.partition("/")
    # a simulator has a row for any word
    is_known = is_known_provider(provider) and not row_of(provider).plays
    if is_known and catalog.model_traits(row_of(provider).name, model).confidence in ("high", "medium"):
        return _find_relatives(row_of(provider).name, model, ids)[:n]
    return _find_similar(name, ids, n)[:n]


@cache
def _usable_ids() -> tuple[str, ...]:
    targets = {id: resolve(id) for id in model_ids()}
    return tuple(
        id
        for id, target in targets.items()
        if target.traits.served
        and target.traits.tools
        and "audio" not in target.traits.output_modalities
        and not refusal(target)
    )


def _find_relatives(provider: str, model: str, ids: list[str]) -> list[str]:
    """Sort ids by provider, common words and version. Other providers need the first word of the name."""
    words = _family_words(model)

    def rank(other: str) -> tuple[bool, int, int, int, int]:
        name, _, rest = other.partition("/")
        # 5 and 4 of `gpt-5.4-mini`, without dates and sizes
        major, minor, *_ = *map(int, re.findall(r"(?<!\d)\d{1,2}(?![\db])", rest)), 0, 0
        theirs = _family_words(rest)
        return name != provider, -len({*words} & {*theirs}), -major, -minor, len(theirs)

    return sorted((id for id in ids if not rank(id)[0] or {*words[:1]} & {*_family_words(id)}), key=rank)


def _family_words(model: str) -> list[str]:
    """Return `claude` and `sonnet` of `claude-3-5-sonnet-latest`."""
    return [word for word in re.findall(r"[a-z]{2,}", model.lower()) if word not in _RELEASES]


def _find_similar(name: str, ids: list[str], n: int) -> list[str]:
    wanted = name.lower().strip("/")
    tail = wanted.partition("/")[2] or wanted
    keys: dict[str, list[str]] = {}
    for id in ids:
        provider, _, model = id.lower().partition("/")
        for key in (f"{provider}/{model}", model, provider, *re.split("[-/]", model)):
            keys.setdefault(key, []).append(id)
    found = [*keys.get(tail, ()), *(id for id in ids if len(tail) >= _SHORTEST_WORD and tail in id.lower())]
    known = [key for key in keys if len(key) >= _SHORTEST_WORD]
    for word in dict.fromkeys((wanted, tail)):
        found += (id for near in similar_names(word, known, n) for id in keys[near])
    return list(dict.fromkeys(found))
