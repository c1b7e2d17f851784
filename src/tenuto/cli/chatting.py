"""The chat itself: a line is read, it is said or obeyed, and the next one is read, until somebody leaves.

Lines are read in the main thread while nothing else goes on. Each turn runs on one loop, which is kept all along, and with
it the connections and the right to write the session.
"""

from __future__ import annotations

import asyncio
import errno
import secrets
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from functools import partial

import click

from tenuto import settings
from tenuto.cli.choosing import chosen
from tenuto.cli.desk import Desk, Leave, Left
from tenuto.cli.ending import Ending, tell_cut, tell_used
from tenuto.cli.escaping import one_line
from tenuto.cli.exits import Exit, explained
from tenuto.cli.line_editor import Cleared, History, Reader, Typed, Unreadable, message, reader_of
from tenuto.cli.options import Given
from tenuto.cli.reading import short, status_text
from tenuto.cli.render import View, answer_of, call_line
from tenuto.cli.screen import Screen, looks
from tenuto.cli.slashes import Refused, Slash, Words, completed, obeyed, parsed
from tenuto.core.messages import UserMessage, user
from tenuto.errors import RunCancelled, TenutoError
from tenuto.store.memory import forget_memory

__all__ = ["Chat", "converse"]

_BEAT = 0.1
_HUNG_UP = int(Exit.HUNG_UP) - 128
_LINE = 160
_LINES = 8
"""How much of an earlier answer is shown."""
_AGAIN = "an empty line, or /retry, goes on with it"


def converse(given: Given) -> int:
    """Talk until somebody leaves; return the exit code."""
    screen = Screen(looks(given.get("color", "auto"), quiet=given.get("quiet", False)))
    history = None if given.get("ephemeral") else History(settings.home() / "history")
    if not given.get("session"):
        choice = chosen(given.get("model"))
        given["model"] = choice.model
        if choice.note:
            screen.note(choice.note, "yellow")
    with _kept_nowhere(given) as settled:
        return Chat(settled, reader_of(completed, history), screen).whole()


@contextmanager
def _kept_nowhere(given: Given) -> Iterator[Given]:
    """Have what is not to be kept last for as long as the chat does: it may be closed and opened meanwhile."""
    if not given.get("ephemeral"):
        yield given
        return
    name = f"chat-{secrets.token_hex(8)}"
    try:
        typed = given.get("typed", frozenset()) | {"store"}
        yield {**given, "ephemeral": False, "store": f"memory://{name}", "typed": typed}
    finally:
        forget_memory(name)


class Chat:
    """One chat."""

    def __init__(self, given: Given, reader: Reader, screen: Screen) -> None:
        self._given = given
        self._reader = reader
        self._screen = screen
        self._leave = Leave()
        self._desk = Desk(given, screen, self._leave, live=reader.live)
        self._turns = _Turns(self._desk, live=reader.live)
        self._pressed = False
        self._forgets = False
        self._code = 0

    def whole(self) -> int:
        """Do all of it, and return the exit code."""
        desk = self._desk
        with self._leave, desk.runner:
            try:
                desk.do(desk.open(self._given))
                if desk.stopped:
                    return 128 + desk.stopped
                self._begin()
                self._talk()
            finally:
                desk.do(desk.close())
            self._hint()
        if self._leave.number:
            return 128 + self._leave.number
        return 0 if self._reader.live else self._code

    # --- the way through ---

    def _begin(self) -> None:
        """Say who is there and what was last said, and do what an earlier run left undone."""
        session, screen = self._desk.session, self._screen
        if not session.is_new:
            self._recall()
        if self._reader.live:
            screen.note(f"{one_line(session.model, 80)}: /help lists commands, Ctrl-D leaves", "dim")
        if not session.has_pending_work:
            return
        if session.status == "cancelled" or session.waiting_for == "limit":  # do not continue without the user
            status = status_text(session.status, session.waiting_for)
            screen.note(f"the last turn has not ended ({status}): {_AGAIN}", "yellow")
        else:
            screen.note("the last turn has not ended: going on with it", "yellow")
            self._turn(None)

    def _recall(self) -> None:
        """Show the last exchange, briefly."""
        session, screen = self._desk.session, self._screen
        said, count = self._desk.said_last(), len(session.transcript.messages)
        screen.note(f"session {short(session.id)}, {count} message{'' if count == 1 else 's'}", "dim")
        if said is not None:
            screen.note(f"you> {one_line(str(said), _LINE)}", "dim")
        if session.status == "completed":
            lines = answer_of(session.last).strip().splitlines()
            more = f"({len(lines) - _LINES} more lines: /show has them)" if len(lines) > _LINES else ""
            screen.note("\n".join(filter(None, [*lines[:_LINES], more])), "dim")

    def _talk(self) -> None:
        desk = self._desk
        while not desk.over and not self._leave.number:
            offered, desk.offered = desk.offered, ""
            if offered and not self._reader.offers:
                self._screen.note(f"unsaid: {one_line(offered, _LINE)}", "dim")
            try:
                self._take(self._leave.read(partial(message, self._reader, offered)))
            except EOFError:
                return
            except Left:
                self._screen.say("")  # the prompt stands there
            except KeyboardInterrupt:  # while nothing goes on; where nobody sits, nobody can be asked again
                self._leave.number = self._leave.number or (0 if self._reader.live else signal.SIGINT)
            except Cleared as cleared:
                self._clear(empty=cleared.empty)
            except Unreadable:
                self._refuse("that is no text in UTF-8, and was not said")

    def _clear(self, *, empty: bool) -> None:
        """Ctrl-C at the prompt: the line is given up; the second time, if nothing stands there, the chat is."""
        if empty and self._pressed:
            self._leave.number = signal.SIGINT
            return
        self._pressed = True
        if empty:
            self._screen.note("Ctrl-C once more, or Ctrl-D, leaves", "dim")

    def _take(self, typed: Typed) -> None:
        """Say or obey what was typed."""
        desk, what = self._desk, parsed(typed)
        self._pressed = False
        self._remember(typed.text)
        if isinstance(what, Slash):
            self._obey(what)
        elif what.text.strip():
            self._say(what)
        elif self._reader.live and desk.session.has_pending_work:
            desk.again = True
        if desk.again and not self._leave.number:
            desk.again = False
            self._turn(None)

    def _remember(self, text: str) -> None:
        try:
            self._reader.keep(text)
        except OSError as exc:
            if not self._forgets:
                self._screen.note(f"what is typed cannot be remembered: {exc.strerror or exc}", "yellow")
            self._forgets = True

    def _say(self, words: Words) -> None:
        """Say something, with what goes along. What could not be written is there to be said again."""
        desk = self._desk
        parts, desk.attached = desk.attached, []
        said = user(words.text, *parts)
        self._turn(said)
        if desk.said_last() != said:
            desk.offered, desk.attached = words.text, parts

    def _turn(self, said: UserMessage | None) -> None:
        self._code = self._turns.run(said) or self._code

    def _obey(self, slash: Slash) -> None:
        try:
            self._desk.do(obeyed(slash, self._desk))
        except Refused as exc:
            self._refuse(str(exc))
        except click.ClickException as exc:
            self._refuse(exc.format_message())
        except (TenutoError, OSError) as exc:
            told = explained(exc)
            self._screen.complain(told, exc)
            self._code = int(told.code)

    def _refuse(self, why: str) -> None:
        self._screen.say(f"! {why}", "red")
        self._code = int(Exit.USAGE)

    def _hint(self) -> None:
        """Say how to come back."""
        ending = Ending(self._desk.session, self._desk.given)
        if ending.kept and (self._code or not ending.given.get("quiet")):
            self._screen.say(f"resume with: tenuto chat {ending.command.removeprefix('tenuto resume ')}", "dim")


class _Turns:
    """The turns of a chat: each is run and shown, and whatever ends one, the chat goes on."""

    def __init__(self, desk: Desk, *, live: bool) -> None:
        self._desk = desk
        self._screen = desk.screen
        self._live = live

    def run(self, said: UserMessage | None) -> int:
        """Say something, or go on without; tell how it ended, and return the exit code that it would have."""
        desk, since = self._desk, time.monotonic()
        ending = Ending(desk.session, desk.given)
        with redirect_stdout(sys.stderr):  # what a tool of the user's prints is not the answer
            ending.error = desk.do(self._heard(said))
        ending.signal, ending.seconds = desk.stopped, time.monotonic() - since
        self._tell(ending)
        return ending.code

    async def _heard(self, said: UserMessage | None) -> TenutoError | None:
        """Run the session, and show what happens; return what ended it, unless it ended by itself."""
        desk, screen = self._desk, self._screen
        view = View(screen, desk.session.model, thinking=not desk.given.get("hide_thinking", False))
        beat = asyncio.create_task(self._beat())
        try:
            async with desk.session.stream(said) as run:
                async for event in run:
                    await desk.name()
                    view.hear(event)
        except TenutoError as exc:
            return exc
        except asyncio.CancelledError:
            if not desk.stopped:
                raise
            return RunCancelled("the run was cancelled before it began")
        except OSError as exc:
            if exc.errno != errno.EIO:
                raise
            desk.leave.number = desk.stopped = _HUNG_UP  # the terminal is gone, and whoever sat there
            return None
        finally:
            beat.cancel()
            screen.status("")
            with suppress(OSError):  # the terminal is gone
                screen.end_line()
        return None

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(_BEAT)
            self._screen.tick()

    def _tell(self, ending: Ending) -> None:
        screen, session = self._screen, self._desk.session
        screen.finish(ending.answer)
        if ending.error is None and session.reply is not None:
            self._desk.tell_lost(session.reply.losses)
        tell_cut(ending, screen)
        if ending.told is not None:
            screen.complain(ending.told, ending.error)
        elif ending.signal:
            screen.say("stopped; what was said and done is kept", "yellow")
        for pending in session.pending:
            screen.say(f"waits for approval: {call_line(pending.call)}", "yellow")
        tell_used(ending, screen)
        if session.has_pending_work and self._live and not self._desk.leave.number:
            screen.note(f"the turn has not ended: {_AGAIN}", "dim")
