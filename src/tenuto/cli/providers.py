"""`tenuto providers`: who can be asked, and for whom there is a key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from tenuto.cli.having import Having

__all__ = ["command"]

_EXAMPLES = """\b
Examples:
  tenuto providers
  tenuto providers claude     # whoever has this in a name or a note
  tenuto providers --json | jq -r '.[] | select(.key.state == "set") | .name'
"""
_HEADS = ("PROVIDER", "DIALECT", "DEFAULT MODEL", "KEY")


@click.command("providers", epilog=_EXAMPLES)
@click.argument("query", default="")
@click.option("--json", "as_json", is_flag=True, help="A JSON array, with addresses, other names and notes.")
def command(query: str, as_json: bool) -> int:
    """List the providers that have QUERY in their names or in what is noted of them: which dialect they speak, which model
    is asked if none is named, and where the key comes from, or which variable would hold it. Keys are never printed.

    Servers of your own, from the configuration, stand first. A provider that is not listed works, too: any server with one
    of the dialects can be configured.

    The exit code is 1 if there is none.
    """
    from tenuto.cli.columns import columns
    from tenuto.cli.having import all_providers
    from tenuto.cli.screen import write_document, write_text
    from tenuto.core import jsonio

    found = [having for having in all_providers() if _fits(having, query)]
    if as_json:
        write_document(jsonio.encode([_fields(having) for having in found]))
    elif found:
        write_text(columns([_HEADS, *map(_cells, found)]), escape=True)
    else:
        _missed(query)
    return 0 if found else 1


def _fits(having: Having, query: str) -> bool:
    row = having.row
    return query.lower() in " ".join((having.name, *row.aliases, row.notes, *having.variables)).lower()


def _missed(query: str) -> None:
    import difflib

    from tenuto.catalog import PROVIDERS
    from tenuto.cli.escaping import one_line

    near = difflib.get_close_matches(query.lower(), PROVIDERS, n=3)
    meant = f"did you mean {' or '.join(near)}?" if near else "tenuto providers lists all"
    click.echo(f"no provider is called {one_line(repr(query), 80)}: {meant}", err=True)


def _cells(having: Having) -> tuple[str, ...]:
    from tenuto.cli.escaping import one_line

    return (
        one_line(having.name, 60) + (" (yours)" if having.own else ""),
        having.row.dialect,
        one_line(having.default_model, 100) or "-",
        f"ended {having.row.retired}" if having.row.retired else one_line(_key(having), 200),
    )


def _key(having: Having) -> str:
    match having.key:
        case "set":
            return f"set in {having.where}"
        case "kept":
            return f"kept in {having.where}"
        case "missing":
            names = " or ".join(having.variables)
            return f"missing: set {names}" if names else "missing: tenuto keys set keeps one"
        case _:
            return "not needed"


def _fields(having: Having) -> dict[str, Any]:
    row = having.row
    return {
        "name": having.name,
        "aliases": row.aliases,
        "dialect": row.dialect,
        "address": having.address,
        "default_model": having.default_model or None,
        "key": {"state": having.key, "where": having.where or None, "variables": having.variables},
        "own": having.own,
        "ended": row.retired or None,
        "notes": row.notes or None,
    }
