"""`tenuto handover`: switch a session to another model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tenuto.cli.complete import complete_model
from tenuto.cli.errors import plural
from tenuto.cli.options import json_option, session_argument, store_option, takeover_option
from tenuto.cli.store import find_session, open_existing_store
from tenuto.cli.terminal.output import print_json, print_text
from tenuto.cli.terminal.text import one_line

if TYPE_CHECKING:
    from tenuto.core.journal import HandedOver


_EXAMPLES = """\b
Examples:
  tenuto handover last openai/gpt-5.2 && tenuto resume last "Check that"
  tenuto handover 01m7q2 anthropic/claude-opus-4-6   # and back: its signatures are restored
"""


@click.command("handover", epilog=_EXAMPLES)
@session_argument()
@click.argument("model", shell_complete=complete_model)
@takeover_option
@json_option
@store_option
def command(session: str, model: str, takeover: bool, as_json: bool, store: str | None) -> int:
    """Switch SESSION (ID or unique prefix, name, `last`, or `~N`) to MODEL: provider/model.

    No request is sent. Provider-specific data is kept locally and restored if you switch back. Losses are printed; tenuto
    audit SESSION -m MODEL lists them without switching.
    """
    import asyncio

    from tenuto.core import jsonio

    id, act = asyncio.run(_switch_model(session, model, store, takeover=takeover))
    if as_json:
        losses = () if act is None else act.losses
        print_json(jsonio.encode({"session": id, "model": act.model if act else model, "losses": losses}))
    elif act is None:
        print_text(f"session {id} already uses {model}\n", escape=True)
    else:
        lines = [f"session {id} switched to {act.model}; {plural(len(act.losses), 'loss')}"]
        lines += [f"  {one_line(f'{loss.detail} ({loss.location}, {loss.kind})', 400)}" for loss in act.losses]
        print_text("\n".join(lines) + "\n", escape=True)
    return 0


async def _switch_model(named: str, model: str, place: str | None, *, takeover: bool) -> tuple[str, HandedOver | None]:
    from tenuto.agent.handover import hand_over
    from tenuto.cli.session.models import check_handover_target, model_resolver

    find = model_resolver()
    model = check_handover_target(model, find)
    async with open_existing_store(place, named) as store:
        id = await find_session(store, named)
        return id, await hand_over(store, id, model, takeover=takeover, find=find)
