"""The row `sim`: it imitates the other rows, its tokens are valid at any URL, and the client finds or starts it."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import subprocess
import sys
import threading
import warnings
from decimal import Decimal

import pytest

from tenuto import AsyncClient, Client, LLMError, Provider, TenutoError, catalog, tool
from tenuto.client.routing import Router
from tenuto.errors import UnsupportedModel
from tenuto.sim import Simulator
from tenuto.sim.providers import all_providers

STYLE_NAMES = catalog.PROVIDERS["sim"].plays


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch):
    for name in ("TENUTO_SIM_URL", "TENUTO_SIM_PACE", "TENUTO_SIM_SEED", "TENUTO_SIM_SCRIPT"):
        monkeypatch.delenv(name, raising=False)


def threads() -> int:
    return threading.active_count()


# --- imitated rows ---------------------------------------------------------------------------------------------------


def test_sim_imitates_every_dialect():
    assert set(STYLE_NAMES) == {provider.name for provider in all_providers()}
    assert len(set(STYLE_NAMES)) == len(STYLE_NAMES)


@pytest.mark.parametrize("name", STYLE_NAMES)
def test_dialect_without_provider_is_the_imitated_row(name):
    """Its dialect, switches, headers and embeddings; name, URL and authentication are those of the simulator."""
    target = catalog.resolve(f"sim/{name}")
    row, real = target.provider, catalog.provider_or_default(name, "openai-chat")

    assert (row.name, row.auth, row.key_env, row.plays) == ("sim", "none", (), (name,))
    assert (row.dialect, row.headers, row.embeddings) == (real.dialect, real.headers, real.embeddings)
    assert (row.anthropic, row.chat, row.responses, row.gemini) == (
        real.anthropic,
        real.chat,
        real.responses,
        real.gemini,
    )
    assert catalog.base_url(target) == ("{sim}/v1beta" if target.dialect == "gemini" else "{sim}/v1")
    assert (target.model, target.dialect) == (name, real.dialect)
    assert target.traits.known
    assert target.traits.continuity == "yes"
    assert target.traits.pattern == ""
    assert any(own.name == name and own.dialect == target.dialect for own in all_providers())


@pytest.mark.parametrize(
    "model_name, model, dialect, like",
    [
        ("anthropic/claude-opus-4-6", "anthropic/claude-opus-4-6", "anthropic-messages", "anthropic/claude-opus-4-6"),
        ("openai/gpt-5.2", "openai/gpt-5.2", "openai-responses", "openai/gpt-5.2"),
        ("openai/gpt-4o", "openai/gpt-4o", "openai-chat", "openai/gpt-4o"),
        ("openai-chat/gpt-5.2", "openai/gpt-5.2", "openai-chat", "openai-chat/gpt-5.2"),
        ("gemini/gemini-3-pro-preview", "gemini/gemini-3-pro-preview", "gemini", "google/gemini-3-pro-preview"),
        ("google/gemini-3-pro-preview", "gemini/gemini-3-pro-preview", "gemini", "google/gemini-3-pro-preview"),
        ("kimi/kimi-k2.6", "moonshot/kimi-k2.6", "openai-chat", "moonshot/kimi-k2.6"),
        ("groq/openai/gpt-oss-120b", "groq/openai/gpt-oss-120b", "openai-chat", "groq/openai/gpt-oss-120b"),
        ("vertex/claude-opus-4-6", "vertex/claude-opus-4-6", "anthropic-messages", "vertex/claude-opus-4-6"),
    ],
)
def test_model_has_the_traits_of_the_real_one(model_name, model, dialect, like):
    target = catalog.resolve(f"sim/{model_name}")

    assert (target.provider.name, target.model, target.dialect) == ("sim", model, dialect)
    assert target.traits == catalog.resolve(like).traits


@pytest.mark.parametrize("name", ["nobody", "nobody/gpt-4o", "sim/anthropic", "openrouterx"])
def test_unknown_provider_of_simulator_lists_the_known_ones(name):
    with pytest.raises(UnsupportedModel, match="use one of: anthropic, openai, gemini, chat") as caught:
        catalog.resolve(f"sim/{name}")

    assert caught.value.model == f"sim/{name}"


def test_aliases_of_a_row_mean_its_dialect():
    for row in catalog.PROVIDERS.values():
        for alias in row.aliases if not row.retired else ():
            assert catalog.resolve(f"sim/{alias}").model == ("gemini" if row.name == "google" else row.name)


def test_sim_costs_nothing():
    from datetime import date

    for model in ("anthropic", "anthropic/claude-opus-4-6", "chat"):
        assert catalog.price_on("sim", model, date(2026, 11, 15)).input == 0


# --- accounts ---------------------------------------------------------------------------------------------------------


def account(model: str, **options) -> str:
    router = Router(options.pop("keys", {}), options.pop("providers", ()), None)
    return asyncio.run(router.endpoint(router.target(model), ())).account


def test_account_does_not_depend_on_the_url(monkeypatch):
    monkeypatch.setenv("TENUTO_SIM_URL", "http://127.0.0.1:1")
    here = account("sim/anthropic")
    monkeypatch.setenv("TENUTO_SIM_URL", "http://127.0.0.1:2/v1")
    there = account("sim/anthropic")
    monkeypatch.delenv("TENUTO_SIM_URL")
    elsewhere = account("sim/anthropic", providers={"sim": {"base_url": "http://127.0.0.1:3"}})

    assert here == there == elsewhere
    monkeypatch.setenv("TENUTO_SIM_URL", "http://127.0.0.1:1")
    others = [account("sim/deepseek"), account("sim/moonshot"), account("sim/anthropic", keys={"sim": "k"})]
    assert len({here, *others}) == 4


# --- the URL ---------------------------------------------------------------------------------------------------------


def address(model: str, base_url: str = "") -> str:
    router = Router({}, {"sim": {"base_url": base_url}} if base_url else (), None)
    return asyncio.run(router.endpoint(router.target(model), ())).base_url


@pytest.mark.parametrize(
    "written",
    ["http://127.0.0.1:9", "http://127.0.0.1:9/", "http://127.0.0.1:9/v1", "127.0.0.1:9", "127.0.0.1:9/v1beta/"],
)
def test_url_is_read_in_every_form(monkeypatch, written):
    assert address("sim/anthropic", written) == "http://127.0.0.1:9/v1"
    assert address("sim/gemini", written) == "http://127.0.0.1:9/v1beta"
    monkeypatch.setenv("TENUTO_SIM_URL", written)
    assert address("sim/chat") == "http://127.0.0.1:9/v1"


def test_url_argument_wins_over_the_environment(monkeypatch):
    """So all clients of a test use the simulator that the test runs."""
    monkeypatch.setenv("TENUTO_SIM_URL", "http://127.0.0.1:7")

    assert address("sim/anthropic", "http://127.0.0.1:9") == "http://127.0.0.1:9/v1"


def test_custom_row_may_imitate():
    own = Provider("stage", "openai-chat", "http://127.0.0.1:9/v1", plays=("anthropic",))
    router = Router({}, [own], None)
    target = router.target("stage/anthropic/claude-opus-4-6")
    way = asyncio.run(router.endpoint(target, ()))

    assert (target.provider.name, target.dialect, way.base_url) == ("stage", "anthropic-messages", own.base_url)


def test_custom_headers_are_sent():
    with Simulator(script=["Hello"]) as sim:
        settings = {"base_url": sim.base_url, "headers": {"x-mine": "1"}}
        with Client(providers={"sim": settings}) as ai:
            assert ai.chat("sim/anthropic", "Hi").text == "Hello"
    router = Router({}, {"sim": settings}, None)
    assert router.target("sim/anthropic").provider.headers == {"anthropic-version": "2023-06-01", "x-mine": "1"}


def test_proxy_is_not_used_for_a_local_simulator(monkeypatch):
    for name in ("http_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    with Simulator(script=["Hello"]) as sim:
        monkeypatch.setenv("TENUTO_SIM_URL", sim.base_url)
        with Client(middleware=[]) as ai:
            assert ai.chat("sim/anthropic", "Hi").text == "Hello"


# --- a simulator that the client starts ------------------------------------------------------------------------------


@pytest.mark.parametrize("style", STYLE_NAMES)
def test_sim_needs_no_key_and_no_server(style):
    before = threads()
    with Client(middleware=[]) as ai:
        reply = ai.chat(f"sim/{style}", "Hello")
        with ai.stream(f"sim/{style}", "Hello") as stream:
            streamed = stream.drain()

    assert reply.text == streamed.text == "Hello"
    assert (reply.response.provider, reply.cost, reply.losses) == ("sim", Decimal(0), ())
    assert threads() == before


def test_sim_errors_are_typed():
    with Client(middleware=[]) as ai, pytest.raises(LLMError) as caught:
        ai.chat("sim/anthropic/no-such-model", "Hi")

    assert caught.value.provider == "sim"


def test_concurrent_requests_start_one_simulator():
    async def main():
        async with AsyncClient() as ai:
            await asyncio.gather(*(ai.chat("sim/anthropic", f"Hi {at}") for at in range(20)))
            started = ai._router._simulator._simulator
            assert len(started.requests) == 20
        with pytest.raises(RuntimeError):
            _ = started.base_url

    asyncio.run(main())


def test_client_can_continue_in_another_loop():
    ai = AsyncClient()

    async def ask():
        return (await ai.chat("sim/chat", "Hi")).text

    async def last():
        text = await ask()
        await ai.close()
        return text

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # the first loop ended with open connections
        first = asyncio.run(ask())
        assert asyncio.run(last()) == first
        gc.collect()


def test_clients_in_two_loops_share_one_simulator():
    """It runs in its own thread, so neither loop has to run longer than the other."""
    ai = AsyncClient(middleware=[], timeout=5)
    loops = [asyncio.new_event_loop(), asyncio.new_event_loop()]

    async def ask():
        return (await ai.chat("sim/chat", "Hi")).text

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # the connections of the other loop
        texts = [loops[at % 2].run_until_complete(ask()) for at in range(6)]
        simulator = ai._router._simulator._simulator
        port = int(simulator.base_url.rpartition(":")[2])
        loops[1].run_until_complete(ai.close())
        for loop in loops:
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()
        gc.collect()

    assert len(set(texts)) == 1
    assert len(simulator.requests) == 6
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


def test_environment_configures_the_simulator(monkeypatch, tmp_path):
    script = tmp_path / "script.json"
    script.write_text('{"turns": [[{"do": "say", "text": "scripted"}]]}')
    monkeypatch.setenv("TENUTO_SIM_SCRIPT", str(script))
    monkeypatch.setenv("TENUTO_SIM_PACE", "1ms")
    ids = []
    for seed in ("", "other"):
        monkeypatch.setenv("TENUTO_SIM_SEED", seed)
        with Client() as ai:
            reply = ai.chat("sim/anthropic", "Hi")
            assert reply.text == "scripted"
            ids.append(reply.response.id)

    assert ids[0] != ids[1]


@pytest.mark.parametrize(
    "name, value, message",
    [
        ("TENUTO_SIM_SCRIPT", "/nowhere.json", "TENUTO_SIM_SCRIPT: cannot load /nowhere.json: No such file"),
        ("TENUTO_SIM_PACE", "soon", "TENUTO_SIM_PACE: invalid pause 'soon'"),
    ],
)
def test_invalid_simulator_settings_are_an_error(monkeypatch, name, value, message):
    monkeypatch.setenv(name, value)
    with Client() as ai, pytest.raises(TenutoError, match=message):
        ai.chat("sim/anthropic", "Hi")


def test_tokens_survive_their_simulator():
    """Another client has another simulator at another port: it reads the tokens, and they are in scope."""

    @tool
    def weather(city: str) -> str:
        """Current weather."""
        return "rain"

    def ask(message):
        with Client(middleware=[]) as ai:
            return ai.chat("sim/anthropic/claude-opus-4-6", message, tools=[weather], tool_choice="auto", effort="high")

    first = ask("What is the weather in Oslo? Use the tool.")
    answers = [one.answer("rain") for one in first.tool_calls]
    second = ask(first.transcript + (answers or "And now?"))

    assert (first.losses, second.losses) == ((), ())
    assert second.text


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forked_process_has_its_own_simulator():
    code = """
import os, sys
from tenuto import Client
ai = Client()
first = ai.chat("sim/chat", "Hi").text
pid = os.fork()
if pid == 0:
    os._exit(0 if ai.chat("sim/chat", "Hi").text == first else 1)
_, status = os.waitpid(pid, 0)
again = ai.chat("sim/chat", "Hi").text
ai.close()
sys.exit(os.waitstatus_to_exitcode(status) or int(again != first))
"""
    # Python 3.12 warns about threads and fork
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)

    assert (done.returncode, done.stderr) == (0, "")


def test_sim_serves_embeddings_counts_and_lists():
    with Client() as ai:
        vectors = ai.embed("sim/openai/text-embedding-3-small", ["hello", "world"], dimensions=8).embeddings
        assert [len(vector) for vector in vectors] == [8, 8]
        assert len(ai.embed("sim/gemini/gemini-embedding-001", ["hello", "world"]).embeddings) == 2
        assert len(ai.embed("sim/vertex/text-embedding-005", ["hello", "world"], dimensions=8).embeddings[1]) == 8
        assert len(ai.embed("sim/vertex/gemini-embedding-2", "hello", dimensions=8).embeddings[0]) == 8
        assert ai.count_tokens("sim/anthropic/claude-opus-4-6", "Hello there") > 0
        assert ai.count_tokens("sim/vertex/claude-opus-4-6", "Hello there") > 0
        assert ai.count_tokens("sim/gemini", "Hello there", system="Be brief.") > 0
        assert ai.count_tokens("sim/openai/gpt-5.2", "Hello there") > 0
        assert "anthropic/claude-opus-4-6" in {model.id for model in ai.models("sim")}
