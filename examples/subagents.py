"""An agent that calls another agent: each call runs in its own session, linked in the caller's journal."""

from tenuto import Agent, Limits
from tenuto.events import RunStopped, SubAgentEvent
from tenuto.testing import Simulator, call, say, turn

SCRIPT = [
    turn(call("ask_reader", {"prompt": "How high do frogs jump?"})),
    turn(say("About two metres, says the reader.")),
]

with Simulator() as sim:
    place = f"{sim.base_url}/v1"
    reader = Agent("sim/gemini", system="You have read everything.", name="reader", limits=Limits(turns=3))
    ask = reader.as_tool("ask_reader", "Ask somebody who has read everything.")
    sim.script(*SCRIPT, when="What is known of frogs?")
    sim.script(turn(say("Two metres.")), when="You have read everything.")
    with Agent("sim/anthropic", tools=[ask], store=None, providers={"sim": {"base_url": place}}) as writer:
        session = writer.session()
        for event in session.stream("What is known of frogs?"):
            if isinstance(event, SubAgentEvent) and isinstance(event.event, RunStopped):
                print("the reader:", event.event.reason)
        print(session.text)
        print(
            [
                entry.kind
                for entry in session.entries()
                if entry.kind in ("sub_session_linked", "call_started", "call_finished")
            ]
        )
