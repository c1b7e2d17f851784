"""Real model names without a network: `override` and `TENUTO_OFFLINE`."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading

import pytest

from serving import Server, reply
from tenuto import AsyncClient, Client, Image, LLMError, Provider, TenutoError, Transcript, user
from tenuto.catalog import PROVIDERS
from tenuto.catalog.models import model_rows
from tenuto.client.http import HttpRequest
from tenuto.client.routing import LocalSimulator, simulator_for
from tenuto.client.transport import AiohttpTransport
from tenuto.errors import AuthenticationFailed, BadRequest, MissingKey, NetworkForbidden
from tenuto.rules.issued_tokens import content_digest
from tenuto.testing import ScriptedTransport, Simulator, call, override, say, think, turn

REAL = sorted(name for name, row in PROVIDERS.items() if not (row.plays or row.retired))
CLAUDE = "anthropic/claude-sonnet-5-5"
DIALECTS = ("anthropic-messages", "openai-responses", "openai-chat", "gemini")
ANSWER = {"id": "1", "model": "m", "choices": [{"index": 0, "message": {"content": "ok"}, "finish_reason": "stop"}]}


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch):
    names = [n for row in PROVIDERS.values() for n in (*row.key_env, *row.bearer_env, *row.base_url_env)]
    for name in (*names, *(n for row in PROVIDERS.values() for values in row.fill.values() for n in values)):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def ai():
    with Client(middleware=[], on_loss="keep") as client:
        yield client


def send(url: str) -> int:
    """Send a request through the transport of the network; return its status."""

    async def run() -> int:
        transport = AiohttpTransport()
        try:
            response = await transport.send(HttpRequest("GET", url, {}))
            response.close()
            return response.status
        finally:
            await transport.close()

    return asyncio.run(run())


# --- every provider ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", REAL)
def test_override_answers_as_each_provider(ai, tenuto_sim, name):
    row = PROVIDERS[name]
    models = [id for model in model_rows(row.name) for id in model.ids]
    model = row.default_model or (models or ["gemini-4-argon"])[0]
    tenuto_sim.script(turn(think("hm"), say("Hello.")), turn(say("Again.")))
    first = ai.chat(f"{name}/{model}", "Hi")
    with ai.stream(f"{name}/{model}", first.transcript + "And?") as stream:
        second = stream.drain()
    origin = first.message.origin

    assert (first.text.strip(), second.text.strip()) == ("Hello.", "Again.")
    assert (first.response.provider, first.response.model) == (row.name, model)
    assert (origin.provider, origin.model, "127.0.0.1" in origin.platform) == (row.name, model, False)
    assert {record.provider for record in tenuto_sim.requests} == {"gemini" if row.name == "google" else row.name}
    tenuto_sim.assert_clean()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_override_imitates_a_plain_server_for_a_custom_provider(tenuto_sim, dialect):
    settings = {"base_url": "https://models.example/v1", "dialect": dialect}
    tenuto_sim.script("Hello.")
    with Client(providers={"mine": settings, "groq": settings}, middleware=[]) as ai:
        replies = [ai.chat(f"{name}/gpt-oss-mine", "Hi") for name in ("mine", "groq")]
        ai.models("mine")

    assert [reply.response.provider for reply in replies] == ["mine", "groq"]
    assert [(record.provider, record.model) for record in tenuto_sim.requests[:2]] == [
        ("mine", "gpt-oss-mine"),
        ("groq", "gpt-oss-mine"),
    ]
    tenuto_sim.assert_clean()


def test_override_applies_the_rules_of_the_provider(ai, tenuto_sim):
    tenuto_sim.script("Hello.")
    with pytest.raises(BadRequest, match="logprobs"):
        ai.chat("groq/openai/gpt-oss-120b", "Hi", extra_body={"logprobs": True})

    assert tenuto_sim.requests[-1].rule == "OAC-GROQ-04"
    assert ai.chat("cerebras/gpt-oss-120b", "Hi", extra_body={"logprobs": True}).text == "Hello."


def test_override_leaves_the_price_of_the_model(ai, tenuto_sim):
    assert ai.chat(CLAUDE, "Hi").cost > ai.chat("sim/anthropic/claude-sonnet-5-5", "Hi").cost == 0


def test_override_serves_the_other_operations(ai, tenuto_sim):
    groq = [model.id for model in ai.models("groq")]

    assert "openai/gpt-oss-120b" in groq
    assert not any(id.startswith("groq") for id in groq)
    assert "claude-sonnet-5-5" in [model.id for model in ai.models("anthropic")]
    assert len(ai.embed("openai/text-embedding-3-small", ["a", "b"]).embeddings) == 2
    assert ai.count_tokens(CLAUDE, "Hi") > 0
    tenuto_sim.assert_clean()


def test_tokens_survive_a_change_of_providers(ai, tenuto_sim):
    tenuto_sim.script(turn(think("hm"), call("f")), turn(think("so"), say("1")), turn(say("2")))
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}]
    options = {"tools": tools, "effort": "high"}
    one = ai.chat(CLAUDE, "Hi", **options)
    two = ai.chat("openai/gpt-5.2", [*one.transcript, one.tool_calls[0].answer("x")], **options)
    ai.chat(CLAUDE, two.transcript + "And?", **options)
    sent = tenuto_sim.requests[-1].body["messages"][1]["content"]

    assert "thinking" in {block["type"] for block in sent}
    assert {loss.kind for loss in two.losses} >= {"foreign-reasoning"}
    tenuto_sim.assert_clean()


def test_clients_with_other_keys_have_other_accounts(tenuto_sim):
    tenuto_sim.script(turn(think("hm"), say("1")), turn("2"))
    with Client(keys={"anthropic": "a"}) as one, Client(keys={"anthropic": "b"}, on_loss="keep") as other:
        begun = one.chat(CLAUDE, "Hi", effort="high").transcript + "And?"

        assert one.chat(CLAUDE, begun, effort="high").losses == ()
        assert [loss.kind for loss in other.chat(CLAUDE, begun, effort="high").losses] == [
            "foreign-token",
            "foreign-reasoning",
        ]


def test_override_uses_no_key_of_the_environment(monkeypatch):
    def key() -> str:
        raise AssertionError("a key function may use the network")

    monkeypatch.setenv("OPENAI_API_KEY", "sk-real")
    with Simulator(keys={"made-up", "mine"}) as simulator, override(simulator):
        with Client(keys={"groq": key, "mistral": "mine", "xai": "wrong"}, middleware=[]) as ai:
            for model in ("openai/gpt-5.2", "groq/openai/gpt-oss-120b", "mistral/mistral-large-4", CLAUDE):
                ai.chat(model, "Hi")
            with pytest.raises(AuthenticationFailed):
                ai.chat("xai/grok-4.6", "Hi")
        accounts = [record.account for record in simulator.requests]

    assert accounts == [content_digest(key) for key in ("made-up", "made-up", "mine", "made-up", "wrong")]


# --- which simulator --------------------------------------------------------------------------------------------------


def test_override_is_read_for_each_request(ai):
    with pytest.raises(MissingKey):
        ai.chat(CLAUDE, "Hi")
    with Simulator(script=["one"]) as first, Simulator(script=["two"]) as second, override(first) as entered:
        assert entered is first
        texts = [ai.chat(CLAUDE, "Hi").text]
        with override(second):
            texts += [ai.chat(CLAUDE, "Hi").text, ai.chat("sim/openai", "Hi").text]
        texts.append(ai.chat(CLAUDE, "Hi").text)
    with pytest.raises(MissingKey):
        ai.chat(CLAUDE, "Hi")

    assert texts == ["one", "two", "two", "one"]


def test_override_ends_after_an_error_and_in_any_order():
    with Simulator() as first, Simulator() as second:
        one, two = override(first), override(second)
        one.__enter__()
        two.__enter__()
        one.__exit__(None, None, None)
        assert simulator_for("https://api.example") == second.base_url
        two.__exit__(None, None, None)
        with pytest.raises(KeyError), override(first):
            raise KeyError
        assert simulator_for("https://api.example") == ""
    with pytest.raises(RuntimeError, match="not running"), override(first):
        pass


def test_override_applies_to_all_threads(tenuto_sim):
    tenuto_sim.script("Hello.")
    texts = []

    def work() -> None:
        with Client() as ai:
            texts.append(ai.chat(CLAUDE, "Hi").text)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert texts == ["Hello."] * 4


def test_client_keeps_its_own_simulator(tenuto_sim):
    with Simulator(script=["own"]) as own, Client(providers={"sim": {"base_url": own.base_url}}) as ai:
        assert ai.chat("sim/anthropic", "Hi").text == "own"
        assert ai.chat(CLAUDE, "Hi").text != "own"


def test_custom_simulator_row_is_overridden(tenuto_sim):
    stage = Provider("stage", "openai-chat", "https://stage.example/v1", plays=("anthropic",), auth="none")
    with Client(providers=[stage]) as ai:
        ai.chat("stage/anthropic/claude-opus-4-6", "Hi")

    assert [(r.provider, r.model) for r in tenuto_sim.requests] == [("anthropic", "claude-opus-4-6")]


# --- other hosts ------------------------------------------------------------------------------------------------------


def test_fetch_of_another_host_is_forbidden(ai, tenuto_sim):
    url = "https://me:password@example.com/a.png?key=secret"
    with pytest.raises(NetworkForbidden) as caught:
        send(url)
    with pytest.raises(NetworkForbidden, match=r"https://example\.com/b\.png"):
        ai.fetch(Transcript((user("What is it?", Image(url="https://example.com/b.png")),)))

    assert caught.value.url == "https://example.com/a.png"
    assert "https://example.com/a.png" in str(caught.value)
    assert not any(secret in str(caught.value) for secret in ("password", "secret"))


def test_only_listed_hosts_are_reached(tenuto_sim):
    with Server(reply(b"{}")) as server:
        host = server.url.partition("://")[2]
        with pytest.raises(NetworkForbidden):
            send(server.url)
        assert server.requests == []
        for network in ([host], host, ["127.0.0.1"], True):
            with override(tenuto_sim, network=network):
                assert send(server.url) == 200
        with override(tenuto_sim, network=["127.0.0.2", "other.example"]), pytest.raises(NetworkForbidden):
            send(server.url)

        assert send(tenuto_sim.base_url + "/v1/models") == 200


def test_simulator_host_is_forbidden_after_client_is_closed(tenuto_sim):
    with Server(reply(b"{}")) as server:
        with Client(providers={"sim": {"base_url": server.url}}) as client:
            with contextlib.suppress(TenutoError):
                client.chat("sim/chat", "Hi")
            assert send(server.url) == 200
        with pytest.raises(NetworkForbidden):
            send(server.url)


def test_simulator_host_is_forbidden_after_client_is_lost(tenuto_sim):
    with Server(reply(b"{}")) as server:
        simulator = LocalSimulator(server.url)
        asyncio.run(simulator.url())
        assert send(server.url) == 200
        del simulator
        gc.collect()
        with pytest.raises(NetworkForbidden):
            send(server.url)


def test_provider_at_a_listed_host_is_not_simulated(tenuto_sim):
    with Server(reply(b'{"error": {"message": "mine"}}', 400)) as server:
        row = Provider("mine", "openai-chat", f"{server.url}/v1", auth="none")
        network = override(tenuto_sim, network=[server.url.partition("://")[2]])
        with network, Client(providers=[row]) as ai, pytest.raises(BadRequest, match="mine"):
            ai.chat("mine/m", "Hi")


# --- TENUTO_OFFLINE ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [CLAUDE, "azure/gpt-6-astra", "ollama/gpt-oss", "mine/m"])
@pytest.mark.parametrize("key", ["", "k"])
def test_offline_process_sends_nothing_to_a_provider(monkeypatch, model, key):
    monkeypatch.setenv("TENUTO_OFFLINE", "1")
    keys = {"anthropic": key, "azure": key} if key else {}
    client = Client(providers={"mine": {"base_url": "https://mine.example"}}, keys=keys)
    with client, pytest.raises(NetworkForbidden, match=r"tenuto_sim.*sim/"):
        client.chat(model, "Hi")


def test_offline_process_uses_simulators_of_this_machine(monkeypatch, ai, tenuto_sim):
    monkeypatch.setenv("TENUTO_OFFLINE", "1")
    assert ai.chat(CLAUDE, "Hi").text
    assert ai.chat("sim/anthropic", "Hi").text
    with override(tenuto_sim, network=True), pytest.raises(NetworkForbidden):
        send("http://127.0.0.1:9/")


def test_offline_process_starts_its_own_simulator(monkeypatch, ai):
    monkeypatch.setenv("TENUTO_OFFLINE", "1")
    monkeypatch.delenv("TENUTO_SIM_URL", raising=False)
    assert ai.chat("sim/anthropic", "Hi").text
    monkeypatch.setenv("TENUTO_SIM_URL", "http://sim.example:8459")
    with pytest.raises(NetworkForbidden, match=r"sim\.example"):
        ai.chat("sim/anthropic", "Hi")


@pytest.mark.parametrize("value", ["", "0"])
def test_offline_is_off_when_empty_or_zero(monkeypatch, value):
    monkeypatch.setenv("TENUTO_OFFLINE", value)
    with Server(reply(b"{}")) as server:
        assert send(server.url) == 200


def test_offline_process_may_use_another_transport(monkeypatch):
    monkeypatch.setenv("TENUTO_OFFLINE", "1")
    with Client(transport=ScriptedTransport(ANSWER), keys={"groq": "k"}) as ai:
        assert ai.chat("groq/openai/gpt-oss-120b", "Hi").text == "ok"


def test_forbidden_request_is_not_repeated(monkeypatch):
    monkeypatch.setenv("TENUTO_OFFLINE", "1")

    async def run() -> None:
        async with AsyncClient(keys={"groq": "k"}) as ai:
            await ai.chat("groq/openai/gpt-oss-120b", "Hi")

    with pytest.raises(NetworkForbidden) as caught:
        asyncio.run(run())
    assert not isinstance(caught.value, LLMError)
