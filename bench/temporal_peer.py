"""The peer of `bench.temporal`: an agent of pydantic-ai on Temporal."""

from __future__ import annotations

import os

from pydantic_ai import Agent
from pydantic_ai.durable_exec.temporal import PydanticAIWorkflow, TemporalDurability
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from temporalio import workflow

SIMULATOR = "BENCH_SIMULATOR"
"""The environment variable with the URL of the simulator."""

agent = Agent(
    AnthropicModel(
        "claude-sonnet-4-5", provider=AnthropicProvider(api_key="none", base_url=os.environ.get(SIMULATOR, "http://x"))
    ),
    name="bench",
    capabilities=[TemporalDurability()],
)


@agent.tool_plain
async def charge() -> str:
    """Charge the card."""
    return "charged"


@agent.tool_plain
async def look() -> str:
    """Look."""
    return "seen"


@workflow.defn
class Conversation(PydanticAIWorkflow):
    """Runs the prompts of a conversation. The engine keeps the messages."""

    __pydantic_ai_agents__ = (agent,)

    @workflow.run
    async def run(self, prompts: list[str]) -> str:
        messages, text = [], ""
        for prompt in prompts:
            result = await agent.run(prompt, message_history=messages)
            messages, text = result.all_messages(), result.output
        return text
