"""The server around the dialects: paths, keys, bodies, scripts and faults."""

from __future__ import annotations

import asyncio
import contextlib
import json

import aiohttp
import msgspec
import pytest

from tenuto.sim.dialects import load_dialect
from tenuto.sim.engine import MAX_BODY, RawRequest, SimEngine
from tenuto.sim.log import ExchangeLog
from tenuto.sim.routes import route
from tenuto.sim.script import ScriptPlayer, SlowStream, load
from tenuto.sim.server import Server
from tenuto.testing import cut, deny, drip, fail, say, stall, turn

PATHS = {
    "anthropic-messages": "/v1/messages",
    "openai-responses": "/v1/responses",
    "openai-chat": "/v1/chat/completions",
    "gemini": "/v1beta/models/gemini-2.5-pro:generateContent",
}
MODELS = {"anthropic-messages": "claude-opus-4-6", "openai-responses": "gpt-5.2", "openai-chat": "gpt-4o", "gemini": ""}


def brain(*turns, keys=None, log=None, seed="tenuto") -> SimEngine:
    return SimEngine(seed, log or ExchangeLog(), ScriptPlayer(turns), keys)


def post(path: str, body, headers=None, query=None) -> RawRequest:
    data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    return RawRequest("POST", path, headers or {}, query or {}, data)


def hello(*more: str, model: str = "claude-opus-4-6", path: str = "/v1/messages", **fields) -> dict:
    """Build a conversation in the dialect of a path."""
    texts = ("Hi", *more)
    if ":" in path and "Predict" not in path:
        roles = ["user", "model"]
        contents = [{"role": roles[at % 2], "parts": [{"text": text}]} for at, text in enumerate(texts)]
        return {"contents": contents, **fields}
    messages = [{"role": ["user", "assistant"][at % 2], "content": text} for at, text in enumerate(texts)]
    if "responses" in path:
        return {"model": model, "input": messages, **fields}
    if "Predict" in path:
        return {"messages": messages, "max_tokens": 100, "anthropic_version": "vertex-2023-10-16", **fields}
    limit = {"max_tokens": 100} if path.endswith("messages") else {}
    return {"model": model, "messages": messages, **limit, **fields}


def told(answer) -> dict:
    (body,) = answer.pieces
    return json.loads(body)


# --- which path is what -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path, dialect, named",
    [
        ("/v1/messages", "anthropic-messages", "claude-opus-4-6"),
        ("/messages", "anthropic-messages", "claude-opus-4-6"),
        ("/v1/responses", "openai-responses", "gpt-5.2"),
        ("/responses/", "openai-responses", "gpt-5.2"),
        ("/v1/chat/completions", "openai-chat", "gpt-4o"),
        ("/v1/v1/chat/completions", "openai-chat", "gpt-4o"),
        ("/v1beta/models/gemini-2.5-pro:generateContent", "gemini", "gemini-2.5-pro"),
        ("/v1/models/gemini-2.5-pro:streamGenerateContent", "gemini", "gemini-2.5-pro"),
        ("/models/gemini-2.5-pro:generateContent", "gemini", "gemini-2.5-pro"),
        ("/v1beta/gemini/gemini-3-pro-preview:generateContent", "gemini", "gemini/gemini-3-pro-preview"),
        ("/v1beta/models/gemini%2Fgemini-2.5-pro:generateContent", "gemini", "gemini/gemini-2.5-pro"),
        ("/v1/vertex/claude-opus-4-6:rawPredict", "anthropic-messages", "vertex/claude-opus-4-6"),
    ],
)
def test_a_path_says_the_dialect_and_a_version_in_front_is_optional(path, dialect, named):
    answer = brain("Hello").answer(post(path, hello(model=named, path=path)))

    assert (answer.status, route(path, {}).dialect) == (200, dialect)
    assert json.dumps(named).encode() in b"".join(answer.pieces)


@pytest.mark.parametrize(
    "path, model",
    [
        ("/v1/messages/count_tokens", "claude-opus-4-6"),
        ("/responses/input_tokens", "gpt-5.2"),
        ("/v1beta/models/gemini-2.5-pro:countTokens", ""),
    ],
)
def test_tokens_are_counted_and_take_no_turn(path, model):
    counted = told(brain(deny()).answer(post(path, hello(model=model, path=path))))

    assert 0 < next(value for value in counted.values() if isinstance(value, int)) < 20


@pytest.mark.parametrize(
    ("path", "headers"),
    [("/v1/nowhere", {}), ("/v1/nowhere", {"anthropic-version": "2023-06-01"}), ("/v1beta/nowhere", {}), ("/", {})],
)
def test_a_strange_path_is_answered_with_what_there_is(path, headers):
    answer = brain().answer(RawRequest("GET", path, headers))

    assert answer.status == 404
    assert {"/v1/chat/completions", "/_sim/log"} <= {*told(answer)["error"]["message"].replace(",", "").split()}


@pytest.mark.parametrize(
    "method, path, headers, status",
    [
        ("HEAD", "/", {}, 200),
        ("GET", "/v1/responses", {"connection": "Upgrade", "upgrade": "WebSocket"}, 426),
        ("GET", "/v1/messages", {}, 405),
        ("POST", "/v1/messages", {"host": "example.org"}, 403),
        ("POST", "/v1/messages", {"host": "localhost:80", "origin": "http://localhost"}, 403),
    ],
)
def test_other_requests_have_their_status(method, path, headers, status):
    answer = brain("Hello").answer(RawRequest(method, path, headers, body=json.dumps(hello()).encode()))

    assert answer.status == status
    assert status != 405 or "accepts POST" in told(answer)["error"]["message"]


def test_the_envelope_is_that_of_the_dialect():
    served = brain()

    assert told(served.answer(post("/v1/messages", b"{")))["type"] == "error"
    assert told(served.answer(post("/v1beta/models/gemini-2.5-pro:generateContent", b"{")))["error"]["status"]
    assert "param" in told(served.answer(post("/v1/responses", b"{")))["error"]
    assert told(served.answer(post("/v1/chat/completions", {"model": "xai", "messages": 3})))["code"]
    (array,) = served.answer(post("/v1beta/models/gemini-2.5-pro:streamGenerateContent", b"{")).pieces
    assert isinstance(json.loads(array), list)


@pytest.mark.parametrize(
    ("body", "status"), [(b"", 400), (b"{", 400), (b"[1]", 400), (b"\xff\xfe", 400), (None, 413)], ids=repr
)
@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
def test_unreadable_body_is_refused_in_the_envelope(path, body, status):
    """Bodies that are not JSON objects, and one that is too large."""
    answer = brain().answer(post(path, body))

    assert answer.status == status
    assert ("JSON" in told(answer)["error"]["message"]) == (status == 400)


def test_a_wrong_shape_and_a_broken_rule_are_told_with_their_place():
    log = ExchangeLog()
    served = brain(log=log)

    malformed = served.answer(post("/v1/messages", {"model": "claude-opus-4-6", "messages": 3}))
    broken = served.answer(post("/v1/messages", hello("")))

    assert (malformed.status, broken.status) == (400, 400)
    assert "list" in told(malformed)["error"]["message"]
    first, *_, last = log.refusals
    assert (first.rule, first.refused.pointer) == ("ANT-SHAPE", "/messages")
    assert malformed.headers["x-tenuto-rule"].startswith("ANT-SHAPE; words=")
    assert malformed.headers["x-tenuto-rule"].endswith("; pointer=/messages")
    assert last.refused.remedy
    assert last.rule in log.exercised_rules


# --- keys and accounts ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers, query",
    [
        ({"x-api-key": "k"}, {}),
        ({"authorization": "Bearer k"}, {}),
        ({"x-goog-api-key": "k"}, {}),
        ({"api-key": "k"}, {}),
        ({}, {"key": "k"}),
    ],
)
def test_a_key_is_found_wherever_it_stands(headers, query):
    call = post("/v1/messages", hello(), headers, query)

    assert call.key == "k"
    assert brain("Hello", keys={"k"}).answer(call).status == 200


@pytest.mark.parametrize("dialect", PATHS)
def test_another_key_is_refused_as_the_provider_does(dialect):
    served = brain("Hello", keys={"k"})

    body = hello(model=MODELS[dialect], path=PATHS[dialect])
    answers = [served.answer(post(PATHS[dialect], body, {"x-api-key": key})) for key in ("other", "")]

    for answer in answers:
        assert answer.status == (400 if dialect == "gemini" else 401)
        if dialect == "gemini":
            assert told(answer)["error"]["details"][0]["reason"] == "API_KEY_INVALID"
    assert brain("Hello").answer(post(PATHS[dialect], body)).status == 200


def test_a_reply_is_a_function_of_seed_request_and_account():
    def id_of(seed="tenuto", path="/v1/messages", headers=None, **fields):
        return told(brain("Hello", seed=seed).answer(post(path, hello(path=path, **fields), headers)))["id"]

    others = [id_of("x"), id_of(path="/v1/responses", model="gpt-5.2"), id_of(headers={"api-key": "k"}), id_of(top_k=3)]
    assert id_of() == id_of()
    assert len({id_of(), *others}) == 5


def test_the_wish_to_be_streamed_makes_no_other_request():
    log = ExchangeLog()
    served = brain("Hello", log=log)
    served.answer(post("/v1/messages", hello()))
    served.answer(post("/v1/messages", hello(stream=True)))

    assert len({record.digest for record in log.records}) == 1
    assert [record.stream for record in log.records] == [False, True]


# --- scripts ----------------------------------------------------------------------------------------------------------


def said(answer) -> str:
    return told(answer)["content"][0]["text"]


@pytest.mark.parametrize(("then", "third"), [("default", "Go on"), ("repeat", "one")])
def test_script_continues_after_its_end(then, third):
    script = load(json.dumps({"turns": [[{"do": "say", "text": "one"}], [{"do": "say", "text": "two"}]], "then": then}))
    served = brain(*script)

    assert said(served.answer(post("/v1/messages", hello("?", "Go on")))) == "two"
    assert said(served.answer(post("/v1/messages", hello("?", "Go on", "?", "Go on")))) == third


def statuses(served: SimEngine, count: int, **fields) -> list[int]:
    return [served.answer(post("/v1/messages", hello(**fields))).status for _ in range(count)]


def test_faults_are_counted_for_each_request():
    served = brain(turn(deny(), "ok"))

    assert statuses(served, 2) == statuses(served, 2, top_k=1) == [429, 200]
    assert statuses(brain(turn(deny(529, times=2), "ok")), 3) == [529, 529, 200]
    assert statuses(brain(turn(deny(times=0), "ok")), 3) == [429, 429, 429]
    assert statuses(brain(turn(deny(503), deny(429, times=2), "ok")), 4) == [503, 429, 429, 200]
    assert statuses(brain(turn("well", fail(500))), 2) == [500, 200]


def test_a_turn_that_only_denies_takes_no_place():
    served = brain(deny(429), "one", "two")

    assert statuses(served, 2) == [429, 200]
    assert said(served.answer(post("/v1/messages", hello("one", "Go on")))) == "two"
    assert statuses(brain(deny(429)), 2) == [429, 400]


def test_a_script_comes_as_json():
    served = brain()
    sent = {"turns": [[{"do": "say", "text": "posted"}]]}

    assert told(served.answer(post("/_sim/script", sent))) == {"scripts": 1}
    assert said(served.answer(post("/v1/messages", hello()))) == "posted"
    wrong = served.answer(post("/_sim/script", {"turns": [[{"do": "sing"}]]}))
    assert wrong.status == 400
    assert (
        "$.turns[0][0].do" in told(wrong)["error"]["message"] or "$.turns[...][...]" in told(wrong)["error"]["message"]
    )
    assert served.answer(RawRequest("DELETE", "/_sim/script")).status == 200


# --- the log ----------------------------------------------------------------------------------------------------------


def test_the_log_can_be_asked_for_and_forgotten():
    served = brain("one")
    served.answer(post("/v1/messages", hello()))
    served.answer(post("/v1/messages", hello("")))

    first, second = told(served.answer(RawRequest("GET", "/_sim/log")))["exchanges"]
    assert (first["provider"], first["model"], first["status"]) == ("anthropic", "claude-opus-4-6", 200)
    assert first["body"] == hello()
    assert "one" in first["reply"]
    assert second["refused"]["rule"] == "ANT-MSG-04"
    assert "ANT-MSG-04" in told(served.answer(RawRequest("GET", "/_sim/rules")))["exercised"]
    served.answer(RawRequest("DELETE", "/_sim/log"))
    assert told(served.answer(RawRequest("GET", "/_sim/log"))) == {"exchanges": []}
    assert told(served.answer(RawRequest("GET", "/_sim/rules"))) == {"exercised": []}


def test_the_log_is_bounded(monkeypatch):
    monkeypatch.setattr("tenuto.sim.log.MAX_RECORDS", 3)
    log = ExchangeLog()
    served = brain("one", log=log)
    for at in range(5):
        served.answer(post("/v1/messages", hello(top_k=at)))
    assert [record.body["top_k"] for record in log.records] == [2, 3, 4]

    monkeypatch.setattr("tenuto.sim.log.MAX_BYTES", 1)
    served.answer(post("/v1/messages", hello("")))
    served.answer(post("/v1/messages", hello(top_k=9)))
    assert [record.body.get("top_k") for record in log.records] == [9]
    assert [record.rule for record in log.refusals] == ["ANT-MSG-04"]
    (kept,) = log.refusals
    assert (kept.body, kept.data) == (None, b"")
    monkeypatch.setattr("tenuto.sim.log.MAX_COUNTED", 2)
    assert [log.count_attempt(digest) for digest in "aababcba"] == [0, 1, 0, 2, 1, 0, 2, 0]


def test_a_line_is_one_line_and_nothing_a_terminal_obeys():
    log = ExchangeLog()
    brain(log=log).answer(post("/v1/messages", {"model": "a\nb\x1b[31m" + "c" * 999, "messages": 3}))

    (record,) = log.records
    assert record.summary().startswith("POST /v1/messages anthropic a\ufffdb\ufffd[31mccc")
    assert len(record.summary()) < 400


@pytest.mark.parametrize("streamed", [False, True])
def test_a_stored_reply_is_found_by_its_id_and_by_that_of_an_item(streamed):
    reply = {"object": "response", "id": "resp_1", "previous_response_id": "resp_0", "output": [{"id": "msg_1"}]}
    frames = [b'event: x\ndata: {"type": "x", "text": "data: {"}\n\n'] if streamed else []
    last = {"type": "response.completed", "response": reply} if streamed else reply
    body = (b"event: response.completed\ndata: %s\n\n" if streamed else b"%s") % json.dumps(last).encode()
    own = msgspec.structs.replace(load_dialect("openai-responses"), write=lambda *_: [*frames, body])
    log = ExchangeLog()
    served = SimEngine("tenuto", log, ScriptPlayer(["x"]), None, lambda _: own)
    sent = hello(model="gpt-5.2", path="/v1/responses", stream=streamed)
    served.answer(post("/v1/responses", sent, {"api-key": "k"}))
    account = log.records[0].account

    assert log.stored("resp_1", account).response == log.stored("msg_1", account).response == reply
    assert log.stored("resp_1", account).request == sent
    assert log.stored("resp_0", account) is None
    assert log.stored("resp_1", "") is None
    log.clear()
    served.answer(post("/v1/responses", {**sent, "store": False}, {"api-key": "k"}))
    assert log.stored("resp_1", account) is None


def test_a_fault_of_the_simulator_itself_is_not_clean():
    def failing(*_):
        raise RuntimeError("a bug")

    log = ExchangeLog()
    own = msgspec.structs.replace(load_dialect("anthropic-messages"), to_turn_request=failing)
    served = SimEngine("tenuto", log, ScriptPlayer(), None, lambda _: own)
    with pytest.raises(RuntimeError, match="a bug"):
        served.answer(post("/v1/messages", hello()))

    assert [(record.status, record.refused.message) for record in log.refusals] == [
        (500, "internal error of the simulator")
    ]


# --- on a socket ------------------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def serving(*turns, **options):
    """Serve; yield the server, a session of a client, and the URL."""
    server = Server(brain(*turns), **options)
    await server.start()
    try:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as session:
            yield server, session
    finally:
        await server.stop()


def fetched(*turns, path="/v1/messages", body=None, times=1, **options):
    """Ask a server, and return what came: the status, the pieces as they were read, and how it ended."""

    async def main():
        async with serving(*turns, **options) as (_, session):
            for _ in range(times):
                pieces, ended = [], "whole"
                try:
                    async with session.post(path, json=body or hello(stream=True)) as response:
                        async for piece in response.content.iter_any():
                            pieces.append(piece)
                except aiohttp.ClientPayloadError:
                    ended = "broken"
                except aiohttp.ServerDisconnectedError:
                    return 0, [], "broken"
            return response.status, pieces, ended

    return asyncio.run(main())


def texts(data: bytes) -> list[str]:
    """Return the pieces of the text in the whole frames of a stream."""
    frames = [json.loads(frame.partition(b"data: ")[2]) for frame in data.split(b"\n\n")[:-1]]
    return [frame["delta"]["text"] for frame in frames if "text" in frame.get("delta", {})]


def test_a_stream_comes_whole():
    pieces = [f"{at} " for at in range(1000)]
    status, data, ended = fetched(turn(say(pieces)), body=hello(stream=True, max_tokens=4000))

    assert (status, texts(b"".join(data)), ended) == (200, pieces, "whole")
    assert b"".join(data).endswith(END)


A, END = say(["a"]), b'data: {"type":"message_stop"}\n\n'


@pytest.mark.parametrize(
    "steps, times, expected",
    [
        ((say(["a", "b"]), cut(), say(["c"])), 1, (200, "ab", False, "broken")),
        ((A, cut(), say(["c"])), 2, (200, "ac", True, "whole")),
        ((cut(), "never"), 1, (200, "", False, "broken")),
        ((A, fail()), 1, (200, "a", False, "whole")),
        ((A, stall(0.01), say(["b"])), 1, (200, "ab", True, "whole")),
        ((drip(20, 0.001), say(["abcd"])), 1, (200, "abcd", True, "whole")),
    ],
    ids=["cut", "cut once", "cut at the start", "failure", "short silence", "slow"],
)
def test_faults_of_a_stream(steps, times, expected):
    status, pieces, ended = fetched(turn(*steps), times=times)
    data = b"".join(pieces)

    assert (status, "".join(texts(data)), data.endswith(END), ended) == expected
    assert not isinstance(steps[0], SlowStream) or len(pieces) > 5


def test_faults_of_a_whole_reply():
    status, pieces, ended = fetched(turn("a", cut()), body=hello())
    assert (status, bool(pieces), ended) == (200, True, "broken")

    path = "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse"  # its first frame has text
    assert fetched(turn(cut(), "never"), path=path, body=hello(path=path)) == (0, [], "broken")

    status, _, ended = fetched(turn(stall(0.01), deny(503, times=0)), body=hello())
    assert (status, ended) == (503, "whole")


def test_with_a_pace_each_frame_is_written_by_itself():
    _, pieces, _ = fetched(turn(say(["a", "b", "c"])), pace=0.02)

    assert len(pieces) == b"".join(pieces).count(b"\n\n")


def test_a_silence_ends_when_the_client_goes_or_the_server_stops():
    async def main():
        async with serving(turn(A, stall())) as (server, session):
            async with session.post("/v1/messages", json=hello(stream=True)) as gone:
                assert texts(await gone.content.readany()) == ["a"]
            async with asyncio.timeout(5):
                while server._runner.server.connections:
                    await asyncio.sleep(0)
            async with session.post("/v1/messages", json=hello(stream=True)) as stays:
                assert texts(await stays.content.readany()) == ["a"]
                async with asyncio.timeout(5):
                    await server.stop()
                with pytest.raises(aiohttp.ClientPayloadError):
                    await stays.content.read()

    asyncio.run(main())


def test_a_body_beyond_the_limit_is_not_read():
    async def endless():
        for _ in range(MAX_BODY // 1_000_000 + 2):
            yield b" " * 1_000_000

    async def main():
        async with serving("Hello") as (_, session), session.post("/v1/messages", data=endless()) as response:
            assert response.status == 413
            assert (await response.json())["error"]["type"] == "request_too_large"

    asyncio.run(main())


def test_headers_are_the_provider_s_on_this_machine_only():
    async def main():
        async with serving("Hello") as (server, session):
            assert server._socket.getsockname()[0] == "127.0.0.1"
            path = "/v1beta/models/gemini-2.5-pro:streamGenerateContent"
            for url, kind in (
                ("/v1/messages?beta=true", "text/event-stream"),
                (path, "application/json"),
                (f"{path}?alt=sse", "text/event-stream"),
            ):
                fields = {"stream": True} if "messages" in url else {}
                async with session.post(url, json=hello(path=url.partition("?")[0], **fields)) as response:
                    assert response.headers["content-type"].startswith(kind)
                    assert response.headers.get("request-id", "req_").startswith("req_")

    asyncio.run(main())
