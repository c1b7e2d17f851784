import sys

from tenuto import Agent, tool


@tool(approval=True)
def send_mail(to: str, text: str) -> str:
    """Send a mail."""
    return f"sent to {to}: {text}"


agent = Agent("openai/gpt-5.2", tools=[send_mail], store="sessions.db")
session = agent.session("mail-1")
if sys.argv[1] == "ask":
    for pending in session.send("Tell Ada that I am late.").pending:
        print(pending.call.name, pending.call.args)
else:
    print(session.approve().output)
