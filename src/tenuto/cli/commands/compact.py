"""`tenuto compact`: summarize the older messages of a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tenuto.cli.options import SESSION_HELP, flag, json_option, option, session_argument, store_option
from tenuto.cli.store import use_session
from tenuto.cli.terminal.output import print_json, print_text

if TYPE_CHECKING:
    from tenuto.agent.session import AsyncSession
    from tenuto.store.protocol import Store

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
def command(session: str, focus: str, plan: bool, undo: bool, as_json: bool, store: str | None) -> int:
    from tenuto.core import jsonio

    async def work(opened: Store, id: str) -> tuple[str, int, int, str]:
        return id, *await _run(opened, id, focus, plan=plan, undo=undo)

    if plan and undo:
        raise click.UsageError("use either --plan or --undo")
    id, before, after, text = use_session(store, session, work)
    if as_json:
        print_json(jsonio.encode({"session": id, "tokens_before": before, "tokens_after": after, "text": text}))
    else:
        print_text(f"{text}\n", escape=True)
    return 0


async def _run(store: Store, id: str, focus: str, *, plan: bool, undo: bool) -> tuple[int, int, str]:
    """Return the tokens of the session's next request before and after, and what was done."""
    from tenuto.agent.agent import AsyncAgent
    from tenuto.cli.config import configured_providers
    from tenuto.cli.keys_file import load_keys
    from tenuto.cli.session.open import stored_config

    config = stored_config(await store.read(id))
    if config is None:
        raise click.UsageError(f"session {id} has no messages yet: nothing to compact")
    agent = AsyncAgent(
        config.model,
        name=config.agent,
        store=store,
        keys=load_keys(),
        providers=configured_providers(),
        on_loss="keep",
        allow_unverified=config.allow_unverified,
    )
    async with agent:
        session = await agent.resume(id)
        before = session.context_tokens
        if plan:
            text = (await session.audit(compaction=True)).plan
        else:
            text = await (undo_compaction(session) if undo else compact(session, focus))
        return before, session.context_tokens, text


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
