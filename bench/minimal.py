"""Minimal implementations to compare with: they read a stream and decode its events, and do nothing else.

They assemble no message, keep no unknown fields and do not notice a truncated stream. `TYPED` has a msgspec decoder of
the events of each dialect, the fastest decoder known.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import aiohttp
import msgspec
from msgspec import Struct

BODY = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4096}
READ = 64 * 1024
Decode = Callable[[bytes], object]


class _Tagged(Struct, tag_field="type"):
    """An event of Anthropic or Responses, with its name in `type`."""


class _TextDelta(_Tagged, tag="text_delta"):
    text: str


class _ThinkingDelta(_Tagged, tag="thinking_delta"):
    thinking: str


class _SignatureDelta(_Tagged, tag="signature_delta"):
    signature: str


class _ArgumentsDelta(_Tagged, tag="input_json_delta"):
    partial_json: str


class _MessageStart(_Tagged, tag="message_start"):
    message: dict


class _BlockStart(_Tagged, tag="content_block_start"):
    index: int
    content_block: dict


class _BlockDelta(_Tagged, tag="content_block_delta"):
    index: int
    delta: _TextDelta | _ThinkingDelta | _SignatureDelta | _ArgumentsDelta


class _BlockStop(_Tagged, tag="content_block_stop"):
    index: int


class _MessageDelta(_Tagged, tag="message_delta"):
    delta: dict
    usage: dict


class _MessageStop(_Tagged, tag="message_stop"):
    pass


_Anthropic = _MessageStart | _BlockStart | _BlockDelta | _BlockStop | _MessageDelta | _MessageStop


class _Delta(_Tagged):
    item_id: str
    output_index: int
    delta: str
    sequence_number: int


class _OutputText(_Delta, tag="response.output_text.delta"):
    content_index: int


class _SummaryText(_Delta, tag="response.reasoning_summary_text.delta"):
    summary_index: int


class _CallArguments(_Delta, tag="response.function_call_arguments.delta"):
    pass


class _Item(_Tagged):
    output_index: int
    item: dict


class _ItemAdded(_Item, tag="response.output_item.added"):
    pass


class _ItemDone(_Item, tag="response.output_item.done"):
    pass


class _Part(_Tagged):
    item_id: str
    output_index: int
    part: dict


class _PartAdded(_Part, tag="response.content_part.added"):
    pass


class _PartDone(_Part, tag="response.content_part.done"):
    pass


class _SummaryAdded(_Part, tag="response.reasoning_summary_part.added"):
    pass


class _SummaryDone(_Part, tag="response.reasoning_summary_part.done"):
    pass


class _TextDone(_Tagged, tag="response.output_text.done"):
    text: str


class _SummaryTextDone(_Tagged, tag="response.reasoning_summary_text.done"):
    text: str


class _ArgumentsDone(_Tagged, tag="response.function_call_arguments.done"):
    arguments: str


class _Created(_Tagged, tag="response.created"):
    response: dict


class _Completed(_Tagged, tag="response.completed"):
    response: dict


_Responses = (
    _OutputText | _SummaryText | _CallArguments | _ItemAdded | _ItemDone | _PartAdded | _PartDone | _SummaryAdded
    | _SummaryDone | _TextDone | _SummaryTextDone | _ArgumentsDone | _Created | _Completed
)  # fmt: skip


class _Function(Struct):
    arguments: str = ""
    name: str | None = None


class _Call(Struct):
    index: int
    function: _Function
    id: str | None = None


class _ChatDelta(Struct):
    content: str | None = None
    reasoning_content: str | None = None
    role: str | None = None
    refusal: str | None = None
    tool_calls: list[_Call] = []


class _Choice(Struct):
    index: int
    delta: _ChatDelta
    finish_reason: str | None = None


class _Chunk(Struct):
    id: str
    model: str
    choices: list[_Choice]
    usage: dict | None = None


class _GeminiPart(Struct, rename="camel"):
    text: str | None = None
    thought: bool = False
    function_call: dict | None = None


class _Content(Struct):
    parts: list[_GeminiPart] = []
    role: str = ""


class _Candidate(Struct, rename="camel"):
    content: _Content
    index: int = 0
    finish_reason: str | None = None


class _Reply(Struct, rename="camel"):
    candidates: list[_Candidate]
    usage_metadata: dict | None = None


TYPED: dict[str, Decode] = {
    "anthropic-messages": msgspec.json.Decoder(_Anthropic).decode,
    "openai-responses": msgspec.json.Decoder(_Responses).decode,
    "openai-chat": msgspec.json.Decoder(_Chunk).decode,
    "gemini": msgspec.json.Decoder(_Reply).decode,
}


def decode_untyped(body: bytes) -> int:
    """Split bytes at blank lines and decode each event untyped; return the number of events."""
    decode = msgspec.json.Decoder().decode
    tail: list[bytes] = []
    count = 0
    for at in range(0, len(body), READ):
        tail.append(body[at : at + READ])
        if b"\n" in tail[-1]:  # joining only where an event may end keeps the time linear
            *events, rest = b"".join(tail).split(b"\n\n")
            tail = [rest]
            for event in events:
                at_data = event.find(b"data: ")
                if at_data >= 0 and event[at_data + 6 :] != b"[DONE]":
                    decode(event[at_data + 6 :])
                count += 1
    return count


async def read_stream(session: aiohttp.ClientSession, url: str, decode: Decode = json.loads) -> int:
    """Read a stream over a socket with a simple loop; return the number of events."""
    count = 0
    async with session.post(url, json={**BODY, "stream": True}) as response:
        tail = b""
        async for chunk in response.content.iter_any():
            *events, tail = (tail + chunk).split(b"\n\n")
            for event in events:
                data = event[event.find(b"data: ") + 6 :]
                if data != b"[DONE]":
                    decode(data)
                count += 1
    return count


async def read_until_first_event(session: aiohttp.ClientSession, url: str) -> None:
    """Request an Anthropic stream and close it when its first block has started."""
    received = b""
    async with session.post(url, json={**BODY, "stream": True}) as response:
        while b"content_block_start" not in received:
            received += await response.content.readany()


async def request_once(session: aiohttp.ClientSession, url: str) -> dict:
    """Send a request without streaming; return the response."""
    async with session.post(url, json=BODY) as response:
        return json.loads(await response.read())
