"""Values for shell completion. Completers only read. An error gives no values and no message."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator

import click
from click.shell_completion import CompletionItem as Item

from tenuto.cli.config import DEFAULTS, default_options, load_config
from tenuto.cli.terminal.text import one_line
from tenuto.errors import TenutoError

Completer = Callable[[click.Context, click.Parameter, str], list[Item]]

_MAX_SESSIONS = 30
_TITLE_LENGTH = 60
_UNQUOTED_NAME = re.compile(r"[\w.@%+/~-]+")


def _completer(values: Callable[[click.Context, str], Iterable[Item | str]]) -> Completer:
    """Return a `shell_complete=` callback that yields the values that start as typed."""

    @functools.wraps(values)
    def complete(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[Item]:
        try:
            items = [item if isinstance(item, Item) else Item(item) for item in values(ctx, incomplete)]
        except (TenutoError, click.ClickException, OSError, ValueError, ImportError):
            return []
        return [item for item in items if item.value.startswith(incomplete)]

    return complete


def complete_path(type: str) -> Completer:
    return lambda _ctx, _param, typed: [Item(typed, type=type)]


def _models(_: click.Context, typed: str) -> Iterator[Item]:
    """Yield the models that start as typed, after a colon their efforts; without text, those that can be used now."""
    from tenuto import catalog
    from tenuto.cli.keys_file import provider_statuses
    from tenuto.cli.session.models import model_ids

    model, colon, _effort = typed.rpartition(":")
    if colon:
        provider, _slash, name = model.partition("/")
        for effort in catalog.model_traits(provider, name).efforts or ():
            yield Item(f"{model}:{effort}")
        return
    for alias, full in load_config().document.get("aliases", {}).items():
        yield Item(alias, help=full)
    usable = {one.name for one in provider_statuses() if one.key in ("set", "kept") or one.row.plays}
    for id in model_ids():
        provider, _slash, name = id.partition("/")
        if id.startswith(typed) and (typed or not usable or provider in usable):
            yield Item(id, help=catalog.model_traits(provider, name).family)


complete_model = _completer(_models)
complete_profile = _completer(lambda _ctx, _typed: load_config().document.get("profiles", {}))
complete_setting = _completer(lambda _ctx, _typed: (*DEFAULTS, "profile"))


@_completer
def complete_fallback(ctx: click.Context, typed: str) -> Iterator[Item]:
    """Complete the last model of a list with commas."""
    before, comma, last = typed.rpartition(",")
    return (Item(f"{before}{comma}{item.value}", help=item.help) for item in _models(ctx, last))


@_completer
def complete_session(ctx: click.Context, typed: str) -> Iterator[Item]:
    """Complete recent sessions of a store file: by name if a shell takes it unquoted, else by a prefix of the ID."""
    from tenuto.cli.store import recent_sessions, short_id, store_file
    from tenuto.store.sessions import list_lines

    place = ctx.params.get("store") or default_options("sessions", ctx.find_root().params.get("profile")).get("store")
    file = store_file(place)
    if file is None or not file.exists():  # a database server would take too long
        return
    lines = list_lines(file, recent_sessions(_MAX_SESSIONS))
    if lines:
        yield Item("last", help="the most recent session")
    for line in lines:
        named = _UNQUOTED_NAME.fullmatch(line.name) is not None
        choices = (line.name if named else "", short_id(line.id), line.id)
        value = next((choice for choice in choices if choice and choice.startswith(typed)), "")
        title = line.title if value == line.name else line.name or line.title
        if value:
            yield Item(value, help=one_line(title, _TITLE_LENGTH))


@_completer
def complete_tool(_ctx: click.Context, _typed: str) -> Iterable[str]:
    from tenuto.tools.builtin import BUILTIN

    return BUILTIN


@_completer
def complete_provider(_ctx: click.Context, _typed: str) -> Iterable[str]:
    from tenuto.cli.keys_file import provider_statuses

    return [status.name for status in provider_statuses() if not status.row.retired]


@_completer
def complete_stored_key(_ctx: click.Context, _typed: str) -> Iterable[str]:
    from tenuto.cli.keys_file import read_keys

    return read_keys(strict=False)


@_completer
def complete_embedding_model(_ctx: click.Context, _typed: str) -> Iterable[str]:
    from tenuto.cli.embeddings import default_models

    return default_models().values()
