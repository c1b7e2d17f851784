"""A server with a fixed response, and sessions that are written to a store without a model."""

from __future__ import annotations

import asyncio
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tenuto.core import journal
from tenuto.core.blocks import Image, Reasoning, ServerToolUse, Text, ToolUse
from tenuto.core.loss import Location, Loss
from tenuto.core.messages import AssistantMessage, SystemMessage, ToolResult, UserMessage, user
from tenuto.core.stored import make_draft
from tenuto.store.open import open_store
from tenuto.store.sessions import new_id

SAID = [
    journal.Configured("sim/anthropic", system="Be brief."),
    journal.MessageAdded(UserMessage("Where is Oslo?")),
    journal.RunEnded("completed"),
]
"""A session of one message."""
CALLED = [
    journal.Configured("sim/anthropic"),
    journal.MessageAdded(UserMessage("Dig")),
    journal.RequestStarted("sim/anthropic"),
    journal.ReplyReceived(AssistantMessage((ToolUse("c1", "dig", "{}"),), stop_reason="tool_calls")),
    journal.CallStarted("c1", 0, "dig"),
    journal.CallFinished(ToolResult("c1", "dug"), 0),
    journal.RequestStarted("sim/anthropic"),
    journal.ReplyReceived(AssistantMessage((Text("Done."),))),
    journal.RunEnded("completed"),
]
"""A session with a tool call; without the last four entries, the call has no result."""


@contextmanager
def answering(status, body):
    """Answer every GET; yield the URL and the headers of the requests."""
    heard = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            heard.append({name.lower(): value for name, value in self.headers.items()})
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", heard
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def append_entries(place, name, payloads, *, time_ms=1_000_000):
    """Append entries to a session of a store, which is created if there is none of this name."""

    async def append():
        async with open_store(place) as store:
            lease = await store.lease(await store.find(name) if name == "last" else name)
            drafts = [
                make_draft(payload, id=f"{name}{at}", time_ms=time_ms + at) for at, payload in enumerate(payloads)
            ]
            await store.release(await store.append(lease, drafts))

    asyncio.run(append())


def keep_sessions(file, said):
    """Create a session for each pair of text and name, the last one newest; return their ids."""

    async def kept():
        ids = [new_id(at) for at in range(1, len(said) + 1)]
        async with open_store(file) as store:
            for at, (id, (words, name)) in enumerate(zip(ids, said, strict=True), 1):
                lease = await store.lease(id)
                await store.append(lease, [make_draft(journal.MessageAdded(user(words)), id="first", time_ms=at)])
                await store.release(lease)
                if name:
                    await store.rename(id, name)
        return ids

    return asyncio.run(kept())


def every_entry(text):
    """Return a history with each kind of entry; the text is at each place that a model or a provider fills."""
    reply = AssistantMessage(
        (
            Reasoning(f"A thought {text}\nof two lines"),
            Reasoning(""),
            Text(f"I dig. {text}"),
            ServerToolUse("s1", "web_search", '{"query": "spades"}'),
            ToolUse("c1", f"dig{text}", json.dumps({"depth": 3, "note": f"one\ntwo: {text}"})),
            ToolUse("c2", "ask", text, args_error="no"),
        ),
        stop_reason="tool_calls",
    )
    return [
        journal.Configured("sim/anthropic", system=text),
        journal.MessageAdded(UserMessage((Text(f"Look {text}"), Image("aGk=", "image/png")))),
        journal.RequestStarted("sim/anthropic"),
        journal.RequestFailed("RateLimited", text),
        journal.RequestStarted("sim/anthropic"),
        journal.ReplyReceived(reply, losses=(Loss("foreign", Location(0), text, "none"),)),
        journal.ApprovalRequested("c1", 0, "dig"),
        journal.ApprovalDecided("c1", 0, allowed=False, reason=text),
        journal.CallFinished(ToolResult("c1", text, is_error=True), 0, outcome="denied"),
        journal.SubSessionLinked("child", "c2", 1),
        journal.CallStarted("c2", 1, "ask"),
        journal.CallFinished(ToolResult("c2", f"line {text}\n" * 60), 1),
        journal.SteeringAdded(UserMessage("Hurry")),
        journal.LossRecorded(Loss("unread", Location(path="usage"), text)),
        journal.HandedOver(f"sim/{text}", "sim/anthropic", (Loss("foreign", Location(1), "a thought"),)),
        journal.Compacted(4, (SystemMessage(text),)),
        journal.UnknownPayload("dreamt", '{"entry":"dreamt","of":"sheep"}'),
        journal.RunEnded("failed", text),
    ]
