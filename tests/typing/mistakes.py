"""Errors that a type checker must find: the comment of each wrong line has the code."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec

from tenuto import AsyncClient, ChatRequest, Client, Provider, Transcript, tool
from tenuto.events import StreamEvent
from tenuto.middleware import budget, fallback, retry

MODEL = "openai/gpt-5.2"


class City(msgspec.Struct):
    name: str


@tool
def weather(city: str) -> str:
    return city


def asking(ai: Client) -> None:
    ai.chat(MODEL, "Hi", max_token=100)  # expect: call-overload
    ai.chat(MODEL, "Hi", effort="huge")  # expect: call-overload
    ai.chat(MODEL, "Hi", temperature="hot")  # expect: call-overload
    ai.chat(MODEL, 42)  # expect: call-overload
    ai.chat(MODEL)  # expect: call-overload
    ai.chat(MODEL, ["Hi", 42])  # expect: list-item
    ai.chat(MODEL, b"Hi")  # expect: arg-type
    ai.chat(MODEL, "Hi", tools=3)  # expect: call-overload
    ai.chat(MODEL, "Hi", tool_choice="always")  # expect: call-overload
    ai.chat(ChatRequest(model=MODEL, messages=()), temperature=1)  # expect: call-overload
    ai.stream(MODEL, "Hi", efort="high")  # expect: call-overload
    ai.count_tokens(MODEL, "Hi", max_token=1)  # expect: call-arg
    ai.embed(MODEL, [1, 2])  # expect: list-item
    ai.use(weather)  # expect: arg-type
    print(ai.chat(MODEL, "Hi").txt)  # expect: attr-defined


def reading(ai: Client) -> None:
    reply = ai.chat(MODEL, "Hi")
    reply.text = "Ho"  # expect: misc
    number: int = reply.usage.input_tokens  # expect: assignment, union-attr
    city: City = ai.chat_structured(MODEL, "Hi", str).data  # expect: assignment
    total: float = reply.cost  # expect: assignment
    for event in ai.stream(MODEL, "Hi"):
        print(event.text, number, city, total)  # expect: union-attr
    reply.transcript + 42  # expect: operator
    Transcript("Hi")  # expect: arg-type
    weather(town="Oslo")  # expect: call-arg
    weather(7)  # expect: arg-type


async def awaiting(ai: AsyncClient) -> None:
    ai.chat(MODEL, "Hi")  # expect: unused-coroutine
    print(ai.chat(MODEL, "Hi").text)  # expect: attr-defined
    with ai.stream(MODEL, "Hi") as stream:  # expect: attr-defined
        print(stream)
    for _ in ai.stream(MODEL, "Hi"):  # expect: attr-defined
        pass


def building() -> None:
    Client(idempotency_key="k")  # expect: call-arg
    Client(keys={"openai": 42})  # expect: dict-item
    Client(providers={"openai": {"apikey": "k"}})  # expect: typeddict-unknown-key
    Client(providers={"mine": {"base_url": "u", "dialect": "chat"}})  # expect: typeddict-item
    Client(middleware=[retry])  # expect: list-item
    Client(middleware=retry())  # expect: arg-type
    Client(transport=print)  # expect: arg-type
    Provider("mine", "chat", "http://localhost")  # expect: arg-type
    Client(middleware=[budget(dollars=1)])  # expect: call-arg
    fallback([1, 2])  # expect: list-item


async def drained(request: ChatRequest) -> AsyncIterator[StreamEvent]:
    raise NotImplementedError
    yield


Client(middleware=[drained])  # expect: list-item
