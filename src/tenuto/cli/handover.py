"""`tenuto handover`: a session goes on with another model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tenuto.cli.options import store_option

if TYPE_CHECKING:
    from tenuto.core.journal import HandedOver

__all__ = ["command"]

_EXAMPLES = """\b
Examples:
  tenuto handover last openai/gpt-5.2 && tenuto resume last "Check that"
  tenuto handover 01m7q2 anthropic/claude-opus-4-6   # and back: its tokens are in place
"""


@click.command("handover", epilog=_EXAMPLES)
@click.argument("session")
@click.argument("model")
@click.option("--take", is_flag=True, help="Take the session from a process that has it; that one stops.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@store_option
def command(session: str, model: str, take: bool, as_json: bool, store: str | None) -> int:
    """Have SESSION (an id, how one begins, a name, last, or ~N) go on with MODEL: provider/model.

    Nothing is asked. What only its issuer can read stays in the journal and is not sent to others; each such loss is
    printed, and all of it is in place again when the session goes back. tenuto audit SESSION -m MODEL says beforehand
    what it will be.
    """
    import asyncio

    from tenuto.cli.escaping import one_line
    from tenuto.cli.screen import write_document, write_text
    from tenuto.core import jsonio

    id, act = asyncio.run(_handed(session, model, store, take=take))
    if as_json:
        losses = () if act is None else act.losses
        write_document(jsonio.encode({"session": id, "model": act.model if act else model, "losses": losses}))
    elif act is None:
        write_text(f"session {id} asks {model} already\n", escape=True)
    else:
        count = len(act.losses)
        lines = [f"session {id} goes on with {act.model}; {count} {'loss' if count == 1 else 'losses'}"]
        lines += [f"  {one_line(f'{loss.detail} ({loss.location}, {loss.kind})', 400)}" for loss in act.losses]
        write_text("\n".join(lines) + "\n", escape=True)
    return 0


async def _handed(named: str, model: str, place: str | None, *, take: bool) -> tuple[str, HandedOver | None]:
    from tenuto.agent.handover import hand_over
    from tenuto.cli.choosing import finding, going_on
    from tenuto.cli.reading import existing, found

    find = finding()
    model = going_on(model, find)
    async with existing(place, named) as store:
        id = await found(store, named)
        return id, await hand_over(store, id, model, takeover=take, find=find)
