"""Plain functions as tools, short reprs, saving an image, and middleware that is passed in a wrong form."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tenuto import (
    Agent,
    AssistantMessage,
    Audio,
    ChatRequest,
    ChatResponse,
    Choice,
    Client,
    Document,
    Image,
    Text,
    tool,
)
from tenuto.client.middleware.replay import replay_events
from tenuto.events import ContentDelta, ContentDone, ContentStart, MessageDone, StreamEvent, TextDelta
from tenuto.middleware import Middleware, Next, compose, response_middleware, retry
from tenuto.testing import Simulator, call, say, think, turn

PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 30


def weather(city: str) -> str:
    """Current weather in a city."""
    return f"sunny in {city}"


# --- tools ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("as_request", [False, True])
def test_plain_function_is_a_tool_for_chat(simulator: Simulator, client: Client, as_request: bool) -> None:
    simulator.script(turn(call("weather", {"city": "Oslo"})))
    if as_request:
        reply = client.chat({"model": "sim/anthropic", "messages": "Weather?", "tools": [weather]})
    else:
        reply = client.chat("sim/anthropic", "Weather?", tools=[weather])

    [definition] = simulator.requests[-1].body["tools"]
    assert definition["name"] == "weather"
    assert definition["description"] == "Current weather in a city."
    assert reply.tool_calls[0].parse() == {"city": "Oslo"}


def test_methods_generators_and_tools_may_be_mixed(simulator: Simulator, client: Client) -> None:
    class Desk:
        def ticket(self, number: int) -> str:
            """Read a ticket."""
            return str(number)

    client.chat("sim/openai", "x", tools=(one for one in (weather, tool(Desk().ticket))))

    assert [one["name"] for one in simulator.requests[-1].body["tools"]] == ["weather", "ticket"]


def test_number_is_refused_as_a_tool(client: Client) -> None:
    with pytest.raises(TypeError, match=r"tools\[0\]: expected a tool"):
        client.chat("sim/openai", "x", tools=[5])  # type: ignore[list-item]


# --- reprs ------------------------------------------------------------------------------------------------------------


def test_repr_of_a_reply_is_one_short_line_and_its_str_the_text(simulator: Simulator, client: Client) -> None:
    simulator.script(turn(think("hm " * 200), say("a\n" * 400), call("weather", {"city": "Oslo"})))
    reply = client.chat("sim/anthropic", "x", tools=[weather])

    assert "\n" not in repr(reply)
    assert len(repr(reply)) < 200
    assert "weather" in repr(reply)
    assert str(reply) == reply.text == "a\n" * 400


# --- media ------------------------------------------------------------------------------------------------------------


def test_image_is_saved_to_a_file(tmp_path: Path) -> None:
    image = Image.from_bytes(PNG)
    image.save(tmp_path / "sunset.png")

    assert image.bytes == PNG == (tmp_path / "sunset.png").read_bytes()


def test_document_of_text_is_saved_as_utf8(tmp_path: Path) -> None:
    Document.from_bytes("héllo".encode()).save(tmp_path / "a.txt")

    assert (tmp_path / "a.txt").read_text("utf-8") == "héllo"


@pytest.mark.parametrize(
    ("media", "reason"),
    [
        (Image.from_url("https://example.com/a.png"), r"https://example\.com/a\.png"),
        (Audio(file_id="file_1"), "file_1"),
    ],
)
def test_media_without_content_names_its_url_or_file(media: Image | Audio, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        _ = media.bytes


# --- misused middleware -----------------------------------------------------------------------------------------------


async def one_response(request: Any, next: Any) -> Any:
    return await next(request)


def too_few(request: Any) -> Any:
    return request


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (retry, r"middleware\[1\] Retry: it is a class: call it, as in retry\(\)"),
        (one_response, r"middleware\[1\] one_response: .*response_middleware"),
        (too_few, r"middleware\[1\] too_few: it does not take \(request, next\)"),
        ("retry", r"middleware\[1\] str: it is 'retry': use a function"),
    ],
)
def test_misused_middleware_is_refused_when_it_is_passed(wrong: Any, reason: str) -> None:
    with pytest.raises(TypeError, match=reason):
        Client(middleware=[retry(1), wrong])
    with Client() as client, pytest.raises(TypeError, match=reason.replace("[1\\]", "[0\\]")):
        client.use(wrong)


def test_middleware_without_a_list_is_refused() -> None:
    with pytest.raises(TypeError, match=r"middleware: expected a list, got Retry: write middleware=\[\.\.\.\]"):
        Client(middleware=cast("Any", retry(1)))


def test_timeout_that_is_not_a_number_is_refused() -> None:
    with Client() as client, pytest.raises(TypeError, match="timeout: expected seconds, Timeouts or None, got 'soon'"):
        client.chat("sim/anthropic", "Hi", timeout=cast("Any", "soon"))


# --- changed text -----------------------------------------------------------------------------------------------------


async def upper(request: Any, next: Next) -> AsyncIterator[StreamEvent]:
    async for event in next(request):
        if isinstance(event, ContentDelta) and isinstance(event.delta, TextDelta):
            event = replace(event, delta=TextDelta(event.delta.text.upper()))
        yield event


async def without_vowels(request: Any, next: Next) -> AsyncIterator[StreamEvent]:
    async for event in next(request):
        if isinstance(event, ContentDelta) and isinstance(event.delta, TextDelta):
            event = replace(event, delta=TextDelta(event.delta.text.translate(dict.fromkeys(map(ord, "aeiouAEIOU")))))
        yield event


@response_middleware
async def signed(request: Any, next: Any) -> Any:
    response = await next(request)
    [choice] = response.choices
    message = replace(
        choice.message, blocks=(*choice.message.blocks[:-1], replace(choice.message.blocks[-1], text="S"))
    )
    return replace(response, choices=(replace(choice, message=message),))


@pytest.mark.parametrize("model", ["sim/anthropic", "sim/openai", "sim/gemini", "sim/deepseek"])
def test_changed_text_deltas_change_the_reply(simulator: Simulator, model: str) -> None:
    turns = [turn(think("hm"), say("Hi there!")) for _ in range(2)]
    simulator.script(*turns)
    with Client(providers=_providers(simulator), middleware=[upper]) as client:
        with client.stream(model, "hi") as stream:
            done = [event.part for event in stream if isinstance(event, ContentDone)]
        reply = client.chat(model, "hi")

    assert stream.reply.text == reply.text == str(reply.transcript.messages[-1]) == "HI THERE!"
    assert "".join(part.text for part in done if isinstance(part, Text)) == "HI THERE!"
    assert reply.thinking in ("", "hm")


def test_several_middleware_change_the_reply_in_their_order(simulator: Simulator) -> None:
    simulator.script(turn(say("Hi there!")))
    with Client(providers=_providers(simulator), middleware=[upper, without_vowels]) as client:
        assert client.chat("sim/anthropic", "hi").text == "H THR!"


TEXTS = st.lists(st.text(max_size=8), min_size=1, max_size=4)
CHANGES: list[Callable[[str, int], str]] = [
    lambda text, index: text.upper(),
    lambda text, index: "" if index == 1 else text,
    lambda text, index: f"<{text}>" if index else text,
    lambda text, index: text.strip(),
]


@given(TEXTS, st.lists(st.sampled_from(CHANGES), max_size=3))
def test_text_of_any_reply_is_that_of_its_deltas(texts: list[str], changes: list[Callable[[str, int], str]]) -> None:
    """However many blocks there are, with equal texts or without, and whatever several middleware change."""
    response = ChatResponse("r", "p", "m", (Choice(AssistantMessage(tuple(map(Text, texts)))),))

    async def handler(request: object) -> AsyncIterator[StreamEvent]:
        for event in replay_events(response):
            yield event

    def changing(change: Callable[[str, int], str]) -> Middleware:
        async def layer(request: ChatRequest, next: Next) -> AsyncIterator[StreamEvent]:
            async for event in next(request):
                if isinstance(event, ContentDelta) and isinstance(event.delta, TextDelta):
                    event = replace(event, delta=TextDelta(change(event.delta.text, event.part_index)))
                yield event

        return layer

    async def read() -> tuple[dict[int, str], list[str], list[str]]:
        deltas: defaultdict[int, str] = defaultdict(str)
        blocks: list[str] = []
        async for event in compose(map(changing, changes), handler)(None):
            if isinstance(event, ContentDelta) and isinstance(event.delta, TextDelta):
                deltas[event.part_index] += event.delta.text
            elif isinstance(event, ContentDone) and isinstance(event.part, Text):
                blocks.append(event.part.text)
            elif isinstance(event, MessageDone):
                done = event.response
        return deltas, blocks, [block.text for block in done.message.blocks if isinstance(block, Text)]

    deltas, blocks, reply = asyncio.run(read())

    assert blocks == reply == [deltas.get(index, "") for index in range(len(texts))]


def test_added_part_is_in_the_reply(simulator: Simulator) -> None:
    async def signing(request: Any, next: Next) -> AsyncIterator[StreamEvent]:
        async for event in next(request):
            if isinstance(event, MessageDone):
                yield ContentStart(0, 9, Text(""))
                yield ContentDelta(0, 9, TextDelta(" Yours, Ada"))
            yield event

    with Client(providers=_providers(simulator), middleware=[signing]) as client:
        simulator.script(turn(say("Hi there!")))
        assert client.chat("sim/anthropic", "hi").text == "Hi there! Yours, Ada"


def test_changed_text_is_in_the_journal(tenuto_sim: Simulator) -> None:
    tenuto_sim.script(turn(say("Hi there!")))
    with Agent("sim/anthropic", middleware=[upper], store=None) as agent:
        session = agent.session()
        session.send("hi")
        stored = b"".join(entry.body for entry in session.entries())

    assert session.text == "HI THERE!"
    assert b"HI THERE!" in stored
    assert b"Hi there!" not in stored


def test_reply_of_a_middleware_is_kept(simulator: Simulator) -> None:
    simulator.script(turn(say("Hi there!")), turn(say("Hi there!")))
    with Client(providers=_providers(simulator), middleware=[signed, upper]) as client:
        assert client.chat("sim/anthropic", "hi").text == "S"
    with Client(providers=_providers(simulator), middleware=[upper, signed]) as client:
        assert client.chat("sim/anthropic", "hi").text == "S"


def _providers(simulator: Simulator) -> dict[str, Any]:
    return {"sim": {"base_url": f"{simulator.base_url}/v1"}}


@pytest.fixture
def client(simulator: Simulator) -> Any:
    with Client(providers=_providers(simulator)) as client:
        yield client


@pytest.fixture
def simulator() -> Any:
    with Simulator() as simulator:
        yield simulator
