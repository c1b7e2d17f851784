"""Drive langgraph: `SqliteSaver.put` of a graph's state, which contains all messages."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import create_checkpoint, empty_checkpoint
from langgraph.checkpoint.sqlite import SqliteSaver

from bench.peers.driver import MESSAGE, Append, main


async def open_session(directory: Path, count: int) -> Append:
    """Open a session whose checkpoints contain the whole state."""
    saver = SqliteSaver(sqlite3.connect(directory / f"{count}.db", check_same_thread=False))
    saver.setup()
    messages = [HumanMessage(f"{at}{MESSAGE}", id=str(at)) for at in range(count)]
    config = {"configurable": {"thread_id": "bench", "checkpoint_ns": ""}}
    step = 0

    async def append() -> None:
        nonlocal config, step
        step += 1
        messages.append(HumanMessage(MESSAGE, id=str(len(messages))))
        checkpoint = create_checkpoint(empty_checkpoint(), None, step)
        checkpoint["channel_values"] = {"messages": list(messages)}
        checkpoint["channel_versions"] = {"messages": step}
        config = saver.put(config, checkpoint, {"source": "loop", "step": step}, {"messages": step})

    return append


if __name__ == "__main__":
    main({}, open_session)
