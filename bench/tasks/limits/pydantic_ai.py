from decimal import Decimal

from pydantic_ai import Agent, UsageLimitExceeded, UsageLimits

agent = Agent("openai:gpt-5.2", model_settings={"max_retries": 3})


@agent.tool_plain
def search(query: str) -> str:
    """Search the archive."""
    return "nothing was found"


try:
    agent.run_sync("Search until you find something.", usage_limits=UsageLimits(cost_limit=Decimal("0.01")))
except UsageLimitExceeded:
    print("too expensive")
