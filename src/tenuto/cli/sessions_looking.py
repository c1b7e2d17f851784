"""`tenuto sessions search`, `stats` and `verify`: looking into all that is kept. Nothing of it is changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tenuto.cli.options import store_option

if TYPE_CHECKING:
    from tenuto.store.protocol import SearchHit, StoreStats, VerifyProblem

__all__ = ["search", "stats", "verify"]

_SEARCH = """\b
Examples:
  tenuto sessions search weather Oslo
  tenuto sessions search "does not compile" -n 100
  tenuto sessions search TODO --json | jq -r '.[].session' | sort -u
"""
_STATS = """\b
Examples:
  tenuto sessions stats
  tenuto sessions stats --json | jq .bytes
"""
_VERIFY = """\b
Examples:
  tenuto sessions verify
  tenuto sessions verify last trip
  tenuto sessions verify --json | jq .faults
"""
_NONE = 'no sessions yet: begin one with tenuto run "..."'
_SNIPPET = 160


@click.command("search", epilog=_SEARCH)
@click.argument("words", nargs=-1, required=True)
@click.option("-n", "--number", type=click.IntRange(min=1), default=20, show_default=True, help="How many, at most.")
@click.option("--json", "as_json", is_flag=True, help="A JSON array.")
@store_option
def search(words: tuple[str, ...], number: int, as_json: bool, store: str | None) -> int:
    """Find what was said by its WORDS, the most fitting first: questions, replies, thoughts, calls and their results.

    All the words have to occur in one entry, in whatever order; capitals do not matter, and no sign means anything else
    than itself. For each entry there is the session, the entry's number, and a piece of the text.
    """
    from tenuto.cli.reading import awaited
    from tenuto.cli.screen import write_document, write_text
    from tenuto.core import jsonio

    hits = awaited(_found(" ".join(words), number, store), "nothing was changed")
    if as_json:
        write_document(jsonio.encode(hits))
    elif not hits:
        click.echo("nothing was found: all the words have to occur in one entry", err=True)
    else:
        from tenuto.cli.columns import columns
        from tenuto.cli.escaping import one_line

        rows = [(hit.session, str(hit.seq), one_line(hit.snippet, _SNIPPET)) for hit in hits]
        write_text(columns([("SESSION", "ENTRY", "TEXT"), *rows]), escape=True)
    return 0


async def _found(words: str, number: int, place: str | None) -> list[SearchHit]:
    from tenuto.cli.reading import reading

    async with reading(place) as store:
        return [] if store is None else await store.search(words, limit=number)


@click.command("stats", epilog=_STATS)
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@store_option
def stats(as_json: bool, store: str | None) -> int:
    """Say how much there is: sessions, entries, bytes on disk, large bodies that are kept apart, and what keeps it."""
    import asyncio

    from tenuto.cli.columns import columns
    from tenuto.cli.screen import write_document, write_text
    from tenuto.core import jsonio

    counted = asyncio.run(_counted(store))
    if as_json:
        write_document(jsonio.encode(counted))
    elif counted is None:
        click.echo(_NONE, err=True)
    else:
        rows = [
            ("sessions", f"{counted.sessions:,}"),
            ("entries", f"{counted.entries:,}"),
            ("bytes", f"{counted.bytes:,}"),
            ("large bodies", f"{counted.blobs:,} with {counted.blob_bytes:,} bytes"),
            ("kept by", f"{counted.backend}, schema {counted.schema}"),
        ]
        write_text(columns(rows), escape=True)
    return 0


async def _counted(place: str | None) -> StoreStats | None:
    from tenuto.cli.reading import reading

    async with reading(place) as store:
        return None if store is None else await store.stats()


@click.command("verify", epilog=_VERIFY)
@click.argument("sessions", nargs=-1, metavar="[SESSION]...")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@store_option
def verify(sessions: tuple[str, ...], as_json: bool, store: str | None) -> int:
    """Look for damage in each SESSION, or in all of them and in what keeps them.

    Every entry's bytes are compared with the digest that was taken when they were written; order, gaps, pairs of calls and
    results, large bodies and summaries are looked at. Nothing is changed. The exit code is 7 if something is wrong.
    """
    from tenuto.cli.exits import Exit
    from tenuto.cli.reading import awaited
    from tenuto.cli.screen import write_document, write_text
    from tenuto.core import jsonio

    count, faults = awaited(_verified(sessions, store), "nothing was changed; begin again when there is time")
    if as_json:
        write_document(jsonio.encode({"sessions": count, "faults": faults}))
    elif not faults:
        write_text(f"{count} {'session' if count == 1 else 'sessions'}: nothing is wrong\n")
    else:
        write_text("".join(f"{_line(fault)}\n" for fault in faults), escape=True)
    if faults:
        click.echo(
            f"error: {len(faults)} {'thing is' if len(faults) == 1 else 'things are'} wrong in {count} sessions\n"
            "  fetch a backup; tenuto sessions backup and tenuto export save what can still be read",
            err=True,
        )
    return Exit.SESSION if faults else Exit.DONE


def _line(fault: VerifyProblem) -> str:
    from tenuto.cli.escaping import one_line

    where = f"session {fault.session}" if fault.session else "the store"
    return f"{where}{f', entry {fault.seq}' if fault.seq else ''}: {one_line(fault.what, 400)}"


async def _verified(named: tuple[str, ...], place: str | None) -> tuple[int, list[VerifyProblem]]:
    """Return how many sessions were looked through, and what is wrong with them."""
    from tenuto.cli.progress import progress
    from tenuto.cli.reading import existing, found_all, reading

    if not named:
        async with reading(place) as store:
            if store is None:
                return 0, []
            with progress("verifying") as bar:
                faults = await store.verify(tell=_Bar(bar))
                return bar.done, faults
    async with existing(place, named[0]) as store:
        ids = await found_all(store, named)
        faults = []
        with progress("verifying", len(ids)) as bar:
            for id in ids:
                faults += await store.verify(id)
                bar.advance()
        return len(ids), faults


class _Bar:
    """Hears how far a store is, and shows it."""

    def __init__(self, bar: Any) -> None:
        self._bar = bar

    def __call__(self, done: int, total: int) -> None:
        self._bar.total = total
        self._bar.advance(done - self._bar.done)
