"""Keys and URLs: which key is sent to which URL, and the error of a missing key."""

from __future__ import annotations

import asyncio

import pytest

from tenuto import AsyncClient, LLMError, Provider, TenutoError
from tenuto.catalog import PROVIDERS
from tenuto.client.parameters import ProviderConfig
from tenuto.client.routing import SETTINGS, Router
from tenuto.errors import MissingKey, UnknownProvider
from tenuto.testing import ScriptedTransport

CHAT = {
    "id": "c1",
    "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
}


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch):
    for row in PROVIDERS.values():
        for name in (
            *row.key_env,
            *row.bearer_env,
            *row.base_url_env,
            *(n for names in row.fill.values() for n in names),
        ):
            monkeypatch.delenv(name, raising=False)


def endpoint_of(model: str, *, keys=None, providers=(), given=()):
    router = Router(keys or {}, providers, None)
    return asyncio.run(router.endpoint(router.target(model), set(given)))


def key(endpoint) -> str:
    return "".join(endpoint.auth.values()).removeprefix("Bearer ")


@pytest.mark.parametrize(
    "model, variable, header, value",
    [
        ("openai/gpt-5.2", "OPENAI_API_KEY", "authorization", "Bearer k"),
        ("openai-chat/gpt-4o", "OPENAI_API_KEY", "authorization", "Bearer k"),
        ("anthropic/claude-sonnet-4-5", "ANTHROPIC_API_KEY", "x-api-key", "k"),
        ("anthropic/claude-sonnet-4-5", "ANTHROPIC_AUTH_TOKEN", "authorization", "Bearer k"),
        ("google/gemini-3-pro-preview", "GEMINI_API_KEY", "x-goog-api-key", "k"),
        ("gemini/gemini-3-pro-preview", "GOOGLE_API_KEY", "x-goog-api-key", "k"),
        ("groq/llama-3.3-70b-versatile", "GROQ_API_KEY", "authorization", "Bearer k"),
        ("ollama/llama3", "OLLAMA_API_KEY", "authorization", "Bearer k"),
    ],
)
def test_key_from_environment_is_sent_as_the_row_requires(monkeypatch, model, variable, header, value):
    monkeypatch.setenv(variable, " k\n")

    assert {header: value} == endpoint_of(model).auth


def test_first_variable_of_a_row_wins(monkeypatch):
    monkeypatch.setenv("GOOGLE_API_KEY", "second")
    monkeypatch.setenv("GEMINI_API_KEY", "first")

    assert "first" == key(endpoint_of("google/gemini-3-pro-preview"))


def test_key_argument_wins_over_the_environment(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "from-the-environment")

    assert "passed" == key(endpoint_of("openai/gpt-5.2", keys={"openai": "passed"}))
    assert "passed" == key(endpoint_of("openai-chat/gpt-4o", keys={"openai": "passed"}))
    assert "passed" == key(endpoint_of("gemini/gemini-2.5-pro", keys={"google": "passed"}))


def test_missing_key_names_the_variable():
    with pytest.raises(MissingKey, match="GEMINI_API_KEY or GOOGLE_API_KEY"):
        endpoint_of("google/gemini-3-pro-preview")


def test_some_rows_need_no_key():
    assert {} == endpoint_of("ollama/llama3").auth
    assert {} == endpoint_of("mine/m", providers=[Provider("mine", "openai-chat", "http://localhost:8000/v1")]).auth


def test_key_function_runs_for_each_request():
    keys = iter(["one", "two", "three"])

    async def later() -> str:
        return next(keys)

    router = Router(
        {"azure": lambda: next(keys), "openai": later}, {"azure": {"base_url": "https://x.test/openai/v1"}}, None
    )

    assert "one" == key(asyncio.run(router.endpoint(router.target("azure/gpt-5"), ())))
    assert "two" == key(asyncio.run(router.endpoint(router.target("azure/gpt-5"), ())))
    assert "three" == key(asyncio.run(router.endpoint(router.target("openai/gpt-5"), ())))


@pytest.mark.parametrize(
    "variable, address, expected",
    [
        ("OPENAI_BASE_URL", "https://proxy.test/v1/", "https://proxy.test/v1/responses"),
        ("ANTHROPIC_BASE_URL", "https://proxy.test", "https://proxy.test/v1/messages"),
        ("ANTHROPIC_BASE_URL", "https://proxy.test/v1", "https://proxy.test/v1/messages"),
        ("OLLAMA_HOST", "192.168.1.7:8080", "http://192.168.1.7:8080/v1/chat/completions"),
        ("OLLAMA_HOST", "192.168.1.7", "http://192.168.1.7:11434/v1/chat/completions"),
    ],
)
def test_url_from_environment_is_read_like_the_vendors_sdk(monkeypatch, variable, address, expected):
    model, path = {
        "OPENAI_BASE_URL": ("openai/gpt-5.2", "/responses"),
        "ANTHROPIC_BASE_URL": ("anthropic/claude-sonnet-4-5", "/messages"),
        "OLLAMA_HOST": ("ollama/llama3", "/chat/completions"),
    }[variable]
    monkeypatch.setenv(variable, address)

    assert expected == endpoint_of(model, keys={model.split("/")[0]: "k"}).url(path)


def test_query_of_a_base_url_stays_at_the_end():
    found = endpoint_of("mine/m", providers={"mine": {"base_url": "https://x.test/openai/v1?api-version=preview"}})

    assert "https://x.test/openai/v1/responses?api-version=preview" == found.url("/responses")
    assert "https://x.test/openai/v1/a?b=1&api-version=preview" == found.url("/a?b=1")


def test_variables_in_braces_are_filled_from_the_environment(monkeypatch):
    with pytest.raises(TenutoError, match="GOOGLE_CLOUD_PROJECT"):
        endpoint_of("vertex/gemini-3-pro-preview", keys={"vertex": "t"})
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "p1")
    monkeypatch.setenv("GOOGLE_CLOUD_LOCATION", "europe-west1")

    assert "europe-west1-aiplatform.googleapis.com/v1/projects/p1/" in endpoint_of(
        "vertex/gemini-3-pro-preview", keys={"vertex": "t"}
    ).url("/x")


def test_key_of_the_environment_stays_with_its_endpoint(monkeypatch):
    """It is sent only to the URL of the row and to the one that the environment sets."""
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    elsewhere = {"openai": {"base_url": "http://elsewhere.test/v1"}}
    with pytest.raises(MissingKey, match=r"OPENAI_API_KEY belongs to another URL than http://elsewhere\.test/v1"):
        endpoint_of("openai/gpt-5.2", providers=elsewhere)
    assert {} == endpoint_of("openai/gpt-5.2", providers=elsewhere, given=["authorization"]).auth
    assert "secret" == key(
        endpoint_of("openai/gpt-5.2", providers={"openai": {"base_url": "https://api.openai.com/v2"}})
    )

    monkeypatch.setenv("OPENAI_BASE_URL", "http://elsewhere.test/v1")
    assert "secret" == key(endpoint_of("openai/gpt-5.2"))
    assert "http://elsewhere.test/v1" == endpoint_of("openai/gpt-5.2").base_url


def test_custom_server_gets_no_key_of_the_environment(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret")

    found = endpoint_of("mine/m", providers={"mine": {"base_url": "https://my.test/v1"}})

    assert {} == found.auth


def test_custom_row_may_name_its_variable(monkeypatch):
    monkeypatch.setenv("MINE_KEY", "k")
    row = Provider("mine", "openai-chat", "https://my.test/v1", key_env=("MINE_KEY",))

    assert "k" == key(endpoint_of("mine/m", providers=[row]))
    monkeypatch.delenv("MINE_KEY")
    with pytest.raises(MissingKey, match="MINE_KEY"):
        endpoint_of("mine/m", providers=[row])


@pytest.mark.parametrize("key", ["sk-caf\u00e9-geheim", "sk-ge\nheim", "sk-\x00geheim"])
def test_key_that_no_header_can_hold_is_refused(key):
    with pytest.raises(LLMError) as caught:
        endpoint_of("openai/gpt-5.2", keys={"openai": key})

    assert "geheim" not in repr(caught.value)


@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"keys": {"opnai": "k"}}, UnknownProvider, "openai"),
        ({"default_provider": "opnai"}, UnknownProvider, "openai"),
        ({"keys": {"openai": 5}}, TypeError, "string"),
        ({"providers": {"mine": {}}}, ValueError, "base_url"),
        ({"providers": {"mine": {"url": "x"}}}, TypeError, "base_url"),
        ({"providers": [Provider("a", "gemini", "http://x"), Provider("a", "gemini", "http://y")]}, ValueError, "two"),
        ({"providers": [Provider("a/b", "gemini", "http://x")]}, ValueError, "slash"),
        ({"providers": ["openai"]}, TypeError, "Provider"),
        ({"tiemout": 5}, TypeError, "tiemout"),
        ({"keys": "sk-secret"}, TypeError, "dictionary"),
        ({"providers": {"mine": "http://x"}}, TypeError, "base_url"),
        ({"providers": {"mine": {"base_url": "http://x", "dialect": "foo"}}}, ValueError, "openai-chat"),
    ],
)
def test_invalid_client_options_are_an_error(options, error, message):
    with pytest.raises(error, match=message):
        AsyncClient(**options)


def test_invalid_url_is_refused():
    with pytest.raises(TenutoError, match="http"):
        endpoint_of("mine/m", providers={"mine": {"base_url": "localhost:8000/v1"}})


def test_key_is_not_shown():
    router = Router({"openai": "sk-geheim"}, (), None)

    shown = f"{router!r} {asyncio.run(router.endpoint(router.target('openai/gpt-5'), ()))!r}"

    assert "geheim" not in shown


def test_account_of_reply_depends_on_the_key():
    async def account(key: str) -> str:
        async with AsyncClient(keys={"groq": key}, transport=ScriptedTransport(CHAT)) as ai:
            origin = (await ai.chat("groq/llama", "hi")).message.origin
            assert origin is not None
            return origin.account

    assert asyncio.run(account("a")) != asyncio.run(account("b"))


def test_settings_without_base_url_use_the_environment(monkeypatch):
    monkeypatch.setenv("OLLAMA_HOST", "192.168.1.7")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://proxy.test/v1")

    assert "http://192.168.1.7:11434/v1" == endpoint_of("ollama/llama3", providers={"ollama": {}}).base_url
    assert "http://proxy.test/v1" == endpoint_of("openai/gpt-5", providers={"openai": {"api_key": "k"}}).base_url


def test_custom_row_named_like_an_alias_gets_no_key(monkeypatch):
    monkeypatch.setenv("GEMINI_API_KEY", "secret")
    row = Provider("gemini", "gemini", "https://elsewhere.test/v1beta", key_env=("GEMINI_API_KEY",))

    with pytest.raises(MissingKey, match="another URL"):
        endpoint_of("gemini/gemini-2.5-pro", providers=[row])


def test_aliases_of_a_custom_row_are_known():
    row = Provider("mine", "openai-chat", "https://my.test/v1", aliases=("ours",))

    assert "https://my.test/v1" == endpoint_of("ours/m", providers=[row]).base_url


def test_url_without_scheme_is_treated_like_the_row_url(monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "api.openai.com/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "secret")

    assert "https://api.openai.com/v1" == endpoint_of("openai/gpt-5").base_url


def test_provider_settings_are_those_of_the_type():
    assert tuple(ProviderConfig.__annotations__) == SETTINGS
