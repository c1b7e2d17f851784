"""`tenuto audit`: what a provider would refuse of a session, before it is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tenuto.cli.options import store_option

if TYPE_CHECKING:
    from tenuto.audit import Report

__all__ = ["command"]

_EXAMPLES = """\b
Examples:
  tenuto audit                          # the last session, for its own model
  tenuto audit 01m7q2 -m openai/gpt-5.2 # what a handover would cost
  tenuto audit --json | jq .findings
"""


@click.command("audit", epilog=_EXAMPLES)
@click.argument("session", default="last")
@click.option("-m", "--model", metavar="PROVIDER/MODEL", help="Whom it would be sent to.  [default: the session's]")
@click.option("--json", "as_json", is_flag=True, help="One JSON document: every block, every finding.")
@store_option
def command(session: str, model: str | None, as_json: bool, store: str | None) -> int:
    """Say what would become of SESSION if it were sent now: an id, how one begins, a name, last, or ~N.

    For each block: kept, translated, stripped of its token, dropped, or refused, with the rule and what to do. Questions
    that were sent are made again and compared, byte for byte. Nothing is sent and nothing is written.

    The exit code is 0 if it would be taken, and 8 if something would be refused, or cannot be made again as it was sent.
    """
    import asyncio

    from tenuto.cli.exits import Exit
    from tenuto.cli.screen import write_document, write_text
    from tenuto.core import jsonio

    id, report = asyncio.run(_audited(session, model, store))
    if as_json:
        write_document(jsonio.encode({"session": id, **report.as_dict()}))
    else:
        write_text(f"{report}\n")
    return Exit.DONE if report.clean else Exit.FINDINGS


async def _audited(named: str, model: str | None, place: str | None) -> tuple[str, Report]:
    from tenuto.audit import audit
    from tenuto.cli.choosing import finding, going_on
    from tenuto.cli.reading import existing, found

    find = finding()
    if model is not None:
        going_on(model, find)
    async with existing(place, named) as store:
        id = await found(store, named)
        return id, audit(await store.read(id), model, find=find)
