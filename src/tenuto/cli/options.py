"""The options that several verbs have, and what becomes of them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypedDict, TypeVar

import click

__all__ = ["Given", "asking_options", "color_option", "store_option"]

F = TypeVar("F", bound=Callable[..., Any])


class Given(TypedDict, total=False):
    """What was typed to `run` or `resume`."""

    session: str
    prompt: str | None
    model: str | None
    system: str | None
    effort: str | None
    max_tokens: int | None
    tool: tuple[str, ...]
    root: str
    approve: str
    max_turns: int | None
    max_usd: str | None
    max_tokens_total: int | None
    timeout: float | None
    store: str | None
    quiet: bool
    hide_thinking: bool
    json: bool
    color: str
    take: bool


store_option = click.option(
    "--store",
    metavar="PLACE",
    help="Where sessions are kept: a file, or postgresql://...  [default: TENUTO_STORE, or a file in the data folder]",
)
color_option = click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    help="Whether there is color; auto: on a terminal, unless NO_COLOR is set.",
)
_WHOLE = click.IntRange(min=1)
_ASKING: tuple[Callable[[F], F], ...] = (
    click.option(
        "-T",
        "--tool",
        multiple=True,
        metavar="NAME",
        help="A tool the model may call, as often as you like: read_file, write_file, edit_file, list_files, "
        "search_files, shell, or your own as MODULE:FUNCTION.",
    ),
    click.option(
        "--root", default=".", metavar="DIR", help="The folder that the tools work in.  [default: the current one]"
    ),
    click.option(
        "--approve",
        type=click.Choice(["ask", "auto", "never"]),
        default="ask",
        show_default=True,
        help="What becomes of calls that need somebody's word: ask on the terminal (without one the session waits), "
        "allow all, or deny all.",
    ),
    click.option("--max-turns", type=_WHOLE, metavar="N", help="Stop after so many replies.  [default: 100]"),
    click.option("--max-usd", metavar="USD", help="Stop when so much is spent."),
    click.option("--max-tokens-total", type=_WHOLE, metavar="N", help="Stop when so many tokens are used."),
    click.option("--timeout", type=float, metavar="SECONDS", help="Stop after so long."),
    store_option,
    click.option("-q", "--quiet", is_flag=True, help="The answer only."),
    click.option("--hide-thinking", is_flag=True, help="Do not show what the model thinks."),
    click.option("--json", is_flag=True, help="One JSON document at the end, instead of the answer."),
    color_option,
)


def asking_options(command: F) -> F:
    """Give a command the options of whatever asks a model."""
    return functools.reduce(lambda made, option: option(made), reversed(_ASKING), command)
