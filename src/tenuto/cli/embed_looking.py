"""Looking at what was embedded: what is most like something, which collections there are; and taking one away."""

from __future__ import annotations

import asyncio
import difflib
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing

import click

from tenuto.cli.columns import columns
from tenuto.cli.embed_keeping import Kept, Shelf, packed
from tenuto.cli.embed_models import asked, client
from tenuto.cli.embed_options import Wanted
from tenuto.cli.embed_places import COLLECTION, place, shelf, table
from tenuto.cli.embed_ranking import Ranked, ranked
from tenuto.cli.embed_run import complained, stdin_text, vector_of
from tenuto.cli.escaping import one_line, shown
from tenuto.cli.exits import Exit
from tenuto.cli.progress import progress
from tenuto.cli.screen import write_document, write_text
from tenuto.core import jsonio
from tenuto.errors import TenutoError

__all__ = ["listed", "removed", "similar"]

_ID, _PIECE = 60, 70


def similar(wanted: Wanted) -> int:
    """Print what is most like a text, or like an item."""
    with closing(shelf(place(wanted["into"]), wanted["collection"])) as shelved:
        try:
            return _similar(wanted, shelved)
        except TenutoError as exc:
            return complained(exc)


def _similar(wanted: Wanted, shelved: Shelf) -> int:
    kept = shelved.kept()
    if kept is None:
        raise _unknown(wanted["collection"] or COLLECTION, shelved.names())
    said = wanted["similar"] or ""
    named = said[1:] if said.startswith("@") and said != "@" else None
    vector = _vector_of(wanted, kept, said) if named is None else _kept_vector(shelved, named)
    if not any(vector):
        raise TenutoError("all numbers of that vector are 0, so nothing is like it: say something else")
    found = _ranked(wanted, shelved, vector, named)
    texts = shelved.texts([id for _, id in found.best])
    if wanted["json"]:
        rows = [{"score": score, "id": id, "text": texts.get(id)} for score, id in found.best]
        write_document(jsonio.encode(rows))
    elif found.best:
        lines = [(f"{score:.3f}", one_line(id, _ID), one_line(texts.get(id, ""), _PIECE)) for score, id in found.best]
        write_text(columns([("SCORE", "ID", "TEXT"), *lines]))
    if found.without and not wanted["quiet"]:
        click.echo(f"{found.without} left out: all their numbers are 0, so nothing is like them", err=True)
    return Exit.DONE


def _ranked(wanted: Wanted, shelved: Shelf, vector: bytes, but: str | None) -> Ranked:
    with progress("ranking", quiet=wanted["quiet"]) as bar:

        def pages() -> Iterator[list[tuple[str, bytes]]]:
            for page in shelved.vectors():
                yield page
                bar.advance(len(page))

        return ranked(vector, pages(), wanted["number"], but)


def _kept_vector(shelved: Shelf, id: str) -> bytes:
    found = shelved.vector(id)
    if found is None:
        near = shelved.near(id)
        hint = f"did you mean {' or '.join(f'@{one}' for one in near)}?" if near else "a text with @ is piped in, for -"
        raise click.UsageError(f"--similar: no item is called {id!r}: {hint}")
    return found


def _vector_of(wanted: Wanted, kept: Kept, said: str) -> bytes:
    """Ask for the vector of what was said, of the model that made the others."""
    text = stdin_text() if said == "-" else said
    if not text.strip():
        raise click.UsageError("--similar is empty: say what to look for")

    async def act() -> tuple[float, ...]:
        async with client() as ai:
            who = asked(ai, kept, wanted["model"], wanted["dimensions"], "the collection")
            return (await vector_of(ai, who, text)).embeddings[0]

    vector = asyncio.run(act())
    if len(vector) != kept.dimensions:
        raise TenutoError(
            f"{kept.model} gave a vector of {len(vector)} numbers, where {kept.dimensions} are kept: give --dimensions "
            f"{kept.dimensions}"
        )
    return packed(vector)


# --- collections ------------------------------------------------------------------------------------------------------


def listed(wanted: Wanted) -> int:
    """Print the collections of a table."""
    path = place(wanted["into"])
    found = []
    if path is None or path.exists():
        with closing(table(path)) as opened:
            found = opened.collections()
    if wanted["json"]:
        write_document(jsonio.encode([one._asdict() for one in found]))
    elif not found:
        click.echo("nothing is embedded yet: begin with tenuto embed FOLDER", err=True)
    else:
        rows = [
            (one_line(one.collection, _ID), f"{one.items:,}", one_line(one.model, _ID), f"{one.dimensions:,}")
            for one in found
        ]
        write_text(columns([("COLLECTION", "ITEMS", "MODEL", "DIMENSIONS"), *rows]))
    return Exit.DONE


def removed(wanted: Wanted) -> int:
    """Take a collection away, if that is really wanted."""
    name = wanted["removed"] or ""
    with closing(table(place(wanted["into"]), name, write=True)) as opened:
        there = {one.collection: one.items for one in opened.collections()}
        if name not in there:
            raise _unknown(name, there)
        if not wanted["yes"]:
            if not sys.stdin or not sys.stdin.isatty():
                raise click.UsageError(f"to remove {name!r} with {_items(there[name])}, give --yes")
            if not click.confirm(f"remove {name!r} with {_items(there[name])}?", err=True):
                click.echo("nothing was removed", err=True)
                return Exit.FAILED
        gone = opened.remove()
    if wanted["json"]:
        write_document(jsonio.encode({"collection": name, "removed": gone}))
    elif not wanted["quiet"]:
        click.echo(f"removed {shown(name)} with {_items(gone)}", err=True)
    return Exit.DONE


def _items(count: int) -> str:
    return f"{count:,} item{'' if count == 1 else 's'}"


def _unknown(name: str, names: Iterable[str]) -> click.UsageError:
    there = sorted(names)
    near = difflib.get_close_matches(name, there, n=2) or there[:5]
    hint = f"there is {' and '.join(near)}" if near else "nothing is embedded there yet"
    return click.UsageError(f"there is no collection {name!r}: {hint}")
