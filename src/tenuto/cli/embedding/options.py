"""What `tenuto embed` can be told."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypedDict, TypeVar

import click

__all__ = ["Wanted", "embed_options"]

F = TypeVar("F", bound=Callable[..., Any])


class Wanted(TypedDict):
    """What was typed, by click's names."""

    names: tuple[str, ...]
    lines: bool
    chunk: int | None
    text: str | None
    into: str | None
    model: str | None
    dimensions: int | None
    batch: int
    prune: bool
    similar: str | None
    number: int
    json: bool
    quiet: bool


_WHOLE = click.IntRange(min=1)
_OPTIONS: tuple[Callable[[F], F], ...] = (
    click.argument("names", nargs=-1, metavar="[FILE|FOLDER|-]..."),
    click.option("--lines", is_flag=True, help="Each line is an item, called FILE:NUMBER; blank ones are none."),
    click.option(
        "--chunk",
        type=click.IntRange(min=16),
        metavar="N",
        help="Cut texts into pieces of at most N characters, called ID#NUMBER: between paragraphs, lines or words.",
    ),
    click.option("--text", metavar="TEXT", help="Print the vector of a text, or of stdin (-), and keep nothing."),
    click.option(
        "--into",
        "--in",
        "into",
        metavar="PLACE",
        help="Where vectors are: FILE.db (a SQLite table), FILE.jsonl (lines), - (lines on stdout).  "
        "[default: embeddings.db in the data folder]",
    ),
    click.option(
        "-m",
        "--model",
        metavar="MODEL",
        help="Who embeds: provider/model.  [default: who made what is there, or a provider with a key]",
    ),
    click.option(
        "--dimensions", type=_WHOLE, metavar="N", help="How long a vector is, for models that leave the choice."
    ),
    click.option(
        "--batch",
        type=_WHOLE,
        default=64,
        show_default=True,
        metavar="N",
        help="How many items are asked for, and kept, at a time.",
    ),
    click.option("--prune", is_flag=True, help="Remove from the table what is not among the items of now."),
    click.option("--similar", metavar="TEXT", help="Rank what is kept by how like a text, or stdin (-), it is."),
    click.option(
        "-n",
        "--number",
        type=_WHOLE,
        default=10,
        show_default=True,
        metavar="N",
        help="How many are shown with --similar.",
    ),
    click.option("--json", is_flag=True, help="One JSON document on stdout."),
    click.option("-q", "--quiet", is_flag=True, help="No progress, and no last line; what fails is told."),
)


def embed_options(command: F) -> F:
    """Give a command the argument and the options; it is called with `Wanted`."""
    return functools.reduce(lambda made, option: option(made), reversed(_OPTIONS), command)
