"""Run every example as a program with a local server that imitates the providers."""

from __future__ import annotations

import base64
import json
import re
import runpy
import sys
from contextlib import ExitStack
from itertools import zip_longest
from pathlib import Path

import pytest

import tenuto
from serving import Request, Server, reply, streamed
from serving.replies import named_events, unnamed_events
from tenuto.catalog import find_provider

EXAMPLES = Path(__file__).parent.parent / "examples"
ROWS = ("anthropic", "deepseek", "google", "groq", "ollama", "openai", "perplexity")
PNG = b"\x89PNG\r\n\x1a\nsunset"
BUSY = reply(b'{"error": {"message": "busy"}}', 503)

# --- replies ----------------------------------------------------------------------------------------------------------

ANSWERS = {
    "Name a prime.": "7",
    "And the next one?": "11",
    "Largest city of Norway?": '{"name": "Oslo", "population": 717710}',
    "What is this?": "A picture.",
    "Hello": "Hello! How can I help?",
    "Write a poem.": "Snow on the pier,\nno one here.",
    "And now a shorter one.": "Snow.",
    "Write a haiku.": "Old pond, a frog.",
    "Solve: x^2 + 5x + 6 = 0": "x = -2 or x = -3",
    "When was Claude Shannon born?": "On April 30, 1916.",
    "List 3 colors": '{"colors": ["red", "green", "blue"]}',
    "What is 27 * 453?": "12231",
    "Now divide that by 9.": "1359",
    "Check it.": "It is right.",
    "What is the capital of Norway?": "Oslo",
    "What is in these files?": "A photo, a paper and a logo.",
    "12 C in Oslo 12 F in Bergen": "12 degrees in both, of different kinds.",
    "Divide that by 9.": "1359",
    "12 degrees in Oslo": "Bring a coat.",
}
REASONING = "Let me factor: (x+2)(x+3)=0."
CALLS = {
    "Weather in New York?": [("get_weather", {"city": "New York"})],
    "Weather in Oslo and Bergen?": [("weather", {"city": "Oslo"}), ("weather", {"city": "Bergen", "unit": "F"})],
    "Weather in Oslo?": [("weather", {"city": "Oslo"})],
}
PARTS = {
    "Generate an image of a sunset and explain it.": [
        {"text": "The sun goes down."},
        {"inlineData": {"mimeType": "image/png", "data": base64.b64encode(PNG).decode()}},
    ],
    "What is the 20th prime? Run code.": [
        {"executableCode": {"language": "PYTHON", "code": "print(prime(20))"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "71"}},
        {"text": "It is 71."},
    ],
}


TEXT_FIELDS = ("text", "content", "parts", "functionResponse", "response", "output")


def find_prompt(body):
    """Return the text of the last message in any dialect."""
    last = (body.get("messages") or body.get("contents") or body.get("input"))[-1]
    return " ".join(_find_texts(last))


def _find_texts(content):
    if isinstance(content, list):
        return [text for part in content for text in _find_texts(part)]
    if isinstance(content, dict):
        return [text for name in TEXT_FIELDS for text in _find_texts(content.get(name))]
    return [content] if isinstance(content, str) else []


# --- dialects ---------------------------------------------------------------------------------------------------------


def chat(row, body):
    prompt = find_prompt(body)
    message = {"role": "assistant", "content": ANSWERS.get(prompt)}
    if row == "deepseek":
        assert "high" == body["reasoning_effort"]
        message["reasoning_content"] = REASONING
    if prompt in CALLS:
        assert [tool["function"]["name"] for tool in body["tools"]] == [name for name, _ in CALLS[prompt]]
        message["tool_calls"] = [
            {"id": f"call_{at}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
            for at, (name, arguments) in enumerate(CALLS[prompt])
        ]
    sources = {"citations": ["https://a.test"], "search_results": [{"title": "A life", "url": "https://a.test"}]}
    return {
        "id": "c1",
        "model": body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 7, "total_tokens": 16},
        **(sources if row == "perplexity" else {}),
    }


def responses(row, body):
    text = ANSWERS[find_prompt(body)]
    if text.startswith("{"):
        assert "json_schema" == body["text"]["format"]["type"]
    content = [{"type": "output_text", "text": text, "annotations": []}]
    output = [{"id": "m1", "type": "message", "role": "assistant", "status": "completed", "content": content}]
    usage = {"input_tokens": 9, "output_tokens": 7, "total_tokens": 16}
    return {"id": "r1", "model": body["model"], "status": "completed", "output": output, "usage": usage}


def gemini(row, body):
    prompt = find_prompt(body)
    calls = [{"functionCall": {"name": name, "args": arguments}} for name, arguments in CALLS.get(prompt, ())]
    parts = PARTS.get(prompt) or calls or [{"text": ANSWERS[prompt]}]
    counts = {"promptTokenCount": 9, "candidatesTokenCount": 7, "totalTokenCount": 16}
    candidates = [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}]
    return {"responseId": "g1", "modelVersion": "m", "candidates": candidates, "usageMetadata": counts}


def anthropic(row, body):
    prompt = find_prompt(body)
    blocks = [{"type": "thinking", "thinking": "Hm.", "signature": "c2lnbmVk"}] if "thinking" in body else []
    for at, (name, arguments) in enumerate(CALLS.get(prompt, ())):
        assert body["tools"][0]["input_schema"]["properties"].keys() >= arguments.keys()
        blocks.append({"type": "tool_use", "id": f"toolu_{at}", "name": name, "input": arguments})
    if prompt not in CALLS:
        found = next(text for start, text in ANSWERS.items() if prompt.startswith(start))
        blocks.append({"type": "text", "text": found})
    usage = {"input_tokens": 9, "output_tokens": 7, "cache_read_input_tokens": 2}
    stop = "tool_use" if prompt in CALLS else "end_turn"
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": body["model"]}
    return {**message, "content": blocks, "stop_reason": stop, "usage": usage}


def write_stream(message):
    """Write a stream of the Messages dialect, each text as two deltas."""
    events = [{"type": "message_start", "message": {**message, "content": [], "stop_reason": None}}]
    for at, block in enumerate(message["content"]):
        kind = block["type"]
        events.append({"type": "content_block_start", "index": at, "content_block": {"type": kind, kind: ""}})
        deltas = [{"type": f"{kind}_delta", kind: delta} for delta in (block[kind][:5], block[kind][5:])]
        deltas += [{"type": "signature_delta", "signature": block["signature"]}] if "signature" in block else []
        events += [{"type": "content_block_delta", "index": at, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": at})
    events.append(
        {"type": "message_delta", "delta": {"stop_reason": message["stop_reason"]}, "usage": {"output_tokens": 7}}
    )
    return streamed(named_events(*events, {"type": "message_stop"}))


WRITERS = {
    "/chat/completions": chat,
    "/responses": responses,
    "/messages": anthropic,
    ":generateContent": gemini,
    ":streamGenerateContent?alt=sse": gemini,
    "/embeddings": lambda row, body: {
        "data": [{"index": at, "embedding": [1.0, at, 0.0]} for at in range(len(body["input"]))],
        "usage": {"prompt_tokens": 4, "total_tokens": 4},
    },
    "/messages/count_tokens": lambda row, body: {"input_tokens": 14},
    "/models?limit=1000": lambda row, body: {"data": [{"id": "claude-sonnet-4-6", "max_input_tokens": 1000000}]},
}


def answer(request: Request):
    """Respond as the provider in the first part of the path."""
    row = request.path.split("/")[1]
    headers = request.headers
    key = headers.get("x-api-key") or headers.get("x-goog-api-key") or headers["authorization"].removeprefix("Bearer ")
    if not re.fullmatch("my-key|token-[0-9a-f]{8}" if row == "mine" else f"key-of-{row}", key):
        error = {"type": "error", "error": {"type": "authentication_error", "message": "invalid x-api-key"}}
        return reply(json.dumps(error).encode(), 401, request_id="req_7")
    body = request.json() if request.body else {}
    if body.get("model") == "gpt-0":
        return reply(b'{"error": {"message": "no gpt-0", "code": "model_not_found"}}', 404)
    if (row, body.get("model")) == ("groq", "llama-3.3-70b-versatile") and "tools" not in body:
        return reply(b'{"error": {"message": "slow down"}}', 429, retry_after="7")
    writer = next(WRITERS[end] for end in sorted(WRITERS, key=len, reverse=True) if request.path.endswith(end))
    error = writer(row, body)
    if body.get("stream"):
        return write_stream(error)
    return streamed(unnamed_events(error)) if "alt=sse" in request.path else reply(json.dumps(error).encode())


# --- the examples -----------------------------------------------------------------------------------------------------

PRINTED = {
    "agent": [
        "12 degrees in Oslo",
        "4 messages, completed",
        "-> 12 degrees in Oslo",
        "12 degrees in Oslo",
        "1 8",
    ],
    "handover": [
        "12 degrees in Oslo",
        "True {'kept': 3, 'dropped': 2, 'stripped': 1}",
        "messages[1].blocks[0] foreign-token",
        "messages[1].blocks[0] foreign-reasoning",
        "messages[1].blocks[1] foreign-fields",
        "messages[3].blocks[0] foreign-token",
        "messages[3].blocks[0] foreign-reasoning",
        "12 degrees in Oslo",
        "12 degrees in Oslo",
        "True 6 requests reproduced",
    ],
    "approval": [
        """waiting approval ['{"amount":500,"to":"Bob"}']""",
        "completed Done.",
        "paid 50 to Ada",
        "pay was not run: That is too much.",
    ],
    "subagents": [
        "the reader: completed",
        "About two meters, says the reader.",
        "['sub_session_linked', 'call_started', 'call_finished']",
    ],
    "simulator": [
        "Bring a coat.",
        "True True",
        "sim/anthropic/claude-opus-4-6: HTTP 400: messages.1.content.0: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be mod...",
    ],
    "async_client": [
        "anthropic: Hello! How can I help?",
        "openai: Hello! How can I help?",
        "google: Hello! How can I help?",
        "Old pond, a frog.",
    ],
    "chat": ["Hello! How can I help?", "text: Hello! How can I help?", "stop Usage(input_tokens=9, ..."],
    "citations": ["On April 30, 1916.", "Source: A life: https://a.test"],
    "counting": [
        "claude-sonnet-4-6: context window of 1000000 tokens",
        "the prompt has 14 tokens",
        "11 tokens in (2 from a cache), 7 out",
        "cost: 0.0...",
    ],
    "embed": ["3 dimensions, similarity 0.71, 4 tokens"],
    "errors": [
        "openai/gpt-5.2: Hello! How can I help?",
        "openai/gpt-0: model not found",
        "anthropic/claude-sonnet-4-6: anthropic rejected the key (request req_7)",
        "groq/llama-3.3-70b-versatile: rate limit, retry in 7.0 s",
        "opnai/gpt: unknown provider, did you mean openai...",
    ],
    "fallback": ["anthropic/claude-sonnet-4-6 answered: Hello! How can I help?"],
    "files": ["A photo, a paper and a logo."],
    "middleware": [
        "log: openai/gpt-5.2 ok",
        "deltas of openai/gpt-5.2: 1",
        "Oslo for 0.0...",
        "log: openai/gpt-5.2 ok",
        "Oslo for 0 USD",
        "remaining: 0.99...",
    ],
    "multimodal": [
        "The sun goes down.",
        "sunset.png: image/png",
        "Code: print(prime(20))",
        "Output: 71",
        "It is 71.",
    ],
    "custom_provider": ["custom: Hello! How can I help?", "mine:   Hello! How can I help?"],
    "reasoning": [f"reasoning: {REASONING}", "answer:    x = -2 or x = -3"],
    "stream": ["Snow on the pier,", "no one here.", "usage: Usage(input_tokens=9, ...", "Snow."],
    "structured": ["red", "green", "blue", "replies: 1"],
    "testing": ["passed"],
    "tool_loop": ["tool:  12 C in Oslo", "tool:  12 F in Bergen", "model: 12 degrees in both, of different kinds."],
    "tools": ["get_weather {'city': 'New York'}"],
    "transcript": [
        "anthropic: 12231",
        "openai: 1359",
        "   lost: AnthropicMeta (messages[2].blocks[0])",
        "   lost: 3 characters of reasoning (messages[2].blocks[0])",
        "anthropic: It is right.",
        "   lost: ...",
        "   lost: ...",
        "7 messages",
    ],
}
"""The lines that each example prints. The text after three dots may change with prices and the catalog."""
SCRIPTS = {"fallback": (BUSY, answer)}


@pytest.fixture
def serve(monkeypatch, tmp_path):
    """Start a server, set it as the base URL of each provider, and change to a temporary directory."""
    with ExitStack() as stack:

        def serve(*script):
            server = stack.enter_context(Server(*script))
            for row in map(find_provider, ROWS):
                monkeypatch.setenv(row.key_env[0], f"key-of-{row.name}")
                monkeypatch.setenv(row.base_url_env[0], f"{server.url}/{row.name}")
            monkeypatch.setenv("MY_BASE_URL", f"{server.url}/mine")
            monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")  # no request may leave the machine
            monkeypatch.setenv("no_proxy", "127.0.0.1")
            monkeypatch.chdir(tmp_path)
            return server

        yield serve


@pytest.fixture
def run(serve, monkeypatch, capsys):
    """Run an example; return its output, its errors and the requests."""

    def run(name, *arguments):
        server = serve(*SCRIPTS.get(name, (answer,)))
        path = str(EXAMPLES / f"{name}.py")
        monkeypatch.setattr(sys, "argv", [path, *arguments])
        runpy.run_path(path, run_name="__main__")
        captured = capsys.readouterr()
        return captured.out.splitlines(), captured.err, server.requests

    return run


def test_every_example_has_expected_output():
    """No example has the name of a module of the standard library."""
    names = {path.stem for path in EXAMPLES.glob("*.py")} - {"__init__", "demo", "demo_tools"}

    assert names == PRINTED.keys()
    assert set() == names & sys.stdlib_module_names


@pytest.mark.parametrize("name", sorted(PRINTED.keys() - {"files"}))
def test_example_prints_expected_output(run, name):
    out, _, _ = run(name)

    assert PRINTED[name] == [
        shorten(line, expected) for line, expected in zip_longest(out, PRINTED[name], fillvalue="")
    ]


def shorten(line, expected):
    """Return `expected` if the line starts with its text before the three dots."""
    start = expected.removesuffix("...")
    return expected if line.startswith(start) and start != expected else line


def test_stream_example_prints_reasoning_to_stderr(run):
    """The signed thinking block is part of the transcript."""
    _, err, requests = run("stream")

    assert "Hm." == err
    assert [{"type": "thinking", "thinking": "Hm.", "signature": "c2lnbmVk"}] == [
        block for block in requests[1].json()["messages"][1]["content"] if block["type"] == "thinking"
    ]


def test_transcript_example_sends_signature_only_to_its_provider(run):
    _, _, requests = run("transcript")

    assert "c2lnbmVk" not in requests[1].body.decode()
    assert "c2lnbmVk" in requests[2].body.decode()


def test_multimodal_example_saves_the_image(run, tmp_path):
    run("multimodal")

    assert PNG == (tmp_path / "sunset.png").read_bytes()


def test_files_example_attaches_arguments_or_itself(run, tmp_path):
    (tmp_path / "photo.png").write_bytes(PNG)
    (tmp_path / "paper.pdf").write_bytes(b"%PDF-1.7\n")

    out, _, with_arguments = run("files", "photo.png", "paper.pdf")
    _, _, without_arguments = run("files")

    assert PRINTED["files"] == out
    kinds = [
        [part["type"] for part in find_prompt[0].json()["messages"][0]["content"]]
        for find_prompt in (with_arguments, without_arguments)
    ]
    assert [["text", "image", "document", "image"], ["text", "document", "image"]] == kinds
    assert "Attach images and documents" in without_arguments[0].body.decode()


def test_custom_provider_example_sends_its_fields_and_keys(run):
    _, _, requests = run("custom_provider")

    assert "[A-Z].*" == requests[1].json()["guided_regex"]
    assert "blue" == requests[1].headers["x-team"]
    assert ["Bearer my-key", "Bearer token-"] == [request.headers["authorization"][:13] for request in requests]


@pytest.mark.parametrize("name", sorted(PRINTED))
def test_example_models_are_not_retired(name):
    rows = "|".join(ROWS)
    models = re.findall(rf'"((?:{rows})/[\w.-]+)"', (EXAMPLES / f"{name}.py").read_text("utf-8"))
    traits = [tenuto.resolve(model).traits for model in models]

    assert [] == [trait.pattern for trait in traits if trait.retires and trait.retires <= trait.as_of]
