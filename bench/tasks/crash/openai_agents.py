import asyncio
import subprocess

from agents import Agent, function_tool
from dbos import DBOS, SetWorkflowID
from dbos_openai_agents import DBOSRunner

DBOS(config={"name": "release", "system_database_url": "sqlite:///release.sqlite"})


@function_tool
@DBOS.step()
def deploy(host: str) -> str:
    """Deploy the release on a host."""
    return subprocess.run(["./deploy.sh", host], capture_output=True, text=True, check=True).stdout


agent = Agent(name="release", model="gpt-5.2", tools=[deploy])


@DBOS.workflow()
async def release(prompt: str) -> str:
    return (await DBOSRunner.run(agent, prompt)).final_output


async def main():
    DBOS.launch()
    with SetWorkflowID("release-7"):
        print(await release("Deploy on web, then on db."))


asyncio.run(main())
