"""Values for shell completion.

Completers only read. An error gives no values and no message, because the user pressed Tab and did not run a command.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator

import click
from click.shell_completion import CompletionItem as Item

Completer = Callable[[click.Context, click.Parameter, str], list[Item]]

_MAX_SESSIONS = 30
_TITLE_LENGTH = 60
_UNQUOTED_NAME = re.compile(r"[\w.@%+/~-]+")


def _completer(values: Callable[[click.Context, str], Iterable[Item | str]]) -> Completer:
    """Turn a function of context and typed text into a `shell_complete=` callback; texts are filtered by their start."""

    @functools.wraps(values)
    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Item]:
        from tenuto.errors import TenutoError

        del param
        try:
            items = [item if isinstance(item, Item) else Item(item) for item in values(ctx, incomplete)]
        except (TenutoError, click.ClickException, OSError, ValueError, ImportError):
            return []
        return [item for item in items if item.type != "plain" or item.value.startswith(incomplete)]

    return complete


@_completer
def complete_file(ctx: click.Context, typed: str) -> Iterator[Item]:
    del ctx
    yield Item(typed, type="file")


@_completer
def complete_directory(ctx: click.Context, typed: str) -> Iterator[Item]:
    del ctx
    yield Item(typed, type="dir")


@_completer
def complete_model(ctx: click.Context, typed: str) -> Iterator[Item]:
    del ctx
    return _models(typed)


@_completer
def complete_fallback(ctx: click.Context, typed: str) -> Iterator[Item]:
    """Complete the last model of a list with commas."""
    del ctx
    before, comma, last = typed.rpartition(",")
    for item in _models(last):
        yield Item(f"{before}{comma}{item.value}", help=item.help)


def _models(typed: str) -> Iterator[Item]:
    """Yield the models that start as typed, after a colon their efforts; without text, those that can be used now."""
    from tenuto import catalog
    from tenuto.cli.session.models import model_ids
    from tenuto.core.provider import ModelTraits

    def traits(model: str) -> ModelTraits:
        provider, _, name = model.partition("/")
        return catalog.model_traits(provider, name)

    model, colon, _ = typed.rpartition(":")
    if colon:
        for effort in traits(model).efforts or ():
            yield Item(f"{model}:{effort}")
        return
    ids = model_ids()
    if not typed:
        from tenuto.cli.keys_file import provider_statuses

        usable = {status.name for status in provider_statuses() if status.key in ("set", "kept") or status.row.plays}
        ids = [id for id in ids if id.partition("/")[0] in usable] or ids
    for id in ids:
        if id.startswith(typed):
            yield Item(id, help=traits(id).family)


@_completer
def complete_session(ctx: click.Context, typed: str) -> Iterator[Item]:
    """Complete recent sessions of a store file: by name if a shell takes it unquoted, else by a prefix of the ID."""
    from tenuto.cli.config import default_options
    from tenuto.cli.store import short_id, store_file
    from tenuto.cli.terminal.text import one_line

    place = ctx.params.get("store") or default_options("sessions", ctx.find_root().params.get("profile")).get("store")
    file = store_file(place)
    if file is None or not file.exists():  # a database server would take too long
        return
    from tenuto.store.sessions import ListQuery, list_lines

    query = ListQuery(agent="", status=None, archived=False, order="updated", limit=_MAX_SESSIONS, after="")
    lines = list_lines(file, query)
    if lines:
        yield Item("last", help="the most recent session")
    for line in lines:
        named = _UNQUOTED_NAME.fullmatch(line.name) is not None
        choices = (line.name if named else "", short_id(line.id), line.id)
        value = next((choice for choice in choices if choice and choice.startswith(typed)), "")
        if value:
            yield Item(
                value, help=one_line(line.title if value == line.name else line.name or line.title, _TITLE_LENGTH)
            )


@_completer
def complete_tool(ctx: click.Context, typed: str) -> Iterable[str]:
    from tenuto.tools.builtin import BUILTIN

    del ctx, typed
    return BUILTIN


@_completer
def complete_provider(ctx: click.Context, typed: str) -> Iterable[str]:
    from tenuto.cli.keys_file import provider_statuses

    del ctx, typed
    return [status.name for status in provider_statuses() if not status.row.retired]


@_completer
def complete_stored_key(ctx: click.Context, typed: str) -> Iterable[str]:
    from tenuto.cli.keys_file import read_keys

    del ctx, typed
    return read_keys(strict=False)


@_completer
def complete_profile(ctx: click.Context, typed: str) -> Iterable[str]:
    from tenuto.cli.config import load_config

    del ctx, typed
    return list(load_config().document.get("profiles", {}))


@_completer
def complete_setting(ctx: click.Context, typed: str) -> Iterable[str]:
    from tenuto.cli.config import DEFAULTS

    del ctx, typed
    return (*DEFAULTS, "profile")


@_completer
def complete_embedding_model(ctx: click.Context, typed: str) -> Iterable[str]:
    from tenuto.catalog import PROVIDERS

    del ctx, typed
    rows = {row.name: row for row in PROVIDERS.values() if row.embeddings.default_model}
    return [f"{name}/{row.embeddings.default_model}" for name, row in rows.items()]
