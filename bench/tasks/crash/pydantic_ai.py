import asyncio
import subprocess

from dbos import DBOS, SetWorkflowID
from pydantic_ai import Agent
from pydantic_ai.durable_exec.dbos import DBOSDurability

DBOS(config={"name": "release", "system_database_url": "sqlite:///release.sqlite"})
agent = Agent("openai:gpt-5.2", name="release", capabilities=[DBOSDurability()])


@agent.tool_plain
@DBOS.step()
def deploy(host: str) -> str:
    """Deploy the release on a host."""
    return subprocess.run(["./deploy.sh", host], capture_output=True, text=True, check=True).stdout


@DBOS.workflow()
async def release(prompt: str) -> str:
    return (await agent.run(prompt)).output


async def main():
    DBOS.launch()
    with SetWorkflowID("release-7"):
        print(await release("Deploy on web, then on db."))


asyncio.run(main())
