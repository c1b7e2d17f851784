"""Read a reply while it is being written: its text, its thoughts, and what it took."""

import sys

from tenuto import Client
from tenuto.events import ContentDelta, MessageDone, TextDelta, ThinkingDelta

MODEL = "anthropic/claude-sonnet-4-6"

with Client() as ai:
    with ai.stream(MODEL, "Write a poem.", effort="high") as stream:
        for event in stream:
            match event:
                case ContentDelta(delta=TextDelta(text=text)):
                    print(text, end="", flush=True)
                case ContentDelta(delta=ThinkingDelta(thinking=thought)):
                    print(thought, end="", file=sys.stderr)
                case MessageDone(response=response):
                    print("\nusage:", response.usage)
    transcript = stream.reply.transcript  # the whole reply, as `chat` would have given it

    with ai.stream(MODEL, transcript + "And now a shorter one.") as stream:
        for piece in stream.text_deltas():  # only the text
            print(piece, end="", flush=True)
    print()
