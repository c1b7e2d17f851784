"""`tenuto doctor`: whether everything here is as it should be, and what to do where it is not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click

from tenuto.cli.options import color_option, store_option

if TYPE_CHECKING:
    from pathlib import Path

    from tenuto.cli.checking import Finding
    from tenuto.cli.screen import Style

__all__ = ["command"]

_EXAMPLES = """\b
Examples:
  tenuto doctor
  tenuto doctor --online         # and whether the providers answer, and take the keys
  tenuto doctor --json | jq '.findings[] | select(.state == "problem")'
"""


@click.command("doctor", epilog=_EXAMPLES)
@click.option("--online", is_flag=True, help="Ask each provider that has a key for its list of models.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@store_option
@color_option
@click.pass_context
def command(ctx: click.Context, online: bool, as_json: bool, store: str | None, color: str) -> int:
    """Look whether everything here is as it should be, a line for each thing: versions, configuration, keys (which are
    never printed), who can read your files, SQLite and its known faults, the store with every entry in it, the terminal.

    Each line begins with ok, note (good to know), warning (not as it should be) or problem (something does not work), and
    ends with what to do. Nothing is changed, and nothing is sent, unless --online says so.

    The exit code is 0 if there is no problem, 1 if there is one, and 7 if the store is damaged or cannot be read.
    """
    from tenuto.cli.exits import Exit

    profile = ctx.find_root().params.get("profile")
    told = _told(_findings(store, profile, online=online), as_json=as_json, color=color)
    problems = [finding for finding in told if finding.state == "problem"]
    code = Exit.DONE if not problems else Exit.FAILED
    if any(finding.damaged for finding in problems):
        code = Exit.SESSION
    if as_json:
        _document(told, int(code))
    return code


def _findings(place: str | None, profile: str | None, *, online: bool) -> Iterator[Finding]:
    from functools import partial

    from tenuto import settings
    from tenuto.cli import checking, checking_files, checking_store
    from tenuto.cli.checking import Finding, checked
    from tenuto.cli.reading import file_at

    yield from checked("tenuto", checking.environment_findings)
    yield from checked("configuration", partial(checking_files.config_findings, profile))
    yield from checked("keys", checking_files.key_findings)
    yield from checked("model", partial(checking_files.model_findings, profile))
    yield from checked("SQLite", checking_store.sqlite_findings)
    try:
        where = place or settings.store()
        file = file_at(where)
    except (click.UsageError, RuntimeError) as exc:
        todo = "set TENUTO_STORE to a file, or TENUTO_HOME to a folder"
        yield Finding("store", "problem", f"there is no place for it: {exc}", todo)
    else:
        yield from _store_findings(where, file)
    yield from checked("terminal", checking.terminal_findings)
    if online:
        from tenuto.cli.checking_online import online_findings

        yield from checked("online", online_findings)


def _store_findings(where: str, file: Path | None) -> Iterator[Finding]:
    from functools import partial

    from tenuto.cli import checking_files, checking_store
    from tenuto.cli.checking import checked

    yield from checked("permissions", partial(checking_files.permission_findings, file))
    if file is not None:
        yield from checked("place", partial(checking_files.place_findings, file))
        yield from checked("room", partial(checking_files.room_findings, file))
    yield from checked("store", partial(checking_store.store_findings, where, file), stored=True)


# --- as it is shown ---------------------------------------------------------------------------------------------------

_STYLES: dict[str, Style] = {"warning": "yellow", "problem": "red"}
_LINE = 600


def _told(findings: Iterable[Finding], *, as_json: bool, color: str) -> list[Finding]:
    """Say each as it is found, since some take long; return all."""
    from tenuto.cli.escaping import one_line
    from tenuto.cli.screen import looks, painted, write_text

    colored = looks(color).out_color
    told: list[Finding] = []
    for finding in findings:
        if finding.what in (before.what for before in told):  # what keeps one check from being made keeps others, too
            continue
        told.append(finding)
        if not as_json:
            todo = f"; {finding.todo}" if finding.todo else ""
            state = painted(finding.state, _STYLES.get(finding.state, ""), color=colored)
            gap = " " * (len("problem") - len(finding.state))
            line = one_line(f"{finding.about}: {finding.what}{todo}", _LINE)
            write_text(f"{state}{gap}  {line}\n", escape=False)
    return told


def _document(told: Iterable[Finding], code: int) -> None:
    from tenuto.cli.screen import write_document
    from tenuto.core import jsonio

    fields = ("about", "state", "what", "todo")
    found = [{field: getattr(finding, field) for field in fields} for finding in told]
    write_document(jsonio.encode({"exit_code": code, "findings": found}))
