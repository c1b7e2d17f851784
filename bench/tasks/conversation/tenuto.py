import sys

from tenuto import Agent

agent = Agent("openai/gpt-5.2", store="sessions.db")
print(agent.session("customer-42").send(sys.argv[1]).output)
