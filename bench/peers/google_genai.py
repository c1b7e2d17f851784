"""The official SDK of Google, raw: `generate_content_stream`."""

from __future__ import annotations

import json

from google import genai

from bench.peers.driver import QUESTION, main

ASKED = {"model": "gemini-3-flash-preview", "contents": QUESTION}


class Gemini:
    def __init__(self, address: str) -> None:
        self.client = genai.Client(api_key="none", http_options={"base_url": address})  # closes what is not held
        self.models = self.client.aio.models

    async def read(self) -> int:
        count = 0
        async for _ in await self.models.generate_content_stream(**ASKED):
            count += 1
        return count

    async def said(self) -> tuple[str, str]:
        text, arguments = [], []
        async for chunk in await self.models.generate_content_stream(**ASKED):
            parts = chunk.candidates[0].content.parts
            text += [part.text for part in parts if part.text and not part.thought]
            calls = [part.function_call.args for part in parts if part.function_call]
            arguments += [json.dumps(call, separators=(",", ":")) for call in calls]
        return "".join(text), "".join(arguments)

    async def once(self) -> str:
        return (await self.models.generate_content(**ASKED)).text


if __name__ == "__main__":
    main({"gemini": Gemini})
