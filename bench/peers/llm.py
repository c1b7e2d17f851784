"""llm: `prompt` of its asynchronous models, OpenAI's (its own) and Anthropic's (the plugin llm-anthropic)."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import llm
import sqlite_utils

from bench.peers.driver import MESSAGE, QUESTION, SAVES, TURNS, Save, main


def chat(address: str) -> Model:
    from llm.default_plugins.openai_models import AsyncChat

    return Model(AsyncChat("gpt-4o", key="none", api_base=f"{address}/v1"))


def messages(address: str) -> Model:
    from llm_anthropic import AsyncClaudeMessages

    return Model(AsyncClaudeMessages("anthropic/claude-sonnet-4-5", base_url=address))


class Model:
    def __init__(self, model) -> None:
        self.model = model

    async def read(self) -> int:
        count = 0
        async for _ in self.model.prompt(QUESTION, key="none"):
            count += 1
        return count

    async def said(self) -> tuple[str, str]:
        response = self.model.prompt(QUESTION, key="none")
        text = [piece async for piece in response]
        calls = await response.tool_calls()
        return "".join(text), "".join(json.dumps(call.arguments, separators=(",", ":")) for call in calls)

    async def once(self) -> str:
        return await self.model.prompt(QUESTION, key="none", stream=False).text()


class Echo(llm.Model):
    """A model that is not there: it says the same, at once."""

    model_id = "echo"

    def execute(self, *_: object, **__: object) -> Iterator[str]:
        yield MESSAGE


async def keep(folder: Path, count: int) -> Save:
    """`log_to_db`: a turn, which is a question and its answer, into the log."""
    from llm.migrations import migrate

    db = sqlite_utils.Database(folder / f"{count}.db")
    migrate(db)
    conversation = Echo().conversation()
    past = [(llm.assistant if at % 2 else llm.user)(f"{at}{MESSAGE}") for at in range(count - 1)]
    first = conversation.prompt(messages=[*past, llm.user(QUESTION)])
    first.text()
    first.log_to_db(db)
    waiting = deque()  # answered before the clock runs: only the log is measured
    for _ in range(SAVES * (TURNS + 1) + 1):
        waiting.append(conversation.prompt(MESSAGE))
        waiting[-1].text()

    async def save() -> None:
        waiting.popleft().log_to_db(db)

    return save


if __name__ == "__main__":
    main({"anthropic": messages, "chat": chat}, keep)
