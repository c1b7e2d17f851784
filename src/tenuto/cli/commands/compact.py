"""`tenuto compact`: summarize the older messages of a session."""

from __future__ import annotations

import click

from tenuto.agent.session import AsyncSession
from tenuto.cli.options import SESSION_HELP, RunOptions, flag, json_option, option, session_argument, store_option
from tenuto.cli.session.open import open_session
from tenuto.cli.store import run_async
from tenuto.cli.terminal.output import print_lines

_HELP = f"""Summarize the older messages of SESSION ({SESSION_HELP}).

Later requests have a summary instead of them. The session keeps the originals: tenuto show --full.
"""
_EXAMPLES = """\b
Examples:
  tenuto compact                        # the last session
  tenuto compact trip --focus "the hotel bookings"
  tenuto compact trip --plan            # what it would keep, without a request
  tenuto compact trip --undo            # send the whole conversation again
"""


@click.command("compact", help=_HELP, epilog=_EXAMPLES)
@session_argument(default="last")
@option("--focus", default="", metavar="TEXT", help="What the summary should emphasize.")
@flag("--plan", help="Show what would be compacted; send nothing.")
@flag("--undo", help="Send the whole conversation again.")
@json_option
@store_option
def command(session: str, focus: str, plan: bool, undo: bool, as_json: bool, store: str | None) -> None:
    async def work() -> None:
        async with open_session(RunOptions(session=session, store=store), None, asks=not (plan or undo)) as opened:
            before = opened.session.context_tokens
            if plan:
                text = (await opened.session.audit(compaction=True)).plan
            else:
                text = await (undo_compaction(opened.session) if undo else compact(opened.session, focus))
            tokens = {"tokens_before": before, "tokens_after": opened.session.context_tokens}
            print_lines([text], {"session": opened.session.id, **tokens, "text": text}, as_json=as_json)

    if plan and undo:
        raise click.UsageError("use either --plan or --undo")
    run_async(work())


async def compact(session: AsyncSession, focus: str) -> str:
    """Compact a session. Return what was done, as a sentence."""
    before = session.context_tokens
    if await session.compact(focus) is None:
        return "not compacted: there is nothing to summarize yet, or no usable summary was made"
    return f"compacted: {before:,} -> about {session.context_tokens:,} tokens; the originals are kept"


async def undo_compaction(session: AsyncSession) -> str:
    """Send the whole conversation again. Return what was done, as a sentence."""
    if not await session.uncompact():
        return "the session is not compacted"
    return f"the whole conversation is sent again: about {session.context_tokens:,} tokens"
