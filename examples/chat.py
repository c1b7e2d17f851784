"""Send a message and read the reply: its text, and its blocks."""

import os

from tenuto import Client, Text
from tenuto.middleware import logger, retry

with Client(
    providers={
        "openai": {"api_key": os.environ["OPENAI_API_KEY"]},  # the default is this environment variable
        "ollama": {},  # needs no key
    },
    middleware=[retry(), logger()],
) as ai:
    reply = ai.chat("openai/gpt-5.2", [{"role": "user", "content": "Hello"}])

print(reply.text)  # the same for every provider
for block in reply.content:  # all blocks, in the order in which the model produced them
    if isinstance(block, Text):
        print("text:", block.text)
print(reply.stop_reason, reply.usage)
