"""The official clients with the same server: they read the same text, calls and usage."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import anthropic
import openai
import pytest
from google import genai
from google.genai import errors, types

from serving import Request, Server, replies, reply, streamed
from serving.client import QUICK, row
from tenuto import Client
from tenuto.errors import BadRequest


class Result(NamedTuple):
    """The content of a reply in a client."""

    text: str
    calls: list[tuple[str, str, Any]]
    prompt_tokens: int
    completion_tokens: int


EXPECTED = Result(
    replies.TEXT,
    [(replies.CALL_ID, replies.TOOL, replies.ARGUMENTS)],
    replies.INPUT_TOKENS,
    replies.OUTPUT_TOKENS,
)
TURN: Any = [{"role": "user", "content": "Weather?"}]


# --- official clients ------------------------------------------------------------------------------------------------


def anthropic_client(url: str, *, stream: bool) -> Result:
    with anthropic.Anthropic(base_url=url, api_key="k", max_retries=0) as theirs:
        parameters: dict[str, Any] = {"model": "m", "max_tokens": 9, "messages": TURN}
        if stream:
            with theirs.messages.stream(**parameters) as events:
                message = events.get_final_message()
        else:
            message = theirs.messages.create(**parameters)
    text = "".join(block.text for block in message.content if block.type == "text")
    calls = [(block.id, block.name, block.input) for block in message.content if block.type == "tool_use"]
    return Result(text, calls, message.usage.input_tokens, message.usage.output_tokens)


def responses(url: str, *, stream: bool) -> Result:
    with openai.OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0) as theirs:
        if stream:
            with theirs.responses.create(model="m", input="Weather?", stream=True) as events:
                (response,) = [event.response for event in events if event.type == "response.completed"]
        else:
            response = theirs.responses.create(model="m", input="Weather?")
    calls = [
        (item.call_id, item.name, json.loads(item.arguments))
        for item in response.output
        if item.type == "function_call"
    ]
    return Result(response.output_text, calls, response.usage.input_tokens, response.usage.output_tokens)


def chat(url: str, *, stream: bool) -> Result:
    with openai.OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0) as theirs:
        if stream:
            with theirs.chat.completions.stream(
                model="m", messages=TURN, stream_options={"include_usage": True}
            ) as events:
                completion = events.get_final_completion()
        else:
            completion = theirs.chat.completions.create(model="m", messages=TURN)
    message = completion.choices[0].message
    calls = [(call.id, call.function.name, json.loads(call.function.arguments)) for call in message.tool_calls]
    return Result(message.content, calls, completion.usage.prompt_tokens, completion.usage.completion_tokens)


def gemini(url: str, *, stream: bool) -> Result:
    with genai.Client(api_key="k", http_options=types.HttpOptions(base_url=url, api_version="v1beta")) as theirs:
        if stream:
            chunks = list(theirs.models.generate_content_stream(model="m", contents="Weather?"))
        else:
            chunks = [theirs.models.generate_content(model="m", contents="Weather?")]
    parts = [part for chunk in chunks for part in chunk.candidates[0].content.parts]
    text = "".join(part.text for part in parts if part.text and not part.thought)
    calls = [(p.function_call.id, p.function_call.name, p.function_call.args) for p in parts if p.function_call]
    usage = chunks[-1].usage_metadata
    written = usage.candidates_token_count + usage.thoughts_token_count
    return Result(text, calls, usage.prompt_token_count, written)


THEIRS: dict[str, Callable[..., Result]] = {
    "anthropic-messages": anthropic_client,
    "openai-responses": responses,
    "openai-chat": chat,
    "gemini": gemini,
}


# --- tenuto ----------------------------------------------------------------------------------------------------------


def ours(url: str, dialect: str, *, stream: bool) -> Result:
    with Client(providers=[row(url, dialect)], middleware=[], timeout=QUICK) as ai:
        if stream:
            with ai.stream("mine/m", "Weather?") as events:
                for _ in events:
                    pass
                answer = events.reply
        else:
            answer = ai.chat("mine/m", "Weather?")
    calls = [(call.id, call.name, call.parse()) for call in answer.tool_calls]
    return Result(answer.text, calls, answer.usage.prompt_tokens, answer.usage.completion_tokens)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("dialect", replies.DIALECTS)
def test_official_client_reads_the_same_reply(dialect, stream):
    """Method, path and prompt are equal, too."""
    answer = streamed(replies.events(dialect)) if stream else reply(replies.body(dialect))

    with Server(answer) as server:
        theirs = THEIRS[dialect](server.url, stream=stream)
        mine = ours(server.url, dialect, stream=stream)
        they, we = server.requests

    assert theirs == mine == EXPECTED
    assert (we.method, we.path) == (they.method, they.path)
    assert we.json().get("stream", False) == they.json().get("stream", False) == (stream and dialect != "gemini")
    assert prompt_of(we) == prompt_of(they)


def prompt_of(request: Request) -> str:
    """Return the prompt of a request in any dialect."""
    body = request.json()
    if "contents" in body:
        return str(body["contents"][-1]["parts"][0]["text"])
    if isinstance(body.get("input"), str):
        return str(body["input"])
    content = (body.get("messages") or body["input"])[-1]["content"]
    return content if isinstance(content, str) else content[0]["text"]


@pytest.mark.parametrize("dialect", replies.DIALECTS)
def test_official_client_raises_for_the_same_refusal(dialect):
    """With the same HTTP status."""
    with Server(reply(b'{"error": {"message": "no", "type": "x", "code": 400, "status": "x"}}', 400)) as server:
        with pytest.raises((anthropic.APIStatusError, openai.APIStatusError, errors.APIError)) as theirs:
            THEIRS[dialect](server.url, stream=False)
        with pytest.raises(BadRequest) as mine:
            ours(server.url, dialect, stream=False)

    their_status = getattr(theirs.value, "status_code", None) or getattr(theirs.value, "code", None)
    assert mine.value.status == their_status == 400
