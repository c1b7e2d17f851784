"""`tenuto embed`: texts become vectors, and what is alike is found."""

from __future__ import annotations

from typing import Unpack

import click

from tenuto.cli.embed_options import Wanted, embed_options

__all__ = ["command"]

_EXAMPLES = """\b
Examples:
  tenuto embed docs/ README.md              files, into the table "default"
  tenuto embed --similar "how do I resume?" what is most like it
  tenuto embed notes.txt --lines --into notes.jsonl
  cat questions.txt | tenuto embed --lines - --into questions.db
  tenuto embed --text "hello" -m openai/text-embedding-3-small
  tenuto embed docs/ --chunk 4000 --prune   pieces; what is gone is removed
  tenuto embed --list
"""


@click.command("embed", epilog=_EXAMPLES)
@embed_options
def command(**wanted: Unpack[Wanted]) -> int:
    """Embed files, and keep the vectors; or find what is most like something.

    Each FILE is an item, called by its path from here; a FOLDER is every text in it that is not hidden; - is stdin. An
    item that is kept already and has not changed is not asked for again: whatever stops it, the same command goes on with
    the rest. What cannot be embedded is named, and the rest goes on; the exit code is 1 then.

    A collection has one model. Without -m that is the one it was made with, or that of a provider for which there is a
    key; without any key, the simulator's, which is good for trying things out.
    """
    kinds = {
        "--similar": wanted["similar"] is not None,
        "--list": wanted["listed"],
        "--rm": wanted["removed"] is not None,
    }
    kinds |= {"--text": wanted["text"] is not None, "files": bool(wanted["names"])}
    asked = [kind for kind, is_it in kinds.items() if is_it]
    if not asked:
        raise click.UsageError("nothing to embed: name files or folders, - for stdin, or a --text")
    if len(asked) > 1:
        raise click.UsageError(f"{' and '.join(asked)} do not go together: one at a time")
    from tenuto.cli import embed_looking, embed_run

    match asked[0]:
        case "--similar":
            return embed_looking.similar(wanted)
        case "--list":
            return embed_looking.listed(wanted)
        case "--rm":
            return embed_looking.removed(wanted)
        case "--text":
            return embed_run.one(wanted, wanted["text"] or "")
        case _:
            return embed_run.one(wanted, embed_run.stdin_text()) if _is_one_text(wanted) else embed_run.many(wanted)


def _is_one_text(wanted: Wanted) -> bool:
    """Tell whether it is one text from stdin, for which there is neither a place nor a name."""
    placed = wanted["into"] is not None or wanted["collection"] is not None
    return wanted["names"] == ("-",) and not (placed or wanted["lines"] or wanted["jsonl_in"] or wanted["chunk"])
