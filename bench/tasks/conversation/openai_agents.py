import sys

from agents import Agent, Runner, SQLiteSession

agent = Agent(name="Assistant", model="gpt-5.2")
session = SQLiteSession("customer-42", "sessions.db")
print(Runner.run_sync(agent, sys.argv[1], session=session).final_output)
