"""`tenuto sessions rename`, `archive`, `rm`, `gc`, `reindex` and `backup`: keeping house."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from tenuto.cli.options import store_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tenuto.store.protocol import Store, StoredSession

__all__ = ["archive", "backup", "gc", "reindex", "rename", "rm"]

_RENAME = """\b
Examples:
  tenuto sessions rename last trip
  tenuto resume trip "And Bergen?"
  tenuto sessions rename trip ""         # takes the name off
"""
_ARCHIVE = """\b
Examples:
  tenuto sessions archive 01m7q2 ~3
  tenuto sessions archive 01m7q2 --undo
"""
_RM = """\b
Examples:
  tenuto sessions rm 01m7q2
  tenuto sessions rm trip ~1 --yes       # without a question
  tenuto sessions rm trip --forks        # and what was forked off it
"""
_GC = """\b
Examples:
  tenuto sessions gc
"""
_REINDEX = """\b
Examples:
  tenuto sessions reindex
"""
_BACKUP = """\b
Examples:
  tenuto sessions backup ~/sessions-backup.db
  tenuto sessions --store ~/sessions-backup.db
"""
_json_option = click.option("--json", "as_json", is_flag=True, help="One JSON document.")


def _print(document: object, lines: Sequence[str], *, as_json: bool) -> None:
    from tenuto.cli.screen import write_document, write_text
    from tenuto.core import jsonio

    if as_json:
        write_document(jsonio.encode(document))
    else:
        write_text("".join(f"{line}\n" for line in lines), escape=True)


# --- names, and putting away ------------------------------------------------------------------------------------------


@click.command("rename", epilog=_RENAME)
@click.argument("session")
@click.argument("name")
@_json_option
@store_option
def rename(session: str, name: str, as_json: bool, store: str | None) -> int:
    """Call SESSION (an id, how one begins, a name, last, or ~N) by NAME from now on; an empty one takes its name off.

    A name is one line, and no other session's. Wherever a session is meant, its name will do.
    """
    import asyncio

    from tenuto.cli.reading import naming

    id = asyncio.run(_renamed(session, naming(name), store))
    said = f"session {id} is called {name}" if name else f"session {id} has no name"
    _print({"session": id, "name": name}, [said], as_json=as_json)
    return 0


async def _renamed(named: str, name: str, place: str | None) -> str:
    from tenuto.cli.reading import existing, found

    async with existing(place, named) as store:
        id = await found(store, named)
        try:
            await store.rename(id, name)
        except ValueError as exc:
            raise click.UsageError(f"{exc}: choose another name, or take that one off") from None
        return id


@click.command("archive", epilog=_ARCHIVE)
@click.argument("sessions", nargs=-1, required=True, metavar="SESSION...")
@click.option("--undo", is_flag=True, help="Fetch them back.")
@_json_option
@store_option
def archive(sessions: tuple[str, ...], undo: bool, as_json: bool, store: str | None) -> int:
    """Put each SESSION away: it is kept, and not listed any more. `last` and `~N` pass it over.

    tenuto sessions --all lists those put away; its id, the beginning of that and its name still mean it.
    """
    import asyncio

    ids = asyncio.run(_archived(sessions, store, archived=not undo))
    word = "fetched back" if undo else "put away"
    _print({"sessions": ids, "archived": not undo}, [f"{word}: {id}" for id in ids], as_json=as_json)
    return 0


async def _archived(named: tuple[str, ...], place: str | None, *, archived: bool) -> list[str]:
    from tenuto.cli.reading import existing, found_all

    async with existing(place, named[0]) as store:
        ids = await found_all(store, named)
        for id in ids:
            await store.archive(id, archived=archived)
        return ids


# --- removing ---------------------------------------------------------------------------------------------------------


@click.command("rm", epilog=_RM)
@click.argument("sessions", nargs=-1, required=True, metavar="SESSION...")
@click.option("--forks", is_flag=True, help="Also what was forked off them.")
@click.option(
    "-y", "--yes", is_flag=True, help="Ask nothing. Without a terminal nobody can be asked: this is needed then."
)
@_json_option
@store_option
def rm(sessions: tuple[str, ...], forks: bool, yes: bool, as_json: bool, store: str | None) -> int:
    """Remove each SESSION (an id, how one begins, a name, last, or ~N) for good.

    A fork shares its entries with the session that it was forked off: as long as it is there, that one is not removed,
    unless --forks takes both. A session that somebody works on is not removed. Sessions of sub-agents stay: tenuto
    sessions --all lists them. tenuto export keeps a copy.
    """
    import asyncio

    return asyncio.run(_removal(sessions, store, forks=forks, yes=yes, as_json=as_json))


async def _removal(named: tuple[str, ...], place: str | None, *, forks: bool, yes: bool, as_json: bool) -> int:
    from tenuto.cli.exits import Exit
    from tenuto.cli.reading import every, existing, found_all

    async with existing(place, named[0]) as store:
        ids = await found_all(store, named)
        there = {one.id: one async for one in every(store)}
        going = _going(ids, there, forks=forks)
        if not yes and not _agreed([there[id] for id in going]):
            click.echo("nothing was removed", err=True)
            return Exit.FAILED
        gone: list[str] = []
        try:
            await _remove(store, ids if forks else going, gone, forks=forks)
        finally:
            if gone:
                lines = [f"removed {_called(there[id])}" if id in there else f"removed {id}" for id in gone]
                _print({"removed": gone}, lines, as_json=as_json)
    return Exit.DONE


def _going(ids: list[str], there: dict[str, StoredSession], *, forks: bool) -> list[str]:
    """Return what is to go, forks before what they were forked off. Raise `StoreError` if one is left that shares."""
    from tenuto.errors import StoreError

    children: dict[str, list[str]] = {}
    for one in there.values():
        children.setdefault(one.parent, []).append(one.id)
    going: set[str] = set()
    left = list(ids)
    while left:
        id = left.pop()
        if id in going:
            continue
        going.add(id)
        for fork in children.get(id, ()):
            if not forks and fork not in ids:
                error = StoreError(f"session {id} is not removed: {fork} was forked off it, and shares its entries")
                error.add_note("--forks removes what was forked off, too; nothing was removed")
                raise error
            left.append(fork)
    return sorted(going, key=lambda one: (-_depth(one, there), one))


def _depth(id: str, there: dict[str, StoredSession]) -> int:
    """How often it was forked until it came into being."""
    depth = 0
    while id in there and there[id].parent:
        id, depth = there[id].parent, depth + 1
    return depth


def _agreed(going: list[StoredSession]) -> bool:
    """Ask on the terminal. Raise `click.UsageError` where nobody can be asked."""
    if sys.stdin is None or sys.stdin.closed or not sys.stdin.isatty() or not sys.stderr.isatty():
        raise click.UsageError("nobody can be asked whether to remove it: say --yes, or do it on a terminal")
    for one in going:
        click.echo(f"  {_called(one)}", err=True)
    many = "this session" if len(going) == 1 else f"these {len(going)} sessions"
    return click.confirm(f"remove {many} for good?", default=False, err=True)


def _called(one: StoredSession) -> str:
    from tenuto.cli.escaping import one_line

    return f"{one.id}  {one_line(one.name or one.meta.title, 60)}".rstrip()


async def _remove(store: Store, ids: list[str], gone: list[str], *, forks: bool) -> None:
    """Remove; `gone` has what went, also if something else does not go."""
    for id in ids:
        if id not in gone:
            gone += await store.delete(id, children=forks)


# --- the store itself -------------------------------------------------------------------------------------------------


@click.command("gc", epilog=_GC)
@_json_option
@store_option
def gc(as_json: bool, store: str | None) -> int:
    """Remove what nothing refers to any more: large bodies of sessions that are gone, and sessions that never began."""
    from tenuto.cli.reading import awaited, reading

    async def collected() -> int:
        async with reading(store) as opened:
            return 0 if opened is None else await opened.gc()

    count = awaited(collected(), "begin again when there is time: nothing that is referred to was removed")
    _print({"bytes": count}, [f"{count:,} bytes that nothing referred to were removed"], as_json=as_json)
    return 0


@click.command("reindex", epilog=_REINDEX)
@_json_option
@store_option
def reindex(as_json: bool, store: str | None) -> int:
    """Make what searches look into anew, from the entries. It is never needed unless a search finds what is not there."""
    from tenuto.cli.reading import awaited, reading

    async def indexed() -> int:
        async with reading(store) as opened:
            return 0 if opened is None else await opened.reindex()

    count = awaited(indexed(), "the next search goes on with it")
    _print({"entries": count}, [f"{count:,} entries can be found by their words"], as_json=as_json)
    return 0


@click.command("backup", epilog=_BACKUP)
@click.argument("file")
@_json_option
@store_option
def backup(file: str, as_json: bool, store: str | None) -> int:
    """Write a copy of everything to FILE, which must not be there yet. It is consistent, also while others write.

    The copy is a store like any other: --store FILE reads it. Not every store can be copied so; those of a server have
    their own ways.
    """
    from pathlib import Path

    from tenuto.cli.reading import awaited, reading
    from tenuto.errors import StoreError

    path = Path(file).expanduser().absolute()

    async def copied() -> None:
        async with reading(store) as opened:
            if opened is None:
                raise StoreError("there are no sessions yet: there is nothing to copy")
            await opened.backup(str(path))

    awaited(copied(), "begin again with another name if there is a file of that one now")
    size = path.stat().st_size
    _print({"file": str(path), "bytes": size}, [f"{path}: {size:,} bytes"], as_json=as_json)
    return 0
