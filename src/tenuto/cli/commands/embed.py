"""`tenuto embed`: embed files and search them by meaning."""

from __future__ import annotations

import asyncio
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from tenuto import settings
from tenuto.cli.complete import complete_embedding_model, complete_file
from tenuto.cli.errors import ExitCode, explain_error
from tenuto.cli.store import run_interruptible
from tenuto.cli.terminal.output import format_table, print_error, print_json, print_text
from tenuto.cli.terminal.text import escape_control, one_line

if TYPE_CHECKING:
    from tenuto.cli.embeddings import EmbedSummary, VectorFile

_EXAMPLES = """\b
Examples:
  tenuto embed docs/ README.md
  tenuto embed --similar "how do I resume?"
  cat question.txt | tenuto embed - --into questions.db
  tenuto embed --text "hello" -m openai/text-embedding-3-small
"""
_ONLY_FOR = {"similar": ("into", "limit"), "text": (), "files": ("into",)}
"""Options of each of the three uses, besides those of all."""
_CONTINUE = "run the same command again to continue"


@click.command("embed", epilog=_EXAMPLES)
@click.argument("files", nargs=-1, metavar="[FILE|DIRECTORY|-]...", shell_complete=complete_file)
@click.option("--similar", metavar="TEXT", help="Rank stored texts by similarity to TEXT (- for stdin).")
@click.option("--text", metavar="TEXT", help="Print one vector without storing it.")
@click.option(
    "--into",
    metavar="FILE",
    shell_complete=complete_file,
    help="Vector database file.  [default: embeddings.db in the data directory]",
)
@click.option(
    "-m",
    "--model",
    metavar="MODEL",
    shell_complete=complete_embedding_model,
    help="Embedding model.  [default: that of the file, or of a provider with a key]",
)
@click.option(
    "--dimensions", type=click.IntRange(min=1), metavar="N", help="Vector length, if the model allows a choice."
)
@click.option(
    "--limit", type=click.IntRange(min=1), default=10, show_default=True, metavar="N", help="Rows of --similar."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("-q", "--quiet", is_flag=True, help="Print only errors.")
@click.pass_context
def command(ctx: click.Context, /, **values: Any) -> int:
    """Embed files and search them by meaning.

    Each FILE is one text, and so is each text file in a DIRECTORY that is not hidden. Unchanged texts are not embedded
    again. Failures are listed and skipped; exit 1. All vectors of a file are of one model. Without an API key the
    simulator embeds, for testing only.
    """
    uses = [name for name in ("similar", "text") if values[name] is not None] + ["files"] * bool(values["files"])
    if not uses:
        raise click.UsageError("nothing to embed: pass files or directories, - for stdin, or --text")
    if len(uses) > 1:
        raise click.UsageError(f"use either {' or '.join('FILE' if use == 'files' else f'--{use}' for use in uses)}")
    for name in {"into", "limit"} - {*_ONLY_FOR[uses[0]]}:
        if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{name} has no effect here")
    return {"similar": _similar, "text": _text, "files": _files}[uses[0]](values)


def _open_file(values: dict[str, Any]) -> VectorFile:
    from tenuto.cli.embeddings import VectorFile

    path = Path(values["into"]).expanduser() if values["into"] else settings.home() / "embeddings.db"
    if values["into"] and (path.is_dir() or not path.parent.is_dir()):
        raise click.UsageError(f"--into {values['into']!r}: not a file in an existing directory")
    return VectorFile(path)


def _read_text(text: str, option: str) -> str:
    if text == "-":
        try:
            text = sys.stdin.buffer.read().decode("utf-8-sig") if sys.stdin and not sys.stdin.closed else ""
        except UnicodeDecodeError as exc:
            raise click.UsageError(f"stdin is not UTF-8 text (byte {exc.start + 1})") from None
    if not text.strip():
        raise click.UsageError(f"{option} is empty")
    return text


def _note(text: str, values: dict[str, Any]) -> None:
    if text and not (values["quiet"] or values["as_json"]):
        click.echo(escape_control(text), err=True)


def _similar(values: dict[str, Any]) -> int:
    from tenuto.core import jsonio

    with closing(_open_file(values)) as file:
        info = file.info()
        if info is None:
            raise click.UsageError("no vectors yet: start with tenuto embed DIRECTORY")
        _, _, vector, _ = asyncio.run(_embed_one(_read_text(values["similar"], "--similar"), values, info))
        if len(vector) != info.dimensions:
            raise click.UsageError(f"the file has {info.dimensions} dimensions: pass --dimensions {info.dimensions}")
        best = file.rank(vector, values["limit"])
    if values["as_json"]:
        print_json(jsonio.encode([{"score": round(score, 9), "id": id, "text": text} for score, id, text in best]))
    elif best:
        rows = [(f"{score:.3f}", one_line(id, 60), one_line(text, 70)) for score, id, text in best]
        print_text(format_table([("SCORE", "ID", "TEXT"), *rows]))
    return ExitCode.OK


async def _embed_one(text: str, values: dict[str, Any], info: Any) -> tuple[str, str, tuple[float, ...], Any]:
    """Return model, note, vector and reply for one text."""
    from tenuto.cli.embeddings import choose_model, create_client

    async with create_client() as client:
        model = await choose_model(client, info, values["model"], values["dimensions"])
        reply = await client.embed(model.name, [text], dimensions=model.dimensions or None)
        return model.name, model.note, reply.embeddings[0], reply


def _text(values: dict[str, Any]) -> int:
    from tenuto.core import jsonio

    name, note, vector, reply = asyncio.run(_embed_one(_read_text(values["text"], "--text"), values, None))
    _note(note, values)
    document = {
        "model": name,
        "dimensions": len(vector),
        "embedding": vector,
        "tokens": reply.usage.total_tokens,
        "losses": reply.losses,
    }
    print_json(jsonio.encode(document if values["as_json"] else vector))
    return ExitCode.OK


def _files(values: dict[str, Any]) -> int:
    from tenuto.cli.embeddings import Embedder, check_names, choose_model, create_client, read_items
    from tenuto.core import jsonio
    from tenuto.errors import TenutoError

    async def embed() -> tuple[EmbedSummary, TenutoError | None]:
        async with create_client() as client:
            model = await choose_model(client, file.info(), values["model"], values["dimensions"])
            _note(model.note, values)
            embedder = Embedder(client, file, model)
            try:
                await embedder.run(read_items(values["files"], exclude=file.path))
            except ExceptionGroup as group:  # of asyncio.TaskGroup
                if not isinstance(error := group.exceptions[0], TenutoError):
                    raise
                return embedder.summary, error
            return embedder.summary, None

    check_names(values["files"])
    with closing(_open_file(values)) as file:
        summary, error = run_interruptible(embed(), _CONTINUE)
        info = file.info()
    for failure in summary.errors:
        click.echo(one_line(f"failed: {failure.id} {failure.why}", 600), err=True)
    for loss in summary.losses:
        _note(one_line(f"lost: {loss}", 600), values)
    explanation = explain_error(error) if error is not None else None
    if explanation is not None:
        explanation = explanation._replace(hint=explanation.hint.replace("resume", _CONTINUE) or _CONTINUE)
    code = explanation.code if explanation else ExitCode.FAILED if summary.errors else ExitCode.OK
    if values["as_json"]:
        document = {
            "into": str(file.path),
            "model": info.model if info else None,
            "dimensions": info.dimensions if info else None,
            "embedded": summary.embedded,
            "unchanged": summary.unchanged,
            "skipped": dict(summary.skipped),
            "tokens": summary.tokens,
            "failed": [failure._asdict() for failure in summary.errors],
            "losses": list(summary.losses),
            "error": explanation.message if explanation else None,
            "exit_code": int(code),
        }
        print_json(jsonio.encode(document))
    tokens = f", {summary.tokens:,} tokens" if summary.tokens else ""
    parts = [
        f"{summary.embedded:,} embedded by {info.model} ({info.dimensions} dimensions{tokens})"
        if info and summary.embedded
        else "",
        f"{summary.unchanged:,} unchanged" if summary.unchanged else "",
        *(f"{count:,} {kind} skipped" for kind, count in sorted(summary.skipped.items())),
        f"{len(summary.errors):,} failed" if summary.errors else "",
    ]
    _note(f"{'; '.join(filter(None, parts)) or 'nothing embedded'}: {file.path}", values)
    if explanation is not None:
        print_error(explanation, error)
    return code
