"""`tenuto compact`: summarize the older messages of a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tenuto.cli.options import json_option, session_argument, store_option
from tenuto.cli.store import find_session, open_existing_store
from tenuto.cli.terminal.output import print_json, print_text

if TYPE_CHECKING:
    from tenuto.agent.session import AsyncSession


_EXAMPLES = """\b
Examples:
  tenuto compact                        # the last session
  tenuto compact trip --focus "the hotel bookings"
  tenuto compact trip --plan            # what it would keep, without a request
  tenuto compact trip --undo            # send the whole conversation again
"""


@click.command("compact", epilog=_EXAMPLES)
@session_argument(default="last")
@click.option("--focus", default="", metavar="TEXT", help="What the summary should emphasize.")
@click.option("--plan", is_flag=True, help="Show what would be compacted; send nothing.")
@click.option("--undo", is_flag=True, help="Send the whole conversation again.")
@json_option
@store_option
def command(session: str, focus: str, plan: bool, undo: bool, as_json: bool, store: str | None) -> int:
    """Summarize the older messages of SESSION (ID or unique prefix, name, `last`, or `~N`).

    Later requests have a summary instead of them. The session keeps the originals: tenuto show --full.
    """
    import asyncio

    from tenuto.core import jsonio

    if plan and undo:
        raise click.UsageError("use either --plan or --undo")
    id, before, after, text = asyncio.run(_run(session, focus, plan=plan, undo=undo, place=store))
    if as_json:
        print_json(jsonio.encode({"session": id, "tokens_before": before, "tokens_after": after, "text": text}))
    else:
        print_text(f"{text}\n", escape=True)
    return 0


async def _run(named: str, focus: str, *, plan: bool, undo: bool, place: str | None) -> tuple[str, int, int, str]:
    """Return the session, the tokens of its next request before and after, and what was done."""
    from tenuto.agent.agent import AsyncAgent
    from tenuto.cli.config import configured_providers
    from tenuto.cli.keys_file import load_keys
    from tenuto.core.journal import Configured
    from tenuto.core.next_request import config_after

    async with open_existing_store(place, named) as store:
        id = await find_session(store, named)
        kept: Configured | None = None
        for entry in await store.read(id):
            kept = config_after(kept, entry.payload)
        if kept is None:
            raise click.UsageError(f"session {id} has no messages yet: nothing to compact")
        agent = AsyncAgent(
            kept.model,
            name=kept.agent,
            store=store,
            keys=load_keys(),
            providers=configured_providers(),
            on_loss="keep",
            allow_unverified=kept.allow_unverified,
        )
        async with agent:
            session = await agent.resume(id)
            before = session.context_tokens
            if plan:
                text = (await session.audit(compaction=True)).plan
            else:
                text = await (undo_compaction(session) if undo else compact(session, focus))
            return id, before, session.context_tokens, text


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
