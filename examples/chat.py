"""Ask a question, and look at the answer: whole, and part by part."""

import os

from tenuto import Client, Text
from tenuto.middleware import logger, retry

with Client(
    providers={
        "openai": {"api_key": os.environ["OPENAI_API_KEY"]},  # without it, this variable is read all the same
        "ollama": {},  # needs no key
    },
    middleware=[retry(), logger()],
) as ai:
    reply = ai.chat("openai/gpt-5.2", [{"role": "user", "content": "Hello"}])

print(reply.text)  # the same for every provider
for block in reply.content:  # or everything, in the order in which the model said it
    if isinstance(block, Text):
        print("text:", block.text)
print(reply.stop_reason, reply.usage)
