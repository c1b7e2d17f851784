"""The group class of `tenuto` and its commands with subcommands."""

from __future__ import annotations

from typing import Any

import click
from click.core import ParameterSource


class CommandGroup(click.Group):
    """A group that suggests names for an unknown subcommand, and hands its options to the subcommand as defaults."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        name = args[0]
        names = self.list_commands(ctx)
        if name not in names and not name.startswith("-"):
            import difflib

            near = difflib.get_close_matches(name, names, n=2)
            hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(names)}"
            raise click.UsageError(f"unknown command {name!r}; {hint}", ctx)
        own = {key for key in ctx.params if ctx.get_parameter_source(key) is not ParameterSource.DEFAULT}
        configured = (ctx.default_map or {}).get(name) or {}
        ctx.default_map = {name: {**configured, **{key: ctx.params[key] for key in own}}}
        return super().resolve_command(ctx, args)
