"""`tenuto embed`: texts become vectors, and what is alike is found."""

from __future__ import annotations

from typing import Unpack

import click

from tenuto.cli.embedding.options import Wanted, embed_options

__all__ = ["command"]

_EXAMPLES = """\b
Examples:
  tenuto embed docs/ README.md
  tenuto embed --similar "how do I resume?"
  tenuto embed notes.txt --lines --into notes.jsonl
  cat questions.txt | tenuto embed --lines - --into questions.db
  tenuto embed --text "hello" -m openai/text-embedding-3-small
  tenuto embed docs/ --chunk 4000 --prune   # pieces; what is gone is removed
"""


_COMMON = ("model", "dimensions", "json", "quiet")
_FITS = {
    "--similar": (*_COMMON, "similar", "into", "number"),
    "--text": (*_COMMON, "text"),
    "files": (*_COMMON, "names", "into", "lines", "chunk", "batch", "prune"),
}
"""What means something with what."""


@click.command("embed", epilog=_EXAMPLES)
@embed_options
@click.pass_context
def command(ctx: click.Context, /, **wanted: Unpack[Wanted]) -> int:
    """Embed files, and keep the vectors; or find what is most like something.

    Each FILE is an item, called by its path from here; a FOLDER is every text in it that is not hidden; - is stdin. An
    item that is kept already and has not changed is not asked for again: whatever stops it, the same command goes on with
    the rest. What cannot be embedded is named, and the rest goes on; the exit code is 1 then.

    All vectors of a place are of one model. Without -m that is the one they were made with, or that of a provider for
    which there is a key; without any key, the simulator's, which is good for trying things out.
    """
    kinds = {
        "--similar": wanted["similar"] is not None,
        "--text": wanted["text"] is not None,
        "files": bool(wanted["names"]),
    }
    asked = [kind for kind, is_it in kinds.items() if is_it]
    if not asked:
        raise click.UsageError("nothing to embed: name files or folders, - for stdin, or a --text")
    if len(asked) > 1:
        raise click.UsageError(f"{' and '.join(asked)} do not go together: one at a time")
    for option in ctx.command.params:
        typed = ctx.get_parameter_source(option.name or "") is click.core.ParameterSource.COMMANDLINE
        if typed and option.name not in _FITS[asked[0]]:
            raise click.UsageError(f"{option.opts[0]} and {asked[0]} do not go together: it would do nothing there")
    from tenuto.cli.embedding import run, similar

    match asked[0]:
        case "--similar":
            return similar.similar(wanted)
        case "--text":
            return run.one(wanted)
        case _:
            return run.many(wanted)
