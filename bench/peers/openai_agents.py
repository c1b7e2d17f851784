"""openai-agents: `Runner.run_streamed` over the Responses dialect. A call would make it go round: it reads text alone."""

from __future__ import annotations

from pathlib import Path

from agents import Agent, OpenAIResponsesModel, Runner, SQLiteSession, set_tracing_disabled
from openai import AsyncOpenAI

from bench.peers.driver import MESSAGE, QUESTION, Save, main

set_tracing_disabled(True)


class Responses:
    def __init__(self, address: str) -> None:
        client = AsyncOpenAI(api_key="none", base_url=f"{address}/v1", max_retries=0)
        self.agent = Agent(name="bench", model=OpenAIResponsesModel("gpt-5.2", client))

    async def read(self) -> int:
        count = 0
        async for _ in Runner.run_streamed(self.agent, QUESTION).stream_events():
            count += 1
        return count

    async def said(self) -> tuple[str, str]:
        run = Runner.run_streamed(self.agent, QUESTION)
        async for _ in run.stream_events():
            pass
        return str(run.final_output), ""

    async def once(self) -> str:
        return str((await Runner.run(self.agent, QUESTION)).final_output)


async def keep(folder: Path, count: int) -> Save:
    """`SQLiteSession.add_items`, one item at a time; it does not wait for the disk."""
    session = SQLiteSession(f"bench-{count}", folder / f"{count}.db")
    await session.add_items([{"role": "user", "content": f"{at}{MESSAGE}"} for at in range(count)])

    async def save() -> None:
        await session.add_items([{"role": "user", "content": MESSAGE}])

    return save


if __name__ == "__main__":
    main({"responses": Responses}, keep)
