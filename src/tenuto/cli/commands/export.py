"""`tenuto export`: write sessions as JSONL, Markdown or OpenAI messages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import click

from tenuto.cli.files import export_target
from tenuto.cli.options import flag, option, session_argument, store_option
from tenuto.cli.store import all_sessions, use_sessions
from tenuto.cli.terminal.output import detect_terminal, progress
from tenuto.cli.terminal.text import escape_control, escape_json, one_line
from tenuto.cli.transcript.markdown import session_markdown
from tenuto.core import jsonio
from tenuto.core.journal import UnknownPayload, transcript_of
from tenuto.core.loss import Location, Loss
from tenuto.core.messages import SystemMessage
from tenuto.core.next_request import session_config
from tenuto.core.request import ChatRequest
from tenuto.oneshot import encode
from tenuto.store.export import export_session
from tenuto.store.protocol import Store


async def jsonl(store: Store, session: str, _: Callable[[Loss], object]) -> AsyncIterator[bytes]:
    """Yield a line for the session and one for each entry, as stored."""
    async for line in export_session(store, session):
        yield line


async def md(store: Store, session: str, _: Callable[[Loss], object]) -> AsyncIterator[bytes]:
    for piece in session_markdown(await store.session(session), await store.read(session)):
        yield piece.encode()


async def openai(store: Store, session: str, lose: Callable[[Loss], object]) -> AsyncIterator[bytes]:
    """Yield one line, `{"messages": [...]}`, as in OpenAI's Chat Completions: without reasoning and signatures."""
    entries = await store.read(session)
    config = session_config(entries)
    for entry in entries:
        if isinstance(entry.payload, UnknownPayload):
            location = Location(path=f"entry {entry.seq}")
            lose(Loss("later-version", location, entry.payload.kind, "a later version of tenuto can read it"))
    system = (SystemMessage(config.system),) if config is not None and config.system else ()
    wire = encode("openai-chat", ChatRequest(model="", messages=(*system, *transcript_of(entries).messages)))
    for loss in wire.losses:
        lose(Loss(loss.kind, loss.location, loss.detail, "a jsonl export has it"))
    yield b'{"messages":' + bytes(jsonio.members(wire.body)["messages"]) + b"}\n"


_FORMATS = {form.__name__: form for form in (md, jsonl, openai)}
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
"""


@click.command("export", help=_HELP, epilog=_EXAMPLES)
@session_argument("sessions", nargs=-1, metavar="[SESSION]...")
@flag("--all", "every", help="All sessions, including archived and sub-agent ones.")
@option("--format", "form", type=click.Choice([*_FORMATS]), help="Format.  [default: by the suffix, else jsonl]")
@option("--out", metavar="FILE", help="Write to FILE atomically.  [default: stdout]")
@flag("--force", help="Overwrite FILE.")
@store_option
def command(
    sessions: tuple[str, ...], every: bool, form: str | None, out: str | None, force: bool, store: str | None
) -> None:
    if every and sessions:
        raise click.UsageError("use either --all or SESSION")
    suffix = Path(out or "").suffix.lower()
    if form is None and suffix not in _SUFFIXES:
        raise click.UsageError(f"no format for {suffix}: use .md or .jsonl, or pass --format")
    form = form or _SUFFIXES[suffix]
    stopped = "nothing was written" if out not in (None, "-") else "the output is incomplete"
    losses: list[tuple[str, Loss]] = []
    with export_target(out, force=force, escape=escape_control if form == "md" else escape_json) as write:

        async def export(opened: Store, ids: list[str]) -> None:
            ids = [one.id async for one in all_sessions(opened)] if every else ids
            total = sum([(await opened.session(id)).head for id in ids])
            with progress("exporting", total, quiet=detect_terminal().is_out_terminal) as bar:
                for index, id in enumerate(ids):
                    if index and form == "md":
                        write(b"\n")
                    lost: list[Loss] = []
                    async for piece in _FORMATS[form](opened, id, lost.append):
                        write(piece)
                        bar.update(1)
                    losses.extend((id, loss) for loss in lost)

        use_sessions(store, () if every else sessions or ("last",), export, stopped)
    for session, loss in losses:
        line = f"lost: session {session}: {loss.detail} ({loss.location}, {loss.kind}); {loss.remedy}"
        click.echo(one_line(line, 400), err=True)
