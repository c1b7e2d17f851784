"""`tenuto keys`: store API keys."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import click

from tenuto import settings
from tenuto.catalog import PROVIDERS
from tenuto.cli.complete import complete_provider, complete_stored_key
from tenuto.cli.config import ConfigError, load_config
from tenuto.cli.keys_file import canonical_provider, key_variables, keys_path, read_keys, save_key
from tenuto.cli.main import CommandGroup
from tenuto.cli.options import json_option
from tenuto.cli.terminal.output import print_table
from tenuto.cli.terminal.text import one_line
from tenuto.errors import UnknownProvider

_EXAMPLES = """\b
Examples:
  tenuto keys set anthropic                 # prompts, input hidden
  pass show openai | tenuto keys set openai
"""
_MAX_KEY = 16_384
_LONGEST_NAME = 20  # a longer name may be a key


@click.group("keys", cls=CommandGroup, invoke_without_command=True, epilog=_EXAMPLES)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Store API keys (file mode 0600). Without a command, list them.

    Environment variables such as ANTHROPIC_API_KEY override the file. The library reads the environment only. Keys are
    never printed.
    """
    if not ctx.invoked_subcommand:
        ctx.invoke(list_command)


@command.command("set")
@click.argument("provider", shell_complete=complete_provider)
@click.argument("key", nargs=-1, metavar="")
def set_command(provider: str, key: tuple[str, ...]) -> None:
    """Save the key for PROVIDER, a name that tenuto providers lists.

    Prompts on a terminal (input hidden), else reads stdin. Never pass a key as an argument.
    """
    name = _find_provider(provider)
    if key:
        raise ConfigError(
            "keys are not accepted as arguments: they end up in the shell history and the process list",
            hint=f"run tenuto keys set {name}, or pipe the key in; replace this key, it may have been seen",
        )
    given = _read_key(name).strip()
    if not given:
        raise click.UsageError("no key: the input is empty")
    if len(given) > _MAX_KEY or not (given.isascii() and given.isprintable() and " " not in given):
        raise click.UsageError("invalid key: it is too long, or has a space or a character that keys do not have")
    again = save_key(name, given)
    click.echo(one_line(f"key for {name} {'replaced' if again else 'saved'} in {keys_path()}", 600), err=True)
    try:
        if variable := next(filter(settings.getenv, key_variables(name)), ""):
            click.echo(f"note: {variable} is set in the environment and overrides it", err=True)
    except ConfigError as exc:  # the key is saved
        click.echo(f"note: {exc.message}", err=True)


def _find_provider(name: str) -> str:
    """Return the provider's canonical name. Error messages do not repeat a long name: it may be a key."""
    try:
        return canonical_provider(name)
    except UnknownProvider as exc:
        if exc.suggestions:
            raise
        shown = repr(name) if len(name) <= _LONGEST_NAME else "(not shown)"
        raise click.UsageError(f"unknown provider {shown}; list them with tenuto providers") from None


def _read_key(name: str) -> str:
    if sys.stdin is None or sys.stdin.closed:
        return ""
    if sys.stdin.isatty():
        return str(click.prompt(f"key for {name} (hidden)", hide_input=True, err=True, default="", show_default=False))
    return sys.stdin.buffer.read(_MAX_KEY + 1).decode("utf-8-sig", "replace")


@command.command("rm")
@click.argument("provider", shell_complete=complete_stored_key)
def rm_command(provider: str) -> None:
    """Delete the key for PROVIDER."""
    name = provider if provider in read_keys(strict=False) else _find_provider(provider)
    if not save_key(name, ""):
        raise click.UsageError(f"no key for {name} in {keys_path()}; list keys with tenuto keys")
    click.echo(one_line(f"key for {name} removed from {keys_path()}", 600), err=True)


@command.command("list")
@json_option
def list_command(as_json: bool) -> None:
    """List keys and where they come from. Keys are never printed."""
    rows = list(_rows())
    notes = [f"not used: {row['why_not']}" if row["why_not"] else "" for row in rows]
    cells = [(one_line(row["provider"], 60), row["where"], note) for row, note in zip(rows, notes, strict=True)]
    document = {"path": str(keys_path()), "keys": rows}
    empty = "no key; add one with tenuto keys set PROVIDER"
    print_table(("PROVIDER", "KEY IN", ""), cells, document, as_json=as_json, empty=empty)
    if not as_json:
        click.echo(one_line(f"file: {keys_path()}", 600), err=True)


def _rows() -> Iterator[dict[str, Any]]:
    """Yield the keys of the environment and the file; the first one of a provider is used."""
    stored = read_keys()
    known = [*PROVIDERS, *load_config().document.get("providers", {})]
    for name in dict.fromkeys((*map(canonical_provider, known), *stored)):
        places = [("environment", variable) for variable in key_variables(name) if settings.getenv(variable)]
        places += [("file", keys_path().name)] if name in stored else []
        for source, where in places:
            reason = "" if where == places[0][1] else f"{places[0][1]} overrides it"
            reason = reason if name in known else "unknown provider"
            yield {"provider": name, "source": source, "where": where, "used": not reason, "why_not": reason or None}
