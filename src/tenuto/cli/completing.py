"""What may stand where a value is typed: for the shell, when the tab key is pressed.

Everything here only looks: nothing is made, sent or waited for, and what cannot be read gives no answers, and no message.
The options are other files': here stands, by the names of the parameters, what completes them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from tenuto.cli.escaping import one_line
from tenuto.cli.reading import short
from tenuto.errors import TenutoError

if TYPE_CHECKING:
    from tenuto.store.sessions import SessionLine

__all__ = ["fitted", "named", "values"]

_LISTED = 30
"""How many sessions are offered."""
_PLAIN = re.compile(r"[\w.@%+/~-]+")
"""A name that a shell takes as it is."""
_TITLE = 60

Item = CompletionItem
Completer = Callable[[click.Context, str], Iterable[Item]]


def fitted(command: click.Command, verb: str) -> click.Command:
    """Have the parameters of a command, and of those below it, complete what is typed for them."""
    for parameter in command.params:
        by = _VALUES.get(f"{verb} {parameter.name}") or _VALUES.get(parameter.name or "")
        if by is not None and parameter.type is click.STRING:
            parameter.type = _Text(by)
    if isinstance(command, click.Group):
        here = click.Context(command)
        for name in command.list_commands(here):
            below = command.get_command(here, name)
            if below is not None:
                fitted(below, f"{verb} {name}".strip())
    return command


def values(name: str, ctx: click.Context, typed: str) -> list[Item]:
    """Return what may be typed for a parameter of this name."""
    return _answered(_VALUES[name], ctx, typed)


def named(words: Mapping[str, str], typed: str) -> list[Item]:
    """Return the words that begin as typed, each with what it does."""
    return [Item(word, help=says) for word, says in words.items() if word.startswith(typed)]


class _Text(click.types.StringParamType):
    """A text that can be completed."""

    def __init__(self, by: Completer) -> None:
        self._by = by

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Item]:
        del param
        return _answered(self._by, ctx, incomplete)


def _answered(by: Completer, ctx: click.Context, typed: str) -> list[Item]:
    try:
        return list(by(ctx, typed))
    except (TenutoError, click.ClickException, OSError, ValueError, ImportError):
        return []  # who presses a key did not ask for an error


# --- models -----------------------------------------------------------------------------------------------------------


def _models(ctx: click.Context, typed: str) -> Iterator[Item]:
    """Models that begin like this, or whose own name does, if that leaves one provider; efforts behind a colon."""
    from tenuto.cli.catalogue import model_ids

    ids = model_ids()
    if ":" in typed:
        yield from _efforts(typed)
        return
    found = [id for id in ids if id.startswith(typed)]
    if not typed:
        found = _at_hand(ids) or found
    elif not found:
        found = _played(typed, ids) or _bare(typed, ids)
    del ctx
    for id in found:
        yield Item(id, help=_family(id))


def _at_hand(ids: list[str]) -> list[str]:
    """Of the models of all providers, those that can be asked: there is a key, or none is needed."""
    from tenuto.cli.having import all_providers

    names = {having.name for having in all_providers() if having.key in ("set", "kept") or having.row.plays}
    return [id for id in ids if id.partition("/")[0] in names]


def _bare(typed: str, ids: list[str]) -> list[str]:
    """Models by their own names, without the provider's. If there were two providers, a shell would take back what is typed."""
    found = [id for id in ids if id.partition("/")[2].startswith(typed)]
    return found if len({id.partition("/")[0] for id in found}) == 1 else []


def _played(typed: str, ids: list[str]) -> list[str]:
    """Models whose part the simulator plays: sim/anthropic/claude-..."""
    from tenuto.catalog import find_provider, is_known_provider

    name, _, rest = typed.partition("/")
    style, slash, model = rest.partition("/")
    if not slash or not is_known_provider(name) or not find_provider(name).plays or not is_known_provider(style):
        return []
    start = f"{find_provider(style).name}/"
    return [f"{name}/{style}/{id.removeprefix(start)}" for id in ids if id.startswith(start + model)]


def _efforts(typed: str) -> Iterator[Item]:
    from tenuto import catalog

    id, _, begun = typed.rpartition(":")
    provider, _, model = id.partition("/")
    for effort in catalog.model_traits(provider, model).efforts or ():
        if effort.startswith(begun):
            yield Item(f"{id}:{effort}")


def _family(id: str) -> str:
    from tenuto import catalog

    provider, _, model = id.partition("/")
    return catalog.model_traits(provider, model).family


def _fallbacks(ctx: click.Context, typed: str) -> Iterator[Item]:
    """A list with commas: its last is completed."""
    before, comma, last = typed.rpartition(",")
    for item in _models(ctx, last):
        yield Item(f"{before}{comma}{item.value}", help=item.help)


# --- sessions ---------------------------------------------------------------------------------------------------------


def _sessions(ctx: click.Context, typed: str) -> Iterator[Item]:
    """The last sessions: by name, if they have one that needs no quotes, or by as much of the id as is needed."""
    found = _glimpses(ctx)
    if found and "last".startswith(typed):
        yield Item("last", help="the one that changed last")
    for one in found:
        title = one_line(one.name or one.title, _TITLE)
        ids = (one.name if _PLAIN.fullmatch(one.name) else "", short(one.id), one.id)
        fitting = next((id for id in ids if id and id.startswith(typed)), "")
        if fitting:
            yield Item(fitting, help=one_line(one.title, _TITLE) if fitting == one.name else title)


def _glimpses(ctx: click.Context) -> list[SessionLine]:
    """Look into the file, if there is one. What is kept elsewhere takes too long to ask."""
    from tenuto.cli.configuring import defaults
    from tenuto.cli.reading import file_at

    place = ctx.params.get("store") or defaults("sessions", ctx.find_root().params.get("profile")).get("store")
    file = file_at(place)
    if file is None or not file.exists():
        return []
    from tenuto.store.sessions import ListQuery, list_lines

    return list_lines(file, ListQuery("", None, False, "updated", _LISTED, ""))


# --- the rest ---------------------------------------------------------------------------------------------------------


def _tools(ctx: click.Context, typed: str) -> Iterator[Item]:
    from tenuto.tools.builtin import BUILTIN

    del ctx
    return (Item(name) for name in BUILTIN if name.startswith(typed))


def _providers(ctx: click.Context, typed: str) -> Iterator[Item]:
    from tenuto.cli.having import all_providers

    del ctx
    return (Item(having.name) for having in all_providers() if having.name.startswith(typed) and not having.row.retired)


def _kept(ctx: click.Context, typed: str) -> Iterator[Item]:
    from tenuto.cli.keyring import read_keys

    del ctx
    return (Item(name) for name in read_keys(strict=False) if name.startswith(typed))


def _profiles(ctx: click.Context, typed: str) -> Iterator[Item]:
    from tenuto.cli.configuring import loaded

    del ctx
    return (Item(name) for name in loaded().document.get("profiles", {}) if name.startswith(typed))


def _settings(ctx: click.Context, typed: str) -> Iterator[Item]:
    from tenuto.cli.config_keys import KEYS

    del ctx
    return (Item(name) for name in (*KEYS, "profile") if name.startswith(typed))


def _setting(ctx: click.Context, typed: str) -> Iterator[Item]:
    """What the setting may be that was typed before: a word of its own, or what completes the option."""
    from tenuto.cli.config_keys import KEYS, kind_of

    name = str(ctx.params.get("key") or "").split(".")
    with suppress(LookupError):
        kind = kind_of(name)
        yield from (Item(word) for word in kind.choices if word.startswith(typed))
    by = _VALUES.get(KEYS[name[-1]].parameter if name[-1] in KEYS else name[-1])
    yield from by(ctx, typed) if by is not None else ()


def _embedders(ctx: click.Context, typed: str) -> Iterator[Item]:
    """The tables know models that talk: of those that embed there is one for each of some providers."""
    from tenuto.cli.embedding.asking import SIMULATED, defaults

    del ctx
    return (Item(id) for id in (*defaults().values(), SIMULATED) if id.startswith(typed))


def _files(ctx: click.Context, typed: str) -> Iterator[Item]:
    del ctx
    return iter([Item(typed, type="file")])


def _folders(ctx: click.Context, typed: str) -> Iterator[Item]:
    del ctx
    return iter([Item(typed, type="dir")])


_VALUES: dict[str, Completer] = {
    "model": _models,
    "fallback": _fallbacks,
    "session": _sessions,
    "sessions": _sessions,
    "chat which": _sessions,
    "tool": _tools,
    "allow": _tools,
    "deny": _tools,
    "tools names": _tools,
    "provider": _providers,
    "providers query": _providers,
    "keys rm provider": _kept,
    "profile": _profiles,
    "config set key": _settings,
    "config set value": _setting,
    "root": _folders,
    "store": _files,
    "attach": _files,
    "schema": _files,
    "out": _files,
    "file": _files,
    "files": _files,
    "script": _files,
    "embed model": _embedders,
    "embed names": _files,
    "embed into": _files,
}
"""By the name of a parameter; where that says too little, with its verb in front."""
