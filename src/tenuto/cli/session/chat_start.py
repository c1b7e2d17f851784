"""Start a chat. On a terminal the prompt is drawn first: loading the agent and the store takes longer than prompt_toolkit."""

from __future__ import annotations

import asyncio
import dataclasses
import importlib
import secrets
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tenuto import settings
from tenuto.cli.options import RunOptions
from tenuto.cli.terminal.display import Display
from tenuto.cli.terminal.input import History, PlainReader
from tenuto.cli.terminal.output import detect_terminal

if TYPE_CHECKING:
    from tenuto.cli.session.chat import Reader


def run_chat(options: RunOptions) -> int:
    display = Display(detect_terminal(options.color, quiet=options.quiet))
    history = None if options.ephemeral else History(settings.home() / "history")
    if options.ephemeral:  # in memory, but under a name: the session can be opened again with other tools
        place = f"memory://chat-{secrets.token_hex(8)}"
        options = dataclasses.replace(options, ephemeral=False, store=place, explicit=options.explicit | {"store"})
    reader: Reader = PlainReader()
    if reader.is_interactive and display.terminal.is_out_terminal and settings.getenv("TERM") != "dumb":
        from tenuto.cli.terminal.prompt import PromptReader  # imports prompt_toolkit

        reader = PromptReader(_complete, history.read() if history else (), color=display.terminal.out_color)
    return asyncio.run(_run(options, reader, display, history))


async def _run(options: RunOptions, reader: Reader, display: Display, history: History | None) -> int:
    if not options.session:  # a continued session shows its last exchange first
        await reader.draw()
    chat = await asyncio.to_thread(importlib.import_module, "tenuto.cli.session.chat")
    return int(await chat.Chat(options, reader, display, history).execute())


def _complete(line: str) -> tuple[int, Iterable[str]]:
    from tenuto.cli.session.slash_commands import complete_input

    return complete_input(line)
