"""`tenuto embed`: embed files and search them by meaning."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path
from typing import Any

import click

from tenuto import settings
from tenuto.cli.complete import complete_embedding_model, complete_path
from tenuto.cli.embeddings import Embedder, EmbedItem, choose_model, create_client, read_item, read_items
from tenuto.cli.errors import ExitCode, Explanation, explain_error
from tenuto.cli.options import WholeNumber, flag, json_option, option
from tenuto.cli.store import run_async
from tenuto.cli.terminal.output import print_error, print_json, print_table
from tenuto.cli.terminal.text import escape_control, one_line
from tenuto.core.embeddings import EmbedResponse
from tenuto.errors import TenutoError
from tenuto.store.vectors import EmbedModel, VectorFile

_EXAMPLES = """\b
Examples:
  tenuto embed docs README.md
  tenuto embed --similar "how do I resume?"
"""
_MODEL_HELP = "Embedding model.  [default: that of the file, or of a provider with a key]"
_CONTINUE = "run the same command again to continue"


@click.command("embed", epilog=_EXAMPLES)
@click.argument("files", nargs=-1, metavar="[FILE|-]...", shell_complete=complete_path("file"))
@option("--similar", metavar="TEXT", help="Rank stored texts by similarity to TEXT (- for stdin).")
@option("--text", metavar="TEXT", help="Print one vector without storing it.")
@option("--into", metavar="FILE", help="Vector database file.  [default: embeddings.db in the data directory]")
@option("-m", "--model", metavar="MODEL", shell_complete=complete_embedding_model, help=_MODEL_HELP)
@option("--dimensions", type=WholeNumber(min=1), metavar="N", help="Vector length, if the model allows a choice.")
@option("--limit", type=WholeNumber(min=1), default=10, show_default=True, metavar="N", help="Rows of --similar.")
@json_option
@flag("-q", "--quiet", help="Print only errors.")
def command(**values: Any) -> int:
    """Embed files and search them by meaning.

    Each FILE is one text; a directory stands for its text files that are not hidden. Unchanged texts are not embedded again.
    Failures are listed and skipped; exit 1. Binary and empty files of a directory are only counted. All vectors of a database
    are of one model. Without an API key the simulator embeds, for testing only.
    """
    modes = {"similar": _similar, "text": _text, "files": _files}
    used = [name for name in modes if values[name] not in (None, ())]
    if len(used) != 1:
        raise click.UsageError("pass one of: files (- for stdin), --text, --similar")
    if used == ["text"] and values["into"]:
        raise click.UsageError("--text stores nothing: omit --into")
    return modes[used[0]](values)


def _open_file(values: dict[str, Any]) -> VectorFile:
    path = Path(values["into"]).expanduser() if values["into"] else settings.home() / "embeddings.db"
    if values["into"] and (path.is_dir() or not path.parent.is_dir()):
        raise click.UsageError(f"--into {values['into']!r}: not a file in an existing directory")
    return VectorFile(path)


def _note(text: str, values: dict[str, Any]) -> None:
    if text and not (values["quiet"] or values["as_json"]):
        click.echo(escape_control(text), err=True)


async def _embed_one(
    option: str, values: dict[str, Any], stored: EmbedModel | None = None
) -> tuple[str, EmbedResponse]:
    """Embed the text of an option, or stdin for `-`. Return the model too."""
    item = read_item("-") if values[option] == "-" else EmbedItem("", values[option])
    if not item.text.strip():
        raise click.UsageError(f"stdin {item.error}" if item.error else f"--{option} is empty")
    async with create_client() as client:
        model, note = await choose_model(client, stored, values["model"], values["dimensions"])
        _note(note, values)
        return model.name, await client.embed(model.name, [item.text], dimensions=model.asked or None)


def _similar(values: dict[str, Any]) -> int:
    with closing(_open_file(values)) as file:
        model = file.model()
        if model is None:
            raise click.UsageError("no vectors yet: start with tenuto embed FILE")
        _, reply = asyncio.run(_embed_one("similar", values, model))
        vector = reply.embeddings[0]
        if len(vector) != model.dimensions:
            raise click.UsageError(f"the file has vectors of {model.describe()}, not of {len(vector)} dimensions")
        best = file.rank(vector, values["limit"])
    document = [{"score": round(score, 9), "id": id, "text": text} for score, id, text in best]
    rows = [(f"{score:.3f}", one_line(id, 60), one_line(text, 70)) for score, id, text in best]
    print_table(("SCORE", "ID", "TEXT"), rows, document, as_json=values["as_json"])
    return ExitCode.OK


def _text(values: dict[str, Any]) -> int:
    model, reply = asyncio.run(_embed_one("text", values))
    vector = reply.embeddings[0]
    fields = {"tokens": reply.usage.total_tokens, "losses": reply.losses}
    document = {"model": model, "dimensions": len(vector), "embedding": vector, **fields}
    print_json(document if values["as_json"] else vector)
    return ExitCode.OK


def _files(values: dict[str, Any]) -> int:
    async def embed() -> tuple[Embedder, TenutoError | None]:
        async with create_client() as client:
            model, note = await choose_model(client, file.model(), values["model"], values["dimensions"])
            _note(note, values)
            embedder = Embedder(client, file, model)
            try:
                await embedder.run(read_items(values["files"]))
            except TenutoError as error:
                return embedder, error
            return embedder, None

    for name in values["files"]:
        if name != "-" and not Path(name).exists():
            raise click.UsageError(f"not a file or directory: {name!r}; pass a text with --text, or pipe it in for -")
    with closing(_open_file(values)) as file:
        done, error = run_async(embed(), _CONTINUE)
        model = file.model()
    for failure in done.failed:
        click.echo(one_line(f"failed: {failure.id} {failure.error}", 600), err=True)
    for loss in done.losses:
        _note(one_line(f"lost: {loss}", 600), values)
    code, message = ExitCode.FAILED if done.failed else ExitCode.OK, None
    if error is not None:
        code, message, hint = explain_error(error)
        print_error(Explanation(code, message, hint.replace("resume", _CONTINUE) or _CONTINUE), error)
    if values["as_json"]:
        document = {
            "into": str(file.path),
            "model": model and model.name,
            "dimensions": model and model.dimensions,
            **{name: getattr(done, name) for name in ("embedded", "unchanged", "tokens")},
            "skipped": [item.id for item in done.skipped],
            "failed": [{"id": failure.id, "why": failure.error} for failure in done.failed],
            "losses": list(done.losses),
            "error": message,
            "exit_code": int(code),
        }
        print_json(document)
    by = f" by {model.describe()}" if model else ""
    counts = {
        f"embedded{by}": done.embedded,
        "unchanged": done.unchanged,
        "skipped": len(done.skipped),
        "failed": len(done.failed),
    }
    summary = "; ".join(f"{count:,} {name}" for name, count in counts.items() if count)
    _note(f"{summary or 'nothing embedded'}: {file.path}", values)
    return code
