"""Stream a reply: text, reasoning and usage."""

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
                case ContentDelta(delta=ThinkingDelta(thinking=thinking)):
                    print(thinking, end="", file=sys.stderr)
                case MessageDone(response=response):
                    print("\nusage:", response.usage)
    transcript = stream.reply.transcript  # the same as without streaming

    with ai.stream(MODEL, transcript + "And now a shorter one.") as stream:
        for delta in stream.text_deltas():  # text only
            print(delta, end="", flush=True)
    print()
