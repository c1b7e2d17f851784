"""Decode a recorded stream and show its blocks, in order; then write the next request from them (`make demo`)."""

from __future__ import annotations

import json
from pathlib import Path

import tenuto

reply = tenuto.decode("anthropic-messages", Path(__file__).with_name("demo.sse").read_bytes(), stream=True)

print("what the model said, in the order it said it:")
for block in reply.choices[0].content:
    print("  ", block)
print("why it stopped:", reply.message.raw_stop, "->", reply.message.stop_reason)
print("what it used:  ", reply.usage)

call = reply.choices[0].tool_calls[0]
transcript = tenuto.Transcript() + "What is the weather in Oslo?" + reply.message + call.answer("12 °C, rain")
request = tenuto.ChatRequest(model="anthropic/claude-opus-4-6", messages=transcript)
wire = tenuto.encode("anthropic-messages", request)
print("\nthe next request hands the turn back as it came, signature and arguments byte for byte:")
print(json.dumps(json.loads(wire.body)["messages"][1]["content"], indent=2, ensure_ascii=False))

other = tenuto.encode("gemini", request, provider="google")
print("\nhanded to another provider, what cannot go along is on the books:")
for loss in other.losses:
    print("  ", loss)
