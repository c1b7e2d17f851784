from tenuto import Agent, Limits, tool
from tenuto.errors import LimitReached
from tenuto.middleware import Retry


@tool(effect="pure")
def search(query: str) -> str:
    """Search the archive."""
    return "nothing was found"


agent = Agent("openai/gpt-5.2", tools=[search], limits=Limits(usd="0.01"), retry=Retry(3))
try:
    agent.run("Search until you find something.")
except LimitReached:
    print("too expensive")
