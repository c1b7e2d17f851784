"""`tenuto audit`: check whether a provider would accept a session."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import click

from tenuto.audit import Report, audit
from tenuto.cli.errors import ExitCode, plural
from tenuto.cli.options import SESSION_HELP, expand_model, flag, json_option, option, session_argument, store_option
from tenuto.cli.session.models import check_handover_target, model_resolver
from tenuto.cli.store import use_session
from tenuto.cli.terminal.output import print_lines
from tenuto.cli.terminal.text import one_line
from tenuto.core.loss import Loss
from tenuto.store.protocol import Store
from tenuto.wire.loss_report import summarize_losses

_HELP = f"""Check whether a provider would accept SESSION ({SESSION_HELP}), without sending it.

Reports what happens to each block, and re-creates past requests byte for byte. Exit 0 if accepted, 8 if something would be
refused or cannot be reproduced.
"""
_EXAMPLES = """\b
Examples:
  tenuto audit                          # the last session and its own model
  tenuto audit 01m7q2 -m gpt            # what a handover would cost
"""


@click.command("audit", help=_HELP, epilog=_EXAMPLES)
@session_argument(default="last")
@option("-m", "--model", metavar="MODEL", help="Model to check against.  [default: the session's]")
@flag("-v", "--verbose", help="Print every block that is not kept, and its place.")
@json_option
@store_option
def command(session: str, model: str | None, verbose: bool, as_json: bool, store: str | None) -> int:
    async def check(opened: Store, id: str) -> tuple[str, Report]:
        return id, audit(await opened.read(id), target, find=find)

    find = model_resolver()
    target = None if model is None else check_handover_target(expand_model(model), find)
    id, report = use_session(store, session, check)
    lines = str(report).splitlines() if verbose else _summarize(report)
    print_lines(lines, {"session": id, **report.as_dict()}, as_json=as_json)
    return ExitCode.OK if report.clean else ExitCode.CHECK_FAILED


def _summarize(report: Report) -> Iterator[str]:
    counts = Counter(block.outcome for block in report.blocks)
    signed = sum(block.token for block in report.blocks)
    parts = [f"{plural(counts.pop('kept', 0), 'block')} kept{f' ({signed} signed)' if signed else ''}"]
    parts += [f"{count} {outcome}" for outcome, count in counts.items()]
    yield f"{'refused' if report.refused else 'accepted'} by {report.target}: {', '.join(parts)}"
    losses = [Loss(one.loss, one.location, one.reason, one.remedy) for one in report.blocks if one.loss]
    if losses:
        yield summarize_losses(losses)
    changed = sum(finding.severity == "changed" for finding in report.findings)
    if report.compared:
        result = f"{changed} of {report.compared} past requests not reproduced"
        yield result if changed else f"{plural(report.compared, 'past request')} reproduced byte for byte"
    for miss in report.cache_misses:
        yield one_line(f"entry {miss.seq}: {miss}", 400)
    for finding in report.findings:
        place = f"entry {finding.entry}" if finding.entry is not None else finding.pointer
        yield one_line(f"{finding.severity}: {finding.rule} at {place}; {finding.remedy or finding.says}", 400)
    if parts[1:] or report.findings:
        yield "details: tenuto audit --verbose"
