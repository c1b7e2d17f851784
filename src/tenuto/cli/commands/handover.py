"""`tenuto handover`: switch a session to another model."""

from __future__ import annotations

import click

from tenuto.agent.handover import hand_over
from tenuto.cli.complete import complete_model
from tenuto.cli.options import SESSION_HELP, expand_model, json_option, session_argument, store_option, takeover_option
from tenuto.cli.session.models import check_handover_target, model_resolver
from tenuto.cli.store import use_session
from tenuto.cli.terminal.output import print_lines
from tenuto.core.journal import HandedOver
from tenuto.store.protocol import Store
from tenuto.wire.loss_report import summarize_losses

_HELP = f"""Switch SESSION ({SESSION_HELP}) to MODEL.

No request is sent. Provider-specific data is kept locally and restored if you switch back. Losses are printed; tenuto
audit SESSION -m MODEL lists them without switching.
"""
_EXAMPLES = """\b
Examples:
  tenuto handover last gpt && tenuto resume last "Check that"
  tenuto handover 01m7q2 opus   # and back: its signatures are restored
"""


@click.command("handover", help=_HELP, epilog=_EXAMPLES)
@session_argument()
@click.argument("model", shell_complete=complete_model)
@takeover_option
@json_option
@store_option
def command(session: str, model: str, takeover: bool, as_json: bool, store: str | None) -> None:
    async def switch(opened: Store, id: str) -> tuple[str, HandedOver | None]:
        return id, await hand_over(opened, id, target, takeover=takeover, find=find)

    find = model_resolver()
    target = check_handover_target(expand_model(model), find)
    id, payload = use_session(store, session, switch)
    lines = [f"session {id} already uses {model}"]
    if payload is not None:
        lines = [f"session {id} switched to {payload.model}", summarize_losses(payload.losses)]
    used, losses = (payload.model, payload.losses) if payload else (model, ())
    print_lines(filter(None, lines), {"session": id, "model": used, "losses": losses}, as_json=as_json)
