"""Use a custom server that implements one of the four dialects."""

import os

from tenuto import Client, Provider

BASE_URL = os.environ.get("MY_BASE_URL", "http://localhost:8000/v1")


def make_token() -> str:
    """Return a new key for each request, like the short-lived tokens of cloud providers."""
    return "token-" + os.urandom(4).hex()


with Client(providers={"custom": {"api_key": "my-key", "base_url": BASE_URL}}) as ai:
    print("custom:", ai.chat("custom/my-model", "Hello").text)

my_provider = Provider("mine", dialect="openai-chat", base_url=BASE_URL)
with Client(providers=[my_provider], keys={"mine": make_token}, default_provider="mine") as ai:
    reply = ai.chat("my-model", "Hello", extra_body={"guided_regex": "[A-Z].*"}, extra_headers={"x-team": "blue"})
    print("mine:  ", reply.text)
