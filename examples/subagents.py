"""Use an agent as a tool of another agent: each call runs in its own session, linked in the caller's journal."""

from tenuto import Agent, Limits
from tenuto.events import RunStopped, SubAgentEvent
from tenuto.testing import Simulator, call, say, turn

SCRIPT = [
    turn(call("ask_reader", {"prompt": "How high do frogs jump?"})),
    turn(say("About two meters, says the reader.")),
]

with Simulator() as sim:
    base_url = f"{sim.base_url}/v1"
    reader = Agent("sim/gemini", system="You know all books about animals.", name="reader", limits=Limits(turns=3))
    ask = reader.as_tool("ask_reader", "Ask an expert on animals.")
    sim.script(*SCRIPT, when="What is known of frogs?")
    sim.script(turn(say("Two meters.")), when="You know all books about animals.")
    with Agent("sim/anthropic", tools=[ask], store=None, providers={"sim": {"base_url": base_url}}) as writer:
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
