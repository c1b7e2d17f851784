"""Drive llm: `prompt` of its asynchronous models, for OpenAI and, with the plugin llm-anthropic, for Anthropic."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import llm
import sqlite_utils

from bench.peers.driver import APPENDS, MESSAGE, PROMPT, TURNS, Append, main


def chat(base_url: str) -> Model:
    from llm.default_plugins.openai_models import AsyncChat

    return Model(AsyncChat("gpt-4o", key="none", api_base=f"{base_url}/v1"))


def messages(base_url: str) -> Model:
    from llm_anthropic import AsyncClaudeMessages

    return Model(AsyncClaudeMessages("anthropic/claude-sonnet-4-5", base_url=base_url))


class Model:
    def __init__(self, model) -> None:
        self.model = model

    async def count_events(self) -> int:
        count = 0
        async for _ in self.model.prompt(PROMPT, key="none"):
            count += 1
        return count

    async def read_content(self) -> tuple[str, str]:
        response = self.model.prompt(PROMPT, key="none")
        text = [piece async for piece in response]
        calls = await response.tool_calls()
        return "".join(text), "".join(json.dumps(call.arguments, separators=(",", ":")) for call in calls)

    async def request_once(self) -> str:
        return await self.model.prompt(PROMPT, key="none", stream=False).text()


class Echo(llm.Model):
    """A model that returns a fixed text at once."""

    model_id = "echo"

    def execute(self, *_: object, **__: object) -> Iterator[str]:
        yield MESSAGE


async def open_session(directory: Path, count: int) -> Append:
    """Open a log; an append is `log_to_db` of a turn: a prompt and its response."""
    from llm.migrations import migrate

    db = sqlite_utils.Database(directory / f"{count}.db")
    migrate(db)
    conversation = Echo().conversation()
    history = [(llm.assistant if at % 2 else llm.user)(f"{at}{MESSAGE}") for at in range(count - 1)]
    first = conversation.prompt(messages=[*history, llm.user(PROMPT)])
    first.text()
    first.log_to_db(db)
    answered = deque()  # answered before the measurement, which covers only the log
    for _ in range(APPENDS * (TURNS + 1) + 1):
        answered.append(conversation.prompt(MESSAGE))
        answered[-1].text()

    async def append() -> None:
        answered.popleft().log_to_db(db)

    return append


if __name__ == "__main__":
    main({"anthropic": messages, "chat": chat}, open_session)
