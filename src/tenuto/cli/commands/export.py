"""`tenuto export`: write sessions as JSONL, Markdown or OpenAI messages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import click

from tenuto.cli.files import export_target
from tenuto.cli.options import store_option
from tenuto.cli.store import all_sessions as all_of
from tenuto.cli.store import find_sessions, open_existing_store, run_interruptible
from tenuto.cli.terminal.output import progress
from tenuto.cli.terminal.text import escape_control, escape_json, one_line

if TYPE_CHECKING:
    from tenuto.cli.files import ExportWriter
    from tenuto.core.loss import Loss
    from tenuto.store.protocol import Store


LossCallback: TypeAlias = "Callable[[Loss], object]"
"""Called with what a format cannot express."""


async def jsonl(store: Store, session: str, lose: LossCallback) -> AsyncIterator[bytes]:
    """Yield a line for the session and one for each entry, as stored."""
    from tenuto.store.export import export_session

    del lose
    async for line in export_session(store, session):
        yield line


async def md(store: Store, session: str, lose: LossCallback) -> AsyncIterator[bytes]:
    """Yield a Markdown document, with the losses."""
    from tenuto.cli.transcript.markdown import session_markdown

    del lose
    for piece in session_markdown(await store.session(session), await store.read(session)):
        yield piece.encode()


async def openai(store: Store, session: str, lose: LossCallback) -> AsyncIterator[bytes]:
    """Yield `{"messages": [...]}` in one line, as a request in OpenAI's chat dialect has them: text, pictures, calls and
    results. Thoughts and tokens of other providers have no place there.
    """
    from tenuto.core import jsonio
    from tenuto.core.journal import UnknownPayload, transcript_of
    from tenuto.core.loss import Location, Loss
    from tenuto.core.messages import SystemMessage
    from tenuto.core.next_request import config_after
    from tenuto.core.request import ChatRequest
    from tenuto.oneshot import encode

    entries = await store.read(session)
    kept = None
    for entry in entries:
        kept = config_after(kept, entry.payload)
        if isinstance(entry.payload, UnknownPayload):
            lose(
                Loss(
                    "later-version",
                    Location(path=f"entry {entry.seq}"),
                    entry.payload.kind,
                    "a later version of tenuto knows it",
                )
            )
    first = (SystemMessage(kept.system),) if kept is not None and kept.system else ()
    request = ChatRequest(model="", messages=(*first, *transcript_of(entries).messages))
    wire = encode("openai-chat", request)
    for loss in wire.losses:
        lose(Loss(loss.kind, loss.location, loss.detail, "an export as jsonl has it"))
    yield b'{"messages":' + bytes(jsonio.members(wire.body)["messages"]) + b"}\n"


FORMS = {form.__name__: form for form in (md, jsonl, openai)}
"""By the names that `--format` takes."""


_HELP = """Export sessions (the last one by default) to stdout or a file.

\b
jsonl   lossless, for tenuto import
md      a Markdown document to read
openai  {"messages": [...]}, one line per session, as in OpenAI's Chat
        Completions; anything lost is reported on stderr

Works on sessions in use.
"""
_SUFFIXES = {"": "jsonl", ".jsonl": "jsonl", ".md": "md"}
_EXAMPLES = """\b
Examples:
  tenuto export trip --out trip.md
  tenuto export last > last.jsonl && tenuto import last.jsonl --store other.db
  tenuto export --all --out sessions.jsonl
  tenuto export 01m7q2 ~1 --format openai | jq '.messages[0]'
"""


@click.command("export", help=_HELP, epilog=_EXAMPLES)
@click.argument("sessions", nargs=-1, metavar="[SESSION]...")
@click.option("--all", "every", is_flag=True, help="All sessions, including archived and sub-agent ones.")
@click.option(
    "--format",
    "form",
    type=click.Choice([*FORMS]),
    help="Format.  [default: by the suffix of FILE, else jsonl]",
)
@click.option("--out", metavar="FILE", help="Write to FILE atomically.  [default: stdout]")
@click.option("--force", is_flag=True, help="Overwrite FILE.")
@store_option
def command(
    sessions: tuple[str, ...], every: bool, form: str | None, out: str | None, force: bool, store: str | None
) -> int:
    """Write sessions to stdout or a file."""

    if every and sessions:
        raise click.UsageError("use either --all or SESSION")
    form = form or _format_of(out)
    with export_target(out, force=force, spelt=escape_control if form == "md" else escape_json) as put:
        told = run_interruptible(
            _export_sessions(sessions or ("last",), store, form, put, every=every), _interrupt_note(out)
        )
    for line in told:
        click.echo(line, err=True)
    return 0


def _format_of(out: str | None) -> str:
    """Return the format for a file name. Raise `click.UsageError` for a suffix that has none."""
    suffix = Path(out or "").suffix.lower()
    if suffix not in _SUFFIXES:
        raise click.UsageError(f"no format for {suffix}: use .md or .jsonl, or pass --format")
    return _SUFFIXES[suffix]


def _interrupt_note(out: str | None) -> str:
    return "nothing was written" if out not in (None, "-") else "what was printed is not all of it"


async def _export_sessions(
    named: tuple[str, ...], place: str | None, form: str, put: ExportWriter, *, every: bool
) -> list[str]:
    """Write the sessions; return the messages about losses."""

    async with open_existing_store(place, named[0]) as store:
        ids = [one.id async for one in all_of(store)] if every else await find_sessions(store, named)
        told: list[str] = []
        heads = [(await store.session(id)).head for id in ids]
        with progress("exporting", sum(heads), quiet=_is_terminal()) as bar:
            for at, id in enumerate(ids):
                if at and form == "md":
                    put(b"\n")
                told += await _export_session(store, id, form, put, bar.advance)
    return told


async def _export_session(
    store: Store, id: str, form: str, put: ExportWriter, advance: Callable[[int], object]
) -> list[str]:

    losses: list[Loss] = []
    async for piece in FORMS[form](store, id, losses.append):
        put(piece)
        advance(1)
    return [
        one_line(f"lost: session {id}: {loss.detail} ({loss.location}, {loss.kind}); {loss.remedy}", 400)
        for loss in losses
    ]


def _is_terminal() -> bool:
    """What is seen at once needs no bar."""
    import sys

    return sys.stdout is not None and sys.stdout.isatty()
