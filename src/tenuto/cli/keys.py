"""`tenuto keys`: API keys, in a file that only their owner can read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["command"]

_EXAMPLES = """\b
Examples:
  tenuto keys set anthropic
  pass show openai | tenuto keys set openai
  tenuto keys list
"""
_SET_EXAMPLES = """\b
Examples:
  tenuto keys set anthropic                 # asks for it, and shows nothing
  pass show openai | tenuto keys set openai
  tenuto keys set mine                      # a server of your own
"""
_LIST_EXAMPLES = """\b
Examples:
  tenuto keys list
  tenuto keys list --json | jq -r '.keys[].provider'
"""
_RM_EXAMPLES = """\b
Examples:
  tenuto keys rm anthropic
"""
_PATH_EXAMPLES = """\b
Examples:
  tenuto keys path
"""
_HEADS = ("PROVIDER", "KEY IN", "")
_MOST = 16_384
"""No key is so long: whatever is, is something else."""
_NAME = 20
"""How long something may be that is taken for a provider's name. What is longer may be a key, and is not repeated."""


@click.group("keys", epilog=_EXAMPLES)
def command() -> None:
    """Keep API keys in a file that only you can read.

    A variable of the environment, such as ANTHROPIC_API_KEY, wins over the file. Only this command reads the file: a
    program of yours that uses the library gets its keys from the environment. Keys are never printed.
    """


@command.command("path", epilog=_PATH_EXAMPLES)
def path_command() -> int:
    """Print where the file is, or would be."""
    from tenuto.cli.keyring import keys_path
    from tenuto.cli.screen import write_text

    write_text(f"{keys_path()}\n")
    return 0


@command.command("set", epilog=_SET_EXAMPLES)
@click.argument("provider")
@click.argument("key", nargs=-1, metavar="")
def set_command(provider: str, key: tuple[str, ...]) -> int:
    """Keep the key for PROVIDER: a name that tenuto providers lists, or a server of your own.

    On a terminal it is asked for, and not shown; otherwise it is read from stdin. It is not taken as an argument, which a
    shell would write into its history.
    """
    from tenuto.cli.configuring import Misconfigured
    from tenuto.cli.escaping import one_line
    from tenuto.cli.keyring import keep_key, keys_path, stripped_key

    name = _provider(provider)
    if key:
        raise Misconfigured(
            "a key is not taken as an argument: shells write those into their history, and others see them in the list "
            "of processes",
            hint=f"tenuto keys set {name} asks for it, or reads it from a pipe; best make a new key, this one has been seen",
        )
    try:
        given = stripped_key(_asked(name))
    except ValueError as exc:
        raise click.UsageError(str(exc)) from None
    again = keep_key(name, given)
    click.echo(one_line(f"the key for {name} is {'replaced' if again else 'kept'} in {keys_path()}", 600), err=True)
    _note_winner(name)
    return 0


def _provider(named: str) -> str:
    """Return whose key is meant. Raise `click.UsageError`; what may be a key is not repeated."""
    from tenuto.cli.keyring import provider_name
    from tenuto.errors import UnknownProvider

    try:
        return provider_name(named)
    except UnknownProvider as exc:
        if exc.suggestions:
            raise
        called = repr(named) if len(named) <= _NAME else "that"
        raise click.UsageError(f"{called} is no provider's name; tenuto providers lists them") from None


def _asked(name: str) -> str:
    import sys

    if sys.stdin is None or sys.stdin.closed:
        return ""
    if sys.stdin.isatty():
        question = f"key for {name} (it is not shown)"
        asked: str = click.prompt(question, hide_input=True, err=True, default="", show_default=False)
        return asked
    try:
        text = sys.stdin.buffer.read(_MOST + 1).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError("that is no key: it is no text") from None
    if len(text) > _MOST:
        raise ValueError("that is no key: it is far too long")
    return text


def _note_winner(name: str) -> None:
    from tenuto import settings
    from tenuto.cli.configuring import Misconfigured
    from tenuto.cli.keyring import variables_of

    try:
        held = next((variable for variable in variables_of(name) if settings.getenv(variable)), "")
    except Misconfigured as exc:  # the key is kept all the same
        click.echo(f"note: {exc.message}", err=True)
        return
    if held:
        click.echo(f"note: {held} is set in the environment, and wins", err=True)


@command.command("rm", epilog=_RM_EXAMPLES)
@click.argument("provider")
def rm_command(provider: str) -> int:
    """Take the key for PROVIDER out of the file."""
    from tenuto.cli.escaping import one_line
    from tenuto.cli.keyring import forget_key, keys_path, read_keys

    name = provider if provider in read_keys(strict=False) else _provider(provider)
    if not forget_key(name):
        raise click.UsageError(f"there is no key for {name} in {keys_path()}; tenuto keys list shows what there is")
    click.echo(one_line(f"the key for {name} is taken out of {keys_path()}", 600), err=True)
    return 0


# --- list -------------------------------------------------------------------------------------------------------------


@command.command("list", epilog=_LIST_EXAMPLES)
@click.option("--json", "as_json", is_flag=True, help="One JSON document; no key is in it.")
def list_command(as_json: bool) -> int:
    """List the providers for which there is a key, and where it comes from. Keys are never printed, nor parts of them."""
    from tenuto.cli.columns import columns
    from tenuto.cli.escaping import one_line
    from tenuto.cli.keyring import keys_path
    from tenuto.cli.screen import write_document, write_text
    from tenuto.core import jsonio

    rows = list(_rows())
    if as_json:
        write_document(jsonio.encode({"path": str(keys_path()), "keys": rows}))
    elif not rows:
        click.echo("there is no key: tenuto keys set PROVIDER keeps one; without, the simulator answers", err=True)
    else:
        cells = [
            (one_line(row["provider"], 60), row["where"], f"not used: {row['why_not']}" if row["why_not"] else "")
            for row in rows
        ]
        write_text(columns([_HEADS, *cells]), escape=True)
    return 0


def _rows() -> Iterator[dict[str, Any]]:
    """Yield each key that there is: the environment's, then the file's; of several for one provider the first is used."""
    from tenuto import settings
    from tenuto.catalog import PROVIDERS
    from tenuto.cli.configuring import loaded
    from tenuto.cli.keyring import keys_path, provider_name, read_keys, variables_of

    kept = read_keys()
    known = [*PROVIDERS, *loaded().document.get("providers", {})]
    for name in dict.fromkeys((*map(provider_name, known), *kept)):
        places = [("environment", variable) for variable in variables_of(name) if settings.getenv(variable)]
        places += [("file", keys_path().name)] if name in kept else []
        for source, where in places:
            wins = "" if (source, where) == places[0] else f"{places[0][1]} wins"
            why_not = wins if name in known else "no provider is called so any more"
            yield {"provider": name, "source": source, "where": where, "used": not why_not, "why_not": why_not or None}
