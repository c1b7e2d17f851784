"""Ask a server of your own: anything that speaks one of the four dialects."""

import os

from tenuto import Client, Provider

ADDRESS = os.environ.get("MY_BASE_URL", "http://localhost:8000/v1")


def token() -> str:
    """Return a key that is made anew for each request, as those of clouds are."""
    return "token-" + os.urandom(4).hex()


with Client(providers={"custom": {"api_key": "my-key", "base_url": ADDRESS}}) as ai:
    print("custom:", ai.chat("custom/my-model", "Hello").text)

mine = Provider("mine", dialect="openai-chat", base_url=ADDRESS)
with Client(providers=[mine], keys={"mine": token}, default_provider="mine") as ai:
    reply = ai.chat("my-model", "Hello", extra_body={"guided_regex": "[A-Z].*"}, extra_headers={"x-team": "blue"})
    print("mine:  ", reply.text)
