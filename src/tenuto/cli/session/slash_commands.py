"""Commands in a chat: lines that start with a slash."""

from __future__ import annotations

import dataclasses
import os
import shlex
import sys
from collections.abc import Awaitable, Callable, Iterable
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from tenuto.agent.session import AsyncSession
from tenuto.cli.errors import plural
from tenuto.cli.options import expand_model
from tenuto.cli.session.events import format_usage
from tenuto.cli.store import short_id
from tenuto.cli.terminal.output import print_text
from tenuto.cli.terminal.text import one_line, similar_names
from tenuto.core import jsonio
from tenuto.core.blocks import Text
from tenuto.core.loss import Loss
from tenuto.core.messages import UserMessage
from tenuto.tools.builtin import BUILTIN

if TYPE_CHECKING:
    from tenuto.cli.session.chat import Chat


class SlashInput(NamedTuple):
    name: str
    rest: str = ""


class SlashCommand(NamedTuple):
    arguments: str
    help: str
    run: Callable[[Chat, str], Awaitable[None]]


def parse_input(text: str) -> str | SlashInput:
    """Return a text or a command. A command is one line that starts with `/`; `//` starts a text with `/`."""
    if not text.startswith("/") or "\n" in text:
        return text
    if text.startswith("//"):
        return text[1:]
    name, *rest = text[1:].split(maxsplit=1) if text[1:2].strip() else ("", text[1:])
    return SlashInput(name.lower(), rest[0].strip() if rest else "")


async def run_slash_command(slash: SlashInput, chat: Chat) -> None:
    """Run a command. Raise `click.UsageError` if it is unknown or fails."""
    command = SLASH_COMMANDS.get(_ALIASES.get(slash.name, slash.name))
    if command is None:
        near = similar_names(slash.name, SLASH_COMMANDS)
        near = near or [name for name in SLASH_COMMANDS if slash.name and name.startswith(slash.name)]
        meant = f"did you mean {' or '.join(f'/{name}' for name in near)}?" if near else "use /help"
        typed = one_line(slash.name, 60)
        raise click.UsageError(f"unknown command /{typed}: {meant} (start with // to send a literal /)")
    try:
        await command.run(chat, slash.rest)
    except ValueError as exc:  # such as a name that another process took, or two tools of one name
        raise click.UsageError(str(exc)) from None


def complete_input(line: str) -> tuple[int, Iterable[str]]:
    """Return where the word to complete starts in a line, and the texts that fit there."""
    command, space, rest = line.partition(" ")
    if not space:
        names = (f"/{name}{' ' if it.arguments else ''}" for name, it in SLASH_COMMANDS.items())
        return 0, [name for name in names if line and name.startswith(line)]
    start = len(command) + 1
    if command == "/tools":
        start = line.rfind(" ") + 1
        return start, [name for name in BUILTIN if name.startswith(line[start:])]
    if command == "/model":
        from tenuto.cli.session.models import model_ids

        return start, [id for id in model_ids() if id.startswith(rest)]
    return start, _list_files(rest) if command == "/attach" else ()


def _list_files(typed: str) -> list[str]:
    """Return the files and directories that start with `typed`; hidden ones only if it starts with a dot."""
    folder, _, name = typed.rpartition("/")
    above = f"{folder}/" if "/" in typed else ""
    try:
        found = sorted(os.scandir(Path(above or ".").expanduser()), key=lambda one: one.name)
    except OSError:
        return []
    fitting = [one for one in found if one.name.startswith(name) and (name or not one.name.startswith("."))]
    return [f"{above}{one.name}{'/' if one.is_dir() else ''}" for one in fitting]


async def _switch_model(chat: Chat, rest: str) -> None:
    from tenuto.cli.session.models import model_resolver, resolve_model, split_effort

    session = chat.session
    if not rest:
        chat.display.message(f"model: {_model_label(session)}")
        return
    model, effort = split_effort(expand_model(rest))
    resolve_model(model, model_resolver())  # reject an unknown model before the session is closed
    losses: tuple[Loss, ...] = ()
    if session.is_new:
        await chat.reopen(dataclasses.replace(chat.options, model=model, effort=effort or chat.options.effort))
    else:
        losses = await session.handover(model)
        if effort is not None:
            await session.set_effort(effort)
    chat.display.message(f"switched to {_model_label(chat.session)}")
    chat.report_losses(losses)


def _model_label(session: AsyncSession) -> str:
    effort = jsonio.parse(session.configuration.parameters or "{}").get("effort")
    return f"{one_line(session.model, 80)}{f', effort {effort}' if effort else ''}"


async def _fork(chat: Chat, rest: str) -> None:
    before = chat.session
    branch = await before.fork(_parse_number(rest, "/fork") if rest else None)
    await chat.switch_to(branch)
    chat.display.message(f"forked (now in {short_id(branch.id)}; {short_id(before.id)} unchanged)")
    if branch.model != before.model:  # the fork starts before a handover
        chat.display.message(f"model is {one_line(branch.model, 80)} again", "yellow")


async def _undo(chat: Chat, rest: str) -> None:
    count = _parse_number(rest, "/undo") if rest else 1
    before = chat.session
    branch, undone = await before.undo(count)
    await chat.switch_to(branch)
    chat.display.message(
        f"{plural(count, 'exchange')} undone (now in {short_id(branch.id)}; original kept as {short_id(before.id)})"
    )
    if branch.model != before.model:  # the message was sent before a switch, which stays
        chat.report_losses(await branch.handover(before.model))
    first, *parts = (undone.parts if isinstance(undone, UserMessage) else ()) or (Text(""),)
    if isinstance(first, Text):
        chat.offered = first.text
    else:
        parts.insert(0, first)
    chat.attached = [*parts, *chat.attached]
    if parts:
        them = "it" if len(parts) == 1 else "them"
        chat.display.message(f"{plural(len(parts), 'attachment')} restored; /detach removes {them}")


async def _name_session(chat: Chat, rest: str) -> None:
    from tenuto.cli.session.open import check_name_is_free

    if not rest:
        raise click.UsageError("no name: use /name TEXT")
    await check_name_is_free(rest, chat.agent.store, chat.session.id)
    if chat.session.is_new:
        chat.options = dataclasses.replace(chat.options, name=rest)
    else:
        await chat.agent.rename(chat.session, rest)
    chat.display.message(f"renamed to {one_line(rest, 80)}")


async def _retry(chat: Chat, _: str) -> None:
    if not chat.session.has_pending_work:
        raise click.UsageError("nothing to do")
    chat.retries = True


async def _exit(chat: Chat, _: str) -> None:
    chat.is_over = True


async def _add_tools(chat: Chat, rest: str) -> None:
    from tenuto.cli.session.tools import load_tools

    names = rest.replace(",", " ").split()
    if names:
        with redirect_stdout(sys.stderr):  # what is loaded may print
            load_tools(names, chat.options.root)  # fail before the session is closed
        on = tuple(dict.fromkeys((*chat.options.tool, *names)))
        await chat.reopen(dataclasses.replace(chat.options, tool=on))
    on = chat.session.tools
    off = ", ".join(name for name in BUILTIN if name not in on)
    chat.display.message(f"enabled: {', '.join(one_line(name, 80) for name in on) or 'none'}")
    if off:
        chat.display.message(f"available: {off}")
    chat.display.message("add your own as MODULE:FUNCTION")


async def _attach(chat: Chat, rest: str) -> None:
    from tenuto.cli.session.attachments import load_attachments

    if rest in ("", "-"):
        raise click.UsageError(f"no file: use /attach FILE or URL ({plural(len(chat.attached), 'attachment')} so far)")
    chat.attached += load_attachments([_file_name(rest)])
    chat.display.message(f"attached {one_line(rest, 120)}")


def _file_name(typed: str) -> str:
    """Return the name of a file that was dropped on the terminal: it may have quotes or backslashes."""
    if "://" in typed:
        return typed
    if not Path(typed).expanduser().exists():
        with suppress(ValueError):
            [typed] = shlex.split(typed)
    return str(Path(typed).expanduser())


async def _detach(chat: Chat, _: str) -> None:
    count, chat.attached = len(chat.attached), []
    chat.display.message(f"{plural(count, 'attachment')} removed")


async def _compact(chat: Chat, rest: str) -> None:
    from tenuto.cli.commands.compact import compact, undo_compaction

    if chat.session.is_new:
        raise click.UsageError("no messages yet")
    chat.display.message(await (undo_compaction(chat.session) if rest == "undo" else compact(chat.session, rest)))


async def _show_usage(chat: Chat, _: str) -> None:
    session = chat.session
    usage = format_usage(session.usage, session.cost, None, session.model)
    chat.display.message(f"session {short_id(session.id)}: {usage}")


async def _show_session(chat: Chat, _: str) -> None:
    from tenuto.cli.transcript.text import format_session

    session, color = chat.session, chat.display.terminal.out_color
    if session.is_new:
        raise click.UsageError("no messages yet")
    stored, entries = await chat.agent.store.session(session.id), await session.entries()
    for text in format_session(stored, entries, (), thinking=not chat.options.hide_thinking, color=color):
        print_text(text, escape=False)  # it is escaped already, and has colors


async def _show_help(chat: Chat, _: str) -> None:
    rows = [(f"/{name} {it.arguments}".rstrip(), it.help) for name, it in SLASH_COMMANDS.items()]
    wide = max(len(typed) for typed, _ in rows)
    chat.display.message("\n".join([*(f"  {typed:<{wide}}  {says}" for typed, says in rows), _HINTS]))


_HINTS = """\
  Alt-Enter inserts a newline; a pasted text is one message. Tab completes.
  Start with // to send a literal /. A leading space keeps a line out of history.
  Ctrl-C stops the answer or clears the line. Ctrl-C twice or Ctrl-D quits."""


def _parse_number(text: str, command: str) -> int:
    if not text.isdecimal() or len(text) > 9 or int(text) < 1:
        raise click.UsageError(f"{command} takes a number, 1 or more, not {one_line(text, 40)!r}")
    return int(text)


SLASH_COMMANDS: dict[str, SlashCommand] = {
    "help": SlashCommand("", "list the commands", _show_help),
    "model": SlashCommand("[NAME[:EFFORT]]", "show or switch the model", _switch_model),
    "fork": SlashCommand("[N]", "fork here or after N messages", _fork),
    "undo": SlashCommand("[N]", "undo the last (or last N) exchanges", _undo),
    "compact": SlashCommand("[FOCUS|undo]", "summarize older messages, or send them again", _compact),
    "tools": SlashCommand("[NAME...]", "list or enable tools", _add_tools),
    "attach": SlashCommand("FILE|URL", "attach a file to the next message", _attach),
    "detach": SlashCommand("", "remove attachments", _detach),
    "name": SlashCommand("TEXT", "name the session", _name_session),
    "usage": SlashCommand("", "show usage and cost", _show_usage),
    "show": SlashCommand("", "show the session so far", _show_session),
    "retry": SlashCommand("", "continue pending work (or press Enter)", _retry),
    "exit": SlashCommand("", "quit; the session is saved", _exit),
}
_ALIASES = {"quit": "exit", "q": "exit", "bye": "exit", "?": "help"}
LEAVE_WORDS = ("exit", "quit")  # messages that leave the chat
