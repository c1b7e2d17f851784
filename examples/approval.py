"""Calls that need somebody's word: the session waits, in any process, until it is given."""

from tenuto import Agent, tool
from tenuto.testing import Simulator, call, say, turn


def large(amount: int, **_: object) -> bool:
    return amount > 100


@tool(approval=large)
def pay(amount: int, to: str) -> str:
    """Pay somebody."""
    return f"paid {amount} to {to}"


SCRIPT = [turn(call("pay", {"amount": 50, "to": "Ada"}), call("pay", {"amount": 500, "to": "Bob"})), turn(say("Done."))]

with Simulator(script=SCRIPT) as sim:
    place = f"{sim.base_url}/v1"  # for this script; without, one is started that makes it up
    session = Agent("sim/openai", tools=[pay], store=None, providers={"sim": {"base_url": place}}).session()
    session.send("Pay Ada 50 and Bob 500.")
    print(session.status, [waiting.call.args for waiting in session.pending])
    session.deny(reason="That is too much.")
    print(session.status, session.text)
    print(session.transcript[2])
