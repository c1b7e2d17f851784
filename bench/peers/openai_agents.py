"""Drive openai-agents: `Runner.run_streamed` with the Responses dialect. It reads text only: a call would start a loop."""

from __future__ import annotations

from pathlib import Path

from agents import Agent, OpenAIResponsesModel, Runner, SQLiteSession, set_tracing_disabled
from openai import AsyncOpenAI

from bench.peers.driver import MESSAGE, PROMPT, Append, main

set_tracing_disabled(True)


class Responses:
    def __init__(self, base_url: str) -> None:
        client = AsyncOpenAI(api_key="none", base_url=f"{base_url}/v1", max_retries=0)
        self.agent = Agent(name="bench", model=OpenAIResponsesModel("gpt-5.2", client))

    async def count_events(self) -> int:
        count = 0
        async for _ in Runner.run_streamed(self.agent, PROMPT).stream_events():
            count += 1
        return count

    async def read_content(self) -> tuple[str, str]:
        run = Runner.run_streamed(self.agent, PROMPT)
        async for _ in run.stream_events():
            pass
        return str(run.final_output), ""

    async def request_once(self) -> str:
        return str((await Runner.run(self.agent, PROMPT)).final_output)


async def open_session(directory: Path, count: int) -> Append:
    """Open a `SQLiteSession`; an append is `add_items` of one item, which does not wait for the disk."""
    session = SQLiteSession(f"bench-{count}", directory / f"{count}.db")
    await session.add_items([{"role": "user", "content": f"{at}{MESSAGE}"} for at in range(count)])

    async def append() -> None:
        await session.add_items([{"role": "user", "content": MESSAGE}])

    return append


if __name__ == "__main__":
    main({"responses": Responses}, open_session)
