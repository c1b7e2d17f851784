"""Require approval for tool calls: the session waits until a process approves or denies them."""

from tenuto import Agent, tool
from tenuto.testing import Simulator, call, say, turn


def is_large(amount: int, **_: object) -> bool:
    return amount > 100


@tool(approval=is_large)
def pay(amount: int, to: str) -> str:
    """Pay a person."""
    return f"paid {amount} to {to}"


SCRIPT = [turn(call("pay", {"amount": 50, "to": "Ada"}), call("pay", {"amount": 500, "to": "Bob"})), turn(say("Done."))]

with Simulator(script=SCRIPT) as sim:
    base_url = f"{sim.base_url}/v1"  # this script; without it, the built-in simulator makes up replies
    session = Agent("sim/openai", tools=[pay], store=None, providers={"sim": {"base_url": base_url}}).session()
    session.send("Pay Ada 50 and Bob 500.")
    print(session.status, session.waiting_for, [pending.call.args for pending in session.pending])
    session.deny(reason="That is too much.")
    print(session.status, session.text)
    print(session.transcript[2])
