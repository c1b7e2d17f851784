"""`tenuto providers`: list providers and whether a key is set."""

from __future__ import annotations

from typing import Any

import click

from tenuto.catalog import PROVIDERS
from tenuto.cli.complete import complete_provider
from tenuto.cli.keys_file import ProviderStatus, provider_statuses
from tenuto.cli.options import json_option
from tenuto.cli.terminal.output import print_table
from tenuto.cli.terminal.text import one_line, similar_names

_EXAMPLES = """\b
Examples:
  tenuto providers claude     # name or note contains "claude"
  tenuto providers --json | jq -r '.[] | select(.key.state == "set") | .name'
"""
_HEADS = ("PROVIDER", "DIALECT", "DEFAULT MODEL", "KEY")


@click.command("providers", epilog=_EXAMPLES)
@click.argument("query", default="", shell_complete=complete_provider)
@json_option
def command(query: str, as_json: bool) -> int:
    """List providers whose name or note contains QUERY, with dialect, default model and the source of the key.

    Your own servers come first. Unlisted providers can be configured. Keys are never printed. Exit 1 if nothing matches.
    """
    matches = [
        one
        for one in provider_statuses()
        if query.lower() in " ".join((one.name, *one.row.aliases, one.row.notes, *one.variables)).lower()
    ]
    near = similar_names(query, PROVIDERS, 3)
    hint = f"did you mean {' or '.join(near)}?" if near else "list them with tenuto providers"
    empty = f"no matching provider {one_line(repr(query), 80)}: {hint}"
    fields = [_fields(status) for status in matches]
    print_table(_HEADS, map(_row, matches), fields, as_json=as_json, drop=("DIALECT",), empty=empty)
    return 0 if matches else 1


def _row(status: ProviderStatus) -> tuple[str, ...]:
    row = status.row
    variables = " or ".join(status.variables)
    key = {
        "set": f"set in {status.where}",
        "kept": f"saved in {status.where}",
        "missing": f"missing: {f'set {variables}' if variables else 'tenuto keys set'}",
    }.get(status.key, status.key)
    return (
        one_line(status.name, 60) + (" (yours)" if status.custom else ""),
        row.dialect,
        one_line(status.default_model, 100) or "-",
        f"retired {row.retired}" if row.retired else one_line(key, 200),
    )


def _fields(status: ProviderStatus) -> dict[str, Any]:
    row = status.row
    return {
        "name": status.name,
        "aliases": row.aliases,
        "dialect": row.dialect,
        "address": status.base_url,
        "default_model": status.default_model or None,
        "key": {"state": status.key, "where": status.where or None, "variables": status.variables},
        "own": status.custom,
        "ended": row.retired or None,
        "notes": row.notes or None,
    }
