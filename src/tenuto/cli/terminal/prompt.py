"""The prompt of a chat on a terminal, with prompt_toolkit. Only `chat` loads this module."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import ExitStack, asynccontextmanager

from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output.defaults import create_output
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.shortcuts import CompleteStyle, PromptSession
from prompt_toolkit.styles import Style

from tenuto.cli.terminal.display import Display
from tenuto.cli.terminal.input import CONTINUATION_PROMPT, PROMPT, NotUtf8, PromptInterrupted

Complete = Callable[[str], tuple[int, Iterable[str]]]
"""Given the line before the cursor: the start of the text to replace, and the texts that fit there."""
_BINDINGS = KeyBindings()
_BINDINGS.add("enter")(lambda event: event.current_buffer.validate_and_handle())
_BINDINGS.add("escape", "enter")(lambda event: event.current_buffer.insert_text("\n"))


@_BINDINGS.add("c-c")
def _interrupt(event: KeyPressEvent) -> None:
    event.app.exit(exception=PromptInterrupted(empty=not event.current_buffer.text))


class PromptReader:
    """Reads messages with editing, completion and history. Enter sends, Alt-Enter inserts a newline."""

    is_interactive = can_edit = True

    def __init__(self, complete: Complete, history: Sequence[str], *, color: bool) -> None:
        output = create_output()
        if isinstance(output, Vt100_Output):
            output.enable_cpr = False  # a late answer to a cursor query would be read as the answer to an approval
        weight = "bold" if color else ""
        self._session: PromptSession[str] = PromptSession(
            PROMPT,
            multiline=True,
            prompt_continuation=CONTINUATION_PROMPT,
            completer=_InputCompleter(complete),
            complete_while_typing=False,
            complete_style=CompleteStyle.READLINE_LIKE,
            reserve_space_for_menu=0,
            history=InMemoryHistory(history),
            key_bindings=_BINDINGS,
            enable_suspend=True,
            style=Style([("", weight), ("exiting", f"noinherit {weight}")]),
            output=output,
        )

        self._first: asyncio.Task[str] | None = None  # reads the first message, while the session is opened

    async def draw(self) -> None:
        """Draw the first prompt; `read` returns what is typed there."""
        drawn = asyncio.Event()
        self._session.app.after_render += lambda _: drawn.set()
        self._first = asyncio.create_task(self._prompt(""))
        await drawn.wait()

    @asynccontextmanager
    async def hold_output(self, display: Display) -> AsyncIterator[None]:
        """Print the output of the block above the prompt, if it is drawn. If the block fails, erase the prompt."""
        if self._first is None:
            yield
            return
        held = ExitStack()
        held.enter_context(display.defer_output())
        is_open = False
        try:
            yield
            is_open = True
        finally:
            if not is_open and not self._first.done():
                self._session.app.erase_when_done = True
                self._first.cancel()
                await asyncio.wait([self._first])
            await run_in_terminal(held.close)

    async def read(self, offered: str = "") -> str:
        first, self._first = self._first, None
        text = await (first or self._prompt(offered))
        try:
            text.encode()
        except UnicodeEncodeError:  # bytes that are not UTF-8 arrive as surrogates
            raise NotUtf8 from None
        return text

    async def _prompt(self, offered: str) -> str:
        return await self._session.prompt_async(default=offered, handle_sigint=False, set_exception_handler=False)


class _InputCompleter(Completer):
    def __init__(self, complete: Complete) -> None:
        self._complete = complete

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        line = document.text_before_cursor
        start, texts = self._complete(line)
        for text in texts:
            yield Completion(text, start_position=start - len(line))
