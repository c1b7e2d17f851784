"""One call of `tenuto embed` that embeds something: from what was typed to the last line."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from tenuto.cli.embedding.asking import Asked, asked, check, client, complained, said, told_of, vector_of
from tenuto.cli.embedding.items import How, Source, Trouble, found_in, sources
from tenuto.cli.embedding.keeping import Keeper
from tenuto.cli.embedding.options import Wanted
from tenuto.cli.embedding.pages import pages
from tenuto.cli.embedding.places import keeper, place
from tenuto.cli.embedding.table import Table
from tenuto.cli.embedding.work import Tally, Work
from tenuto.cli.exits import Exit, Told
from tenuto.cli.progress import progress
from tenuto.cli.screen import Screen, complain, looks, write_document
from tenuto.cli.signals import heeded
from tenuto.core import jsonio
from tenuto.core.embedding import EmbedResponse
from tenuto.errors import TenutoError

__all__ = ["many", "one"]

_AGAIN = "the same command goes on with the rest"


# --- one text ---------------------------------------------------------------------------------------------------------


def one(wanted: Wanted) -> int:
    """Print the vector of a text; nothing is kept."""
    text = said(wanted["text"] or "", "--text")

    async def act() -> tuple[Asked, EmbedResponse]:
        async with client() as ai:
            who = asked(ai, None, wanted["model"], wanted["dimensions"], "")
            _say(who.note, wanted)
            return who, await vector_of(ai, who, text)

    try:
        who, reply = asyncio.run(act())
    except TenutoError as exc:
        return complained(exc)
    [vector] = reply.embeddings
    told = {
        "model": who.model,
        "dimensions": len(vector),
        "embedding": vector,
        "tokens": reply.usage.total_tokens,
        "losses": reply.losses,
    }
    write_document(jsonio.encode(told if wanted["json"] else vector))
    return Exit.DONE


# --- many -------------------------------------------------------------------------------------------------------------


def many(wanted: Wanted) -> int:
    """Embed files, or their lines, and keep the vectors; return the exit code."""
    path = place(wanted["into"])
    if wanted["json"] and path is None:
        raise click.UsageError("--json and --into - do not go together: both want stdout")
    places = sources(wanted["names"], but=path)
    keeping = keeper(path)
    try:
        if wanted["prune"] and not isinstance(keeping, Table):
            raise click.UsageError("--prune: only a table (.db) can be pruned; lines are only added")
        return asyncio.run(_Run(wanted, keeping, path).whole(places))
    finally:
        keeping.close()


class _Run:
    """One call of the command."""

    def __init__(self, wanted: Wanted, keeping: Keeper, path: Path | None) -> None:
        self._wanted = wanted
        self._keeper = keeping
        self._path = path
        self._how = How(wanted["lines"], wanted["chunk"] or 0)
        self._task: asyncio.Task[Any] | None = None
        self._signal = 0
        self._pruned = 0

    async def whole(self, places: Sequence[Source | Trouble]) -> int:
        """Do all of it, and return the exit code."""
        self._task = asyncio.current_task()
        async with client() as ai:
            where = self._keeper.where
            who = asked(ai, self._keeper.kept(), self._wanted["model"], self._wanted["dimensions"], where)
            await check(ai, who)
            _say(who.note, self._wanted)
            total = len(places) if self._how == How() and not any(p.id == "-" for p in places) else None
            with progress("embedding", total, quiet=self._wanted["quiet"]) as bar, heeded(self._stop):
                work = Work(ai, self._keeper, who, self._wanted["batch"], bar)
                work.seen = set() if self._wanted["prune"] else None
                error = await self._worked(work, places)
        return self._ended(work.tally, error)

    def _stop(self, number: int) -> None:
        self._signal = number
        if self._task is not None:
            self._task.cancel()

    async def _worked(self, work: Work, places: Sequence[Source | Trouble]) -> TenutoError | None:
        """Do the work; return what ended it, unless it ended by itself."""
        try:
            await work.all(pages(found_in(places, self._how)))
            if self._wanted["prune"] and isinstance(self._keeper, Table) and work.seen is not None:
                if work.tally.troubles:  # what could not be read may be there
                    _say("nothing was removed, since not everything could be embedded", self._wanted)
                else:
                    self._pruned = self._keeper.prune(work.seen)
        except asyncio.CancelledError:
            if not self._signal:
                raise
        except TenutoError as exc:
            return exc
        return None

    # --- the end ---

    def _ended(self, tally: Tally, error: TenutoError | None) -> int:
        code = Exit.FAILED if tally.troubles else Exit.DONE
        told = told_of(error, _AGAIN) if error is not None else None
        status = 128 + self._signal if self._signal else int(told.code if told is not None else code)
        if self._wanted["json"]:
            write_document(jsonio.encode(self._document(tally, told, status)))
        if told is None or tally.embedded:
            _say(self._last_line(tally, broken=told is not None), self._wanted)
        if told is not None:
            complain(told, error)
        return status

    def _last_line(self, tally: Tally, *, broken: bool) -> str:
        kept, parts = tally.kept, []
        if tally.embedded or not tally.unchanged:
            tokens = f", {tally.tokens:,} tokens" if tally.tokens else ""
            by = f" by {kept.model} ({kept.dimensions} dimensions{tokens})" if kept and tally.embedded else ""
            parts.append(f"{tally.embedded:,} embedded{by}")
        if tally.unchanged:
            parts.append(f"{tally.unchanged:,} there already")
        if tally.passed:
            counts = ", ".join(f"{count:,} {what}" for what, count in sorted(tally.passed.items()))
            parts.append(f"{counts} passed over")
        parts += [f"{self._pruned:,} removed"] if self._pruned else []
        parts += [f"{len(tally.troubles):,} failed"] if tally.troubles else []
        line = f"{'; '.join(parts)}: {self._keeper.where}"
        if self._signal:
            return f"stopped; {line}\n{_AGAIN}" if self._path is not None else f"stopped; {line}"
        return f"{line}\nmend what is named above; {_AGAIN}" if tally.troubles and not broken else line

    def _document(self, tally: Tally, told: Told | None, status: int) -> dict[str, object]:
        return {
            "into": str(self._path),
            "model": tally.kept.model if tally.kept else None,
            "dimensions": tally.kept.dimensions if tally.kept else None,
            "embedded": tally.embedded,
            "unchanged": tally.unchanged,
            "passed": dict(tally.passed),
            "removed": self._pruned,
            "tokens": tally.tokens,
            "failed": [trouble._asdict() for trouble in tally.troubles],
            "losses": [loss._asdict() for loss in tally.losses],
            "error": told.what if told is not None else None,
            "exit_code": status,
        }


def _say(line: str, wanted: Wanted) -> None:
    if line:
        Screen(looks(quiet=wanted["quiet"] or wanted["json"])).note(line, "dim")
