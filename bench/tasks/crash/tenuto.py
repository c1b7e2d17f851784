import subprocess

from tenuto import Agent, tool


@tool(effect="idempotent")
def deploy(host: str) -> str:
    """Deploy the release on a host."""
    return subprocess.run(["./deploy.sh", host], capture_output=True, text=True, check=True).stdout


agent = Agent("openai/gpt-5.2", tools=[deploy], store="sessions.db")
print(agent.session("release-7").send("Deploy on web, then on db.", key="release-7").output)
