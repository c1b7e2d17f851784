"""`tenuto audit`: check whether a provider would accept a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tenuto.cli.complete import complete_model
from tenuto.cli.errors import ExitCode
from tenuto.cli.options import json_option, session_argument, store_option
from tenuto.cli.store import find_session, open_existing_store
from tenuto.cli.terminal.output import print_json, print_text

if TYPE_CHECKING:
    from tenuto.audit import Report


_EXAMPLES = """\b
Examples:
  tenuto audit                          # the last session and its own model
  tenuto audit 01m7q2 -m openai/gpt-5.2 # what a handover would cost
  tenuto audit --json | jq .findings
"""


@click.command("audit", epilog=_EXAMPLES)
@session_argument(default="last")
@click.option(
    "-m",
    "--model",
    metavar="MODEL",
    shell_complete=complete_model,
    help="Model to check against.  [default: the session's]",
)
@json_option
@store_option
def command(session: str, model: str | None, as_json: bool, store: str | None) -> int:
    """Check whether a provider would accept SESSION (ID or unique prefix, name, `last`, or `~N`), without sending it.

    Reports what happens to each block, and re-creates past requests byte for byte. Exit 0 if accepted, 8 if something
    would be refused or cannot be reproduced.
    """
    import asyncio

    from tenuto.core import jsonio

    id, report = asyncio.run(_audit(session, model, store))
    if as_json:
        print_json(jsonio.encode({"session": id, **report.as_dict()}))
    else:
        print_text(f"{report}\n")
    return ExitCode.OK if report.clean else ExitCode.CHECK_FAILED


async def _audit(named: str, model: str | None, place: str | None) -> tuple[str, Report]:
    from tenuto.audit import audit
    from tenuto.cli.session.models import check_handover_target, model_resolver

    find = model_resolver()
    if model is not None:
        check_handover_target(model, find)
    async with open_existing_store(place, named) as store:
        id = await find_session(store, named)
        return id, audit(await store.read(id), model, find=find)
