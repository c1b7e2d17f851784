"""Custom servers, and keys from functions."""

from __future__ import annotations

import os
from typing import assert_type

from tenuto import AsyncClient, Client, Provider, Target, resolve

LOCAL = Provider("mine", dialect="openai-chat", base_url="http://localhost:8000/v1", auth="none")


def token() -> str:
    return os.environ["MY_TOKEN"]


async def awaited_token() -> str:
    return os.environ["MY_TOKEN"]


rows = [LOCAL, Provider("other", "anthropic-messages", "https://other.test/v1", auth="x-api-key")]
with Client(providers=rows, keys={"other": token, "azure": awaited_token}, default_provider="mine") as ai:
    print(ai.chat("my-model", "Hello", metadata={"mine": {"guided_regex": ".*"}}).text)

with Client(
    providers={
        "openai": {"api_key": os.environ["OPENAI_API_KEY"]},
        "azure": {"api_key": awaited_token, "base_url": "https://me.openai.azure.com/openai/v1"},
        "custom": {"base_url": "https://my-vllm-server.test/v1", "dialect": "openai-chat", "headers": {"x-a": "b"}},
        "ollama": {},
    }
) as ai:
    print(ai.chat("custom/my-model", "Hello").provider)

assert_type(resolve("openai/gpt-5.2"), Target)
waiting = AsyncClient(keys={"openai": "k"}, timeout=20, transport=None)
