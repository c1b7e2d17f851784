"""langgraph: `SqliteSaver.put` of a graph's state, which has all messages."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import create_checkpoint, empty_checkpoint
from langgraph.checkpoint.sqlite import SqliteSaver

from bench.peers.driver import MESSAGE, Save, main


async def keep(folder: Path, count: int) -> Save:
    """A checkpoint is the whole state: so it is made."""
    saver = SqliteSaver(sqlite3.connect(folder / f"{count}.db", check_same_thread=False))
    saver.setup()
    messages = [HumanMessage(f"{at}{MESSAGE}", id=str(at)) for at in range(count)]
    config = {"configurable": {"thread_id": "bench", "checkpoint_ns": ""}}
    step = 0

    async def save() -> None:
        nonlocal config, step
        step += 1
        messages.append(HumanMessage(MESSAGE, id=str(len(messages))))
        checkpoint = create_checkpoint(empty_checkpoint(), None, step)
        checkpoint["channel_values"] = {"messages": list(messages)}
        checkpoint["channel_versions"] = {"messages": step}
        config = saver.put(config, checkpoint, {"source": "loop", "step": step}, {"messages": step})

    return save


if __name__ == "__main__":
    main({}, keep)
