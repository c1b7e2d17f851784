import asyncio
import sys
from pathlib import Path

from agents import Agent, Runner, RunState, function_tool


@function_tool(needs_approval=True)
def send_mail(to: str, text: str) -> str:
    """Send a mail."""
    return f"sent to {to}: {text}"


agent = Agent(name="Secretary", model="gpt-5.2", tools=[send_mail])
file = Path("mail-1.json")
if sys.argv[1] == "ask":
    result = Runner.run_sync(agent, "Tell Ada that I am late.")
    file.write_text(result.to_state().to_string())
    for interruption in result.interruptions:
        print(interruption.name, interruption.arguments)
else:
    state = asyncio.run(RunState.from_string(agent, file.read_text()))
    for interruption in state.get_interruptions():
        state.approve(interruption)
    print(Runner.run_sync(agent, state).final_output)
