"""What can be typed in a chat beside what is said: commands, which begin with a slash.

A line is either words or a command, whatever stands in it. A command works on the `Talk` that it is typed into, and says
what it did on the screen; what it cannot do it raises as `Refused`, or as the error that it is.
"""

from __future__ import annotations

import difflib
import os
import shlex
import sys
from collections.abc import Awaitable, Callable, Iterable
from contextlib import redirect_stdout
from pathlib import Path
from typing import NamedTuple, Protocol

from tenuto.agent.agent import AsyncAgent
from tenuto.agent.session import AsyncSession
from tenuto.cli.ending import cost_of
from tenuto.cli.escaping import one_line
from tenuto.cli.line_editor import Typed
from tenuto.cli.options import Given
from tenuto.cli.reading import short
from tenuto.cli.render import usage_line
from tenuto.cli.screen import Screen, write_text
from tenuto.core import jsonio
from tenuto.core.blocks import Text
from tenuto.core.journal import MessageAdded
from tenuto.core.loss import Loss
from tenuto.core.messages import Content, UserMessage
from tenuto.tools.builtin import BUILTIN

__all__ = ["COMMANDS", "Command", "Refused", "Slash", "Talk", "Words", "completed", "obeyed", "parsed"]


class Words(NamedTuple):
    """Something to say."""

    text: str


class Slash(NamedTuple):
    """A command, by the word behind the slash, and what stands behind it."""

    name: str
    rest: str = ""


class Refused(Exception):
    """A command that cannot be obeyed; the message says why, and what can be done."""


class Talk(Protocol):
    """A chat, as far as commands change it."""

    screen: Screen
    given: Given
    agent: AsyncAgent
    session: AsyncSession
    attached: list[Content]
    """What goes along with the next message."""
    offered: str
    """What stands at the next prompt, to be changed."""
    again: bool
    """What is owed is to be done next."""
    over: bool

    def tell_lost(self, losses: Iterable[Loss], *, again: bool = False) -> None:
        """Tell what was lost; what was told before only if it is to be told again."""

    async def moved(self, session: AsyncSession) -> None:
        """Go on in another session; this one is let go of."""

    async def reopened(self, given: Given) -> None:
        """Open the session anew, with other settings; if that fails, it is open as before."""


class Command(NamedTuple):
    """A command: what it takes, what it does in a line, and how."""

    takes: str
    says: str
    do: Callable[[Talk, str], Awaitable[None]]


# --- reading a line ---------------------------------------------------------------------------------------------------


def parsed(typed: Typed) -> Words | Slash:
    """Return what a message is. A command is one line that begins with a slash; with two, it is said with one."""
    text = typed.text
    if typed.literal or not text.startswith("/") or "\n" in text:
        return Words(text)
    if text.startswith("//"):
        return Words(text[1:])
    name, *rest = text[1:].split(maxsplit=1) if text[1:2].strip() else ("", text[1:])
    return Slash(name.lower(), rest[0].strip() if rest else "")


async def obeyed(slash: Slash, talk: Talk) -> None:
    """Do what a command says. Raise `Refused` for one that is none, or that cannot be obeyed now."""
    command = COMMANDS.get(_ALSO.get(slash.name, slash.name))
    if command is None:
        near = difflib.get_close_matches(slash.name, COMMANDS, n=2)
        near = near or [name for name in COMMANDS if slash.name and name.startswith(slash.name)]
        meant = f"did you mean {' or '.join(f'/{name}' for name in near)}?" if near else "/help lists what there is"
        raise Refused(
            f"there is no command /{one_line(slash.name, 60)}: {meant} (what begins with // is said with one slash)"
        )
    await command.do(talk, slash.rest)


def completed(line: str, begin: int) -> list[str]:
    """Return what may stand in the place of the word that begins at `begin` and ends the line."""
    command, space, rest = line.partition(" ")
    if not space:
        return [f"/{name}{' ' if it.takes else ''}" for name, it in COMMANDS.items() if f"/{name}".startswith(line)]
    if command == "/tools":
        return [name for name in BUILTIN if name.startswith(line[begin:])]
    whole: Iterable[str] = ()
    if command == "/model":
        from tenuto.cli.catalogue import model_ids

        whole = (id for id in model_ids() if id.startswith(rest))
    elif command == "/attach":
        whole = _files(rest)
    return [found[begin - len(command) - 1 :] for found in whole]


def _files(typed: str) -> list[str]:
    """The files and folders whose names go on as was typed; hidden ones only if that was."""
    folder, _, name = typed.rpartition("/")
    above = f"{folder}/" if "/" in typed else ""
    try:
        found = sorted(os.scandir(Path(above or ".").expanduser()), key=lambda one: one.name)
    except OSError:
        return []
    fitting = [one for one in found if one.name.startswith(name) and (name or not one.name.startswith("."))]
    return [f"{above}{one.name}{'/' if one.is_dir() else ''}" for one in fitting]


# --- the session ------------------------------------------------------------------------------------------------------


async def _model(talk: Talk, rest: str) -> None:
    from tenuto.cli.choosing import split_effort, target_of

    if not rest:
        talk.screen.say(f"asks {_asked(talk.session)}")
        return
    model, effort = split_effort(rest)
    target_of(model, talk.session._context.client._target)  # what is nobody's is said before anything is closed
    losses: tuple[Loss, ...] = ()
    if talk.session.is_new:
        await talk.reopened({**talk.given, "model": model, "effort": effort or talk.given.get("effort")})
    else:
        losses = await talk.session.handover(model)
        if effort is not None and effort != _effort(talk.session):
            await _think(talk.session, effort)
    talk.screen.say(f"goes on with {_asked(talk.session)}")
    talk.tell_lost(losses, again=True)


def _asked(session: AsyncSession) -> str:
    effort = _effort(session)
    return f"{one_line(session.model, 80)}{f', effort {effort}' if effort else ''}"


def _effort(session: AsyncSession) -> str:
    found = jsonio.parse(session._effective_config().parameters or "{}").get("effort")
    return found if isinstance(found, str) else ""


async def _think(session: AsyncSession, effort: str) -> None:
    """Write down how much the model is to think from here on; whatever else it is asked with stays as it is written."""
    parameters = {**jsonio.members(session._effective_config().parameters or "{}"), "effort": effort}
    await session._configure(parameters=jsonio.encode(parameters).decode())


async def _fork(talk: Talk, rest: str) -> None:
    before = talk.session
    try:
        branch = await before.fork(_number(rest, "/fork") if rest else None)
    except ValueError as exc:
        raise Refused(str(exc)) from None
    await talk.moved(branch)
    talk.screen.say(f"branched off: goes on in {short(branch.id)}; {short(before.id)} stays as it is")
    _tell_change(talk, before)


async def _undo(talk: Talk, rest: str) -> None:
    """The fork is made behind the entry before what was said: of an exchange, nothing is left."""
    count = _number(rest, "/undo") if rest else 1
    before, entries = talk.session, await talk.session.entries()
    said = [at for at, entry in enumerate(entries) if at and isinstance(entry.payload, MessageAdded)]
    if count > len(said):
        much = f"only {len(said)} can be" if said else "nothing was said yet that could be"
        raise Refused(f"{much} taken back")
    at = said[-count]
    branch = await talk.agent._fork(before.id, entries[at - 1].seq)
    await talk.moved(branch)
    what = "exchange is" if count == 1 else f"{count} exchanges are"
    talk.screen.say(
        f"the last {what} taken back: goes on in {short(branch.id)}; {short(before.id)} has everything as it was"
    )
    _tell_change(talk, before)
    act = entries[at].payload
    if isinstance(act, MessageAdded) and isinstance(act.message, UserMessage):
        _offer(talk, act.message)


def _offer(talk: Talk, message: UserMessage) -> None:
    """Put a message back on the table: its words to be changed, and what went along."""
    first, *parts = message.parts or (Text(""),)
    if isinstance(first, Text):
        talk.offered = first.text
    else:
        parts.insert(0, first)
    talk.attached = [*parts, *talk.attached]
    if parts:
        talk.screen.say(f"{_counted(len(parts), 'attachment')} of it will go along again; /detach leaves out what does")


def _tell_change(talk: Talk, before: AsyncSession) -> None:
    """A branch that begins before a handover asks whom the session asked there."""
    if talk.session.model != before.model:
        talk.screen.say(f"it asks {one_line(talk.session.model, 80)}, as the session did there", "yellow")


async def _name(talk: Talk, rest: str) -> None:
    from tenuto.cli.opening import refuse_name

    if not rest:
        raise Refused("say how the session is to be called: /name TEXT")
    await refuse_name(rest, talk.agent.store, talk.session.id)
    if talk.session.is_new:
        talk.given = {**talk.given, "name": rest}
    else:
        try:
            await talk.agent.store.rename(talk.session.id, rest)
        except ValueError as exc:  # somebody was quicker
            raise Refused(str(exc)) from None
    talk.screen.say(f"the session is called {one_line(rest, 80)}")


async def _retry(talk: Talk, rest: str) -> None:
    del rest
    if not talk.session.has_pending_work:
        raise Refused("nothing is left to do")
    talk.again = True


async def _exit(talk: Talk, rest: str) -> None:
    del rest
    talk.over = True


# --- what goes along --------------------------------------------------------------------------------------------------


async def _tools(talk: Talk, rest: str) -> None:
    from tenuto.cli.belt import tools_of

    names = rest.replace(",", " ").split()
    if names:
        with redirect_stdout(sys.stderr):  # what is loaded may print
            tools_of(names, talk.given.get("root", "."))  # what is not there is said before anything is closed
        on = tuple(dict.fromkeys((*talk.given.get("tool", ()), *names)))
        try:
            await talk.reopened({**talk.given, "tool": on})
        except ValueError as exc:  # two of one name
            raise Refused(str(exc)) from None
    on = talk.session._context.toolbox.names()
    off = [name for name in BUILTIN if name not in on]
    lines = [f"on: {', '.join(one_line(name, 80) for name in on) or 'none'}"]
    lines += [f"there are: {', '.join(off)}" if off else "", "your own are MODULE:FUNCTION"]
    talk.screen.say("\n".join(filter(None, lines)))


async def _attach(talk: Talk, rest: str) -> None:
    from tenuto.cli.attaching import attached

    if rest in ("", "-"):
        raise Refused(f"name a file or an address: /attach FILE ({_counted(len(talk.attached), 'attachment')} so far)")
    parts = attached([_file_name(rest)])
    talk.attached += parts
    talk.screen.say(f"goes along with the next message: {one_line(rest, 120)}")


def _file_name(typed: str) -> str:
    """Read a name as terminals write one that is dropped on them: in quotes, or with backslashes before spaces."""
    if "://" in typed or Path(typed).expanduser().exists():
        return typed if "://" in typed else str(Path(typed).expanduser())
    try:
        words = shlex.split(typed)
    except ValueError:
        words = []
    return str(Path(words[0]).expanduser()) if len(words) == 1 else typed


async def _detach(talk: Talk, rest: str) -> None:
    del rest
    count, talk.attached = len(talk.attached), []
    talk.screen.say(f"{_counted(count, 'attachment')} left out")


# --- looking ----------------------------------------------------------------------------------------------------------


async def _usage(talk: Talk, rest: str) -> None:
    del rest
    session = talk.session
    line = usage_line(session.usage, cost_of(await session.entries()), None, session.model)
    talk.screen.say(f"session {short(session.id)}: {line}")


async def _show(talk: Talk, rest: str) -> None:
    from tenuto.cli.telling import told

    del rest
    session, how = talk.session, talk.screen.how
    if session.is_new:
        raise Refused("nothing was said yet")
    stored = await talk.agent.store.session(session.id)
    thinking = not talk.given.get("hide_thinking", False)
    for text in told(stored, await session.entries(), (), thinking=thinking, color=how.out_color):
        write_text(text, escape=False)  # what was said is spelt out there, which leaves the colors


async def _help(talk: Talk, rest: str) -> None:
    del rest
    rows = [(f"/{name} {it.takes}".rstrip(), it.says) for name, it in COMMANDS.items()]
    wide = max(len(typed) for typed, _ in rows)
    lines = [f"  {typed:<{wide}}  {says}" for typed, says in rows]
    talk.screen.say("\n".join([*lines, *_HINTS]))


_HINTS = (
    '  A line that ends in \\ goes on; """ on a line of its own begins a block, and ends it.',
    "  //text says text that begins with a slash. A line that begins with a space is not remembered.",
    "  Ctrl-C stops the answer, or clears the line; twice at an empty one, or Ctrl-D, leaves.",
)


# --- the table --------------------------------------------------------------------------------------------------------


def _number(text: str, command: str) -> int:
    if not text.isdecimal() or len(text) > 9 or int(text) < 1:
        raise Refused(f"{command} takes a number from 1 on, not {one_line(text, 40)!r}")
    return int(text)


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


COMMANDS: dict[str, Command] = {
    "help": Command("", "list the commands", _help),
    "model": Command("[NAME[:EFFORT]]", "say who is asked, or hand the session over to another model", _model),
    "fork": Command("[N]", "go on in a branch, with the first N messages or all of them", _fork),
    "undo": Command("[N]", "take the last exchange back, or the last N: go on in a branch without", _undo),
    "tools": Command("[NAME...]", "list the tools, or switch some on", _tools),
    "attach": Command("FILE|URL", "have a file go along with the next message", _attach),
    "detach": Command("", "leave out what was attached", _detach),
    "name": Command("TEXT", "say how the session is called", _name),
    "usage": Command("", "say what the session used, and what it cost", _usage),
    "show": Command("", "show the session so far", _show),
    "retry": Command("", "go on with what is left to do; so does an empty line", _retry),
    "exit": Command("", "leave; the session is kept", _exit),
}
_ALSO = {"quit": "exit", "?": "help"}
