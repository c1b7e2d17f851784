"""The providers' table: the rows are as specified or say why not, and `provider/model` leads where it should."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tenuto import catalog
from tenuto.catalog import models
from tenuto.catalog.page import render
from tenuto.core.target import Provider
from tenuto.errors import UnknownProvider

ROOT = Path(__file__).parents[2]
NAMES = sorted(catalog.PROVIDERS)
PENALTIES = "frequency_penalty presence_penalty"

SPECIFIED = {
    "openai": ("https://api.openai.com/v1", "bearer"),
    "groq": ("https://api.groq.com/openai/v1", "bearer"),
    "mistral": ("https://api.mistral.ai/v1", "bearer"),
    "deepseek": ("https://api.deepseek.com", "bearer"),
    "fireworks": ("https://api.fireworks.ai/inference/v1", "bearer"),
    "perplexity": ("https://api.perplexity.ai", "bearer"),
    "ollama": ("http://localhost:11434/v1", "none"),
    "cohere": ("https://api.cohere.ai/compatibility/v1", "bearer"),
    "anthropic": ("https://api.anthropic.com/v1", "x-api-key"),
    "google": ("https://generativelanguage.googleapis.com/v1beta", "x-goog-api-key"),
}


# --- the rows ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_every_row_can_be_read(name):
    """Each value is one that its field may hold, and the row says whence and when."""
    row = catalog.PROVIDERS[name]

    assert msgspec.convert(msgspec.to_builtins(row), Provider) == row
    assert row.source
    assert row.as_of == "2026-11-15"
    assert row.base_url.startswith(("https://", "http://localhost:", "{sim}/"))
    assert not row.base_url.endswith("/")
    assert row.auth == "none" or row.key_env


@pytest.mark.parametrize("name", NAMES)
def test_hosts_are_hosts_in_both_tables(name):
    """A row that serves other vendors' models looks into their tables."""
    row = catalog.PROVIDERS[name]

    assert row.name in models.vendors()
    assert row.hosts_others == catalog.model_traits(row.name, "x/gpt-oss-120b:free").known


def test_the_rows_that_were_asked_for_are_there():
    """And no alias is another row's name."""
    wanted = (
        "openai openai-chat openai-responses anthropic google vertex azure groq together mistral deepseek fireworks "
        "perplexity ollama cohere openrouter xai cerebras moonshot zai alibaba nvidia huggingface minimax sambanova "
        "lmstudio vllm llamacpp meta github sim"
    )
    aliases = [alias for row in {row.name: row for row in catalog.PROVIDERS.values()}.values() for alias in row.aliases]

    assert set(wanted.split()) == set(catalog.PROVIDERS)
    assert len(aliases) == len(set(aliases))
    assert not set(aliases) & set(catalog.PROVIDERS)


@pytest.mark.parametrize("name, address, auth", [(name, *rest) for name, rest in SPECIFIED.items()])
def test_address_and_authentication_are_as_specified(name, address, auth):
    """Together alone has moved."""
    row = catalog.find_provider(name)

    assert (row.base_url, row.auth) == (address, auth)


def test_together_has_moved():
    """The address of its SDK; the specified one is in the notes."""
    row = catalog.find_provider("together")

    assert row.base_url == "https://api.together.ai/v1"
    assert "api.together.xyz" in row.notes


@pytest.mark.parametrize(
    "name, specified, beyond, kept",
    [
        ("groq", f"{PENALTIES} logprobs top_logprobs logit_bias", "store", ""),
        ("deepseek", "n seed user logit_bias", f"top_k {PENALTIES}", "user"),
        (
            "perplexity",
            "tools tool_choice parallel_tool_calls logprobs top_logprobs logit_bias seed n user " + PENALTIES,
            "",
            PENALTIES,
        ),
        ("ollama", "tool_choice logprobs top_logprobs logit_bias n user", "", ""),
        ("cohere", "logit_bias top_logprobs n user parallel_tool_calls", "store", ""),
    ],
)
def test_what_is_stripped_is_as_specified_save_for_what_the_notes_say(name, specified, beyond, kept):
    """A provider that has learnt a parameter gets it; one that refuses another does not."""
    row = catalog.find_provider(name)

    assert set(row.chat.strip) == (set(specified.split()) | set(beyond.split())) - set(kept.split())
    assert row.notes or not (beyond or kept)


def test_renames_clamps_defaults_and_headers():
    """As specified: n, seed, temperature, the version header. As today: user_id, no clamp where nothing refuses."""
    assert catalog.find_provider("groq").chat.clamp == {"n": 1}
    assert catalog.find_provider("mistral").chat.rename == {"seed": "random_seed"}
    assert catalog.find_provider("mistral").chat.clamp == {}
    assert "clamp" in catalog.find_provider("mistral").notes
    assert catalog.find_provider("cohere").chat.clamp == {"temperature": (0, 1)}
    assert catalog.find_provider("deepseek").chat.rename == {"user": "user_id"}
    assert "user_id" in catalog.find_provider("deepseek").notes
    assert catalog.find_provider("anthropic").headers == {"anthropic-version": "2023-06-01"}
    assert "4096" in catalog.find_provider("anthropic").notes
    for name in ("openai", "together", "fireworks"):
        chat = catalog.find_provider(name).chat
        assert (chat.rename, chat.clamp, chat.defaults) == ({}, {}, {})


def test_peculiarities_are_switches():
    """One each; the codec's own cases show what they do."""
    chat = {name: row.chat for name, row in catalog.PROVIDERS.items()}

    assert {name for name in chat if chat[name].max_tokens_field == "max_completion_tokens"} == {
        *("openai", "openai-chat", "openai-responses", "azure", "groq", "xai", "cerebras", "moonshot")
    }
    assert {name for name in chat if not chat[name].stream_options} == {"together", "mistral", "perplexity", "cohere"}
    assert {name for name in chat if chat[name].empty_reasoning} == {"deepseek", "moonshot"}
    assert {name for name in chat if chat[name].call_id == "nine"} == {"mistral"}
    assert chat["mistral"].required_word == "any"
    assert chat["openrouter"].reasoning_field == "reasoning_details"
    assert chat["xai"].output_excludes_reasoning
    assert chat["minimax"].defaults == {"reasoning_split": True}
    assert catalog.find_provider("vertex").gemini.vertex


def test_reasoning_goes_back_where_it_is_taken():
    """The model's own word counts first; this is for models that nobody knows."""
    by_policy: dict[str, set[str]] = {}
    for name, row in catalog.PROVIDERS.items():
        by_policy.setdefault(row.chat.passback, set()).add(name)

    never = "openai openai-chat openai-responses azure perplexity cohere alibaba"
    assert by_policy["never"] == set(never.split())
    assert by_policy["always"] >= {"openrouter", "mistral", "minimax", "xai"}
    assert by_policy["tool_turns"] >= {"deepseek", "moonshot", "zai", "groq", "together", "fireworks", "vllm"}


def test_responses_endpoints_differ_too():
    """DeepSeek's order of calls, reasoning without a ciphertext, long ids."""
    assert catalog.find_provider("deepseek").responses.calls_last
    assert catalog.find_provider("deepseek").responses.plain_reasoning
    assert catalog.find_provider("lmstudio").responses.plain_reasoning
    assert not catalog.find_provider("openai").responses.plain_reasoning
    assert not catalog.find_provider(
        "xai"
    ).responses.plain_reasoning  # an id alone is refused unless the reply is stored
    assert catalog.find_provider("xai").responses.call_id_max == 0


def test_addresses_come_from_the_environment():
    """From the vendor's variable, or its name and `_BASE_URL`; what its SDK adds to such an address, we add too."""
    for row in catalog.PROVIDERS.values():
        assert row.retired or row.plays or any(name.endswith("_BASE_URL") for name in row.base_url_env), row.name
        assert row.base_url.endswith(row.base_url_path)

    paths = {row.name: row.base_url_path for row in catalog.PROVIDERS.values() if row.base_url_path}
    assert paths.pop("vertex").startswith("/v1/projects/{project}/")
    assert paths == {
        "anthropic": "/v1",
        "google": "/v1beta",
        "azure": "/openai/v1",
        "groq": "/openai/v1",
        "cohere": "/compatibility/v1",
        "cerebras": "/v1",
        "ollama": "/v1",
    }
    assert catalog.find_provider("ollama").base_url_env == ("OLLAMA_BASE_URL", "OLLAMA_HOST")


def test_words_in_braces_are_held_by_variables():
    """Each that stands in an address, and no other."""
    for row in catalog.PROVIDERS.values():
        addresses = " ".join((row.base_url, *row.base_urls.values()))
        assert set(re.findall(r"\{(\w+)\}", addresses)) == set(row.fill)
    assert catalog.find_provider("vertex").fill["project"][0] == "GOOGLE_CLOUD_PROJECT"


def test_keys_are_tried_in_order():
    """Google's own SDK has the first two the other way round."""
    google = catalog.find_provider("google")

    assert google.key_env == ("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY")
    assert "GOOGLE_API_KEY" in google.notes


def test_embeddings_and_lists():
    """Who has none, who has them elsewhere, how many texts fit."""
    rows = {row.name: row for row in catalog.PROVIDERS.values()}
    batch = {name: row.embeddings.batch for name, row in rows.items() if row.embeddings.batch}

    assert {name for name, row in rows.items() if not row.embeddings.path} == {
        *("anthropic", "deepseek", "xai", "cerebras", "moonshot", "huggingface", "meta", "github")
    }
    assert {name for name, row in rows.items() if not row.models_path} == {
        *("zai", "minimax", "cohere", "vertex", "github")
    }
    assert batch == {
        **dict.fromkeys(("openai", "azure", "groq", "fireworks"), 2048),
        "google": 100,
        "mistral": 32,
        "perplexity": 512,
        "cohere": 96,
        "zai": 64,
        "alibaba": 10,
    }
    assert rows["perplexity"].models_path == "/v1/models"


# --- finding a row ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "alias, name", [("gemini", "google"), ("open_ai", "openai"), ("x-ai", "xai"), ("moonshotai", "moonshot")]
)
def test_an_alias_is_reported_as_its_row(alias, name):
    """Replies and errors speak of the canonical name."""
    assert catalog.find_provider(alias).name == name
    assert catalog.is_known_provider(alias)


@pytest.mark.parametrize("wrong, near", [("antropic", "anthropic"), ("open-ai", "openai"), ("GROQ", "groq")])
def test_a_wrong_name_is_answered_with_those_that_look_like_it(wrong, near):
    """The error says what may have been meant."""
    with pytest.raises(UnknownProvider) as caught:
        catalog.find_provider(wrong)

    assert caught.value.name == wrong
    assert near in caught.value.near
    assert repr(near) in str(caught.value)


def test_a_name_like_none_gets_no_hint():
    """Nothing is guessed."""
    with pytest.raises(UnknownProvider) as caught:
        catalog.find_provider("qqqqqq")

    assert caught.value.near == ()


def test_a_name_that_is_no_row_keeps_its_name_and_gets_the_common_form():
    """So that errors and tokens are reported under it."""
    row = catalog.provider_or_default("my-gateway", "openai-chat")

    assert (row.name, row.dialect, row.base_url) == ("my-gateway", "openai-chat", "")
    assert row.chat == type(row.chat)()
    assert row.hosts_others
    assert not catalog.is_known_provider("my-gateway")
    claude = catalog.provider_or_default("my-gateway", "anthropic-messages")
    assert (claude.auth, claude.headers) == ("x-api-key", {"anthropic-version": "2023-06-01"})


@pytest.mark.parametrize(
    "dialect, name",
    [
        ("anthropic-messages", "anthropic"),
        ("openai-responses", "openai"),
        ("openai-chat", "openai"),
        ("gemini", "google"),
    ],
)
def test_no_name_at_all_is_the_row_whose_dialect_it_is(dialect, name):
    """And a row that is named is that row, whatever the dialect."""
    assert catalog.provider_or_default(None, dialect).name == name
    assert catalog.provider_or_default("groq", dialect) is catalog.PROVIDERS["groq"]


# --- provider/model ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given, name, model, dialect",
    [
        ("groq/llama-3.3-70b", "groq", "llama-3.3-70b", "openai-chat"),
        ("groq/openai/gpt-oss-120b", "groq", "openai/gpt-oss-120b", "openai-chat"),
        ("openrouter/anthropic/claude-opus-4.6", "openrouter", "anthropic/claude-opus-4.6", "openai-chat"),
        ("google/gemini-3-flash-preview", "google", "gemini-3-flash-preview", "gemini"),
        ("gemini/gemini-3-flash-preview", "google", "gemini-3-flash-preview", "gemini"),
        ("google/models/gemini-3.5-flash", "google", "models/gemini-3.5-flash", "gemini"),
        ("anthropic/claude-sonnet-4-5-20250929", "anthropic", "claude-sonnet-4-5-20250929", "anthropic-messages"),
        ("openai/gpt-5.2", "openai", "gpt-5.2", "openai-responses"),
        ("openai/gpt-6.1-sol", "openai", "gpt-6.1-sol", "openai-responses"),
        ("openai/o3", "openai", "o3", "openai-responses"),
        ("openai/gpt-4o", "openai", "gpt-4o", "openai-chat"),
        ("openai/gpt-4.1-mini-2025-04-14", "openai", "gpt-4.1-mini-2025-04-14", "openai-chat"),
        ("openai/gpt-3.5-turbo", "openai", "gpt-3.5-turbo", "openai-chat"),
        ("openai/ft:gpt-4o-mini-2024-07-18:acme::1", "openai", "ft:gpt-4o-mini-2024-07-18:acme::1", "openai-chat"),
        ("openai-chat/gpt-5.2", "openai", "gpt-5.2", "openai-chat"),
        ("openai-responses/gpt-4o", "openai", "gpt-4o", "openai-responses"),
        ("azure/my-deployment", "azure", "my-deployment", "openai-responses"),
        ("azure/gpt-4o", "azure", "gpt-4o", "openai-chat"),
        ("vertex/claude-opus-4-5@20251101", "vertex", "claude-opus-4-5@20251101", "anthropic-messages"),
        ("xai/grok-4.7", "xai", "grok-4.7", "openai-responses"),
        ("perplexity/sonar", "perplexity", "sonar", "openai-chat"),
        ("perplexity/openai/gpt-5.2", "perplexity", "openai/gpt-5.2", "openai-responses"),
        ("deepseek/brand-new", "deepseek", "brand-new", "openai-chat"),
    ],
)
def test_provider_and_model_lead_to_a_target(given, name, model, dialect):
    """The split is at the first slash; the model's own word on the dialect counts before the row's."""
    target = catalog.resolve(given)

    assert (target.provider.name, target.model, target.dialect) == (name, model, dialect)
    assert target.traits.known == catalog.model_traits(name, model).known


def test_a_bare_model_goes_to_the_default_provider():
    """A slash always names a provider."""
    assert catalog.resolve("gpt-4o", default_provider="openai").provider.name == "openai"
    assert catalog.resolve("gpt-5.2", default_provider="openai-chat").dialect == "openai-chat"
    with pytest.raises(UnknownProvider):
        catalog.resolve("meta-llama/llama-3.3-70b", default_provider="groq")


@pytest.mark.parametrize(
    "given, name, dialect",
    [
        ("claude-sonnet-4-5", "anthropic", "anthropic-messages"),
        ("gpt-5.2", "openai", "openai-responses"),
        ("gpt-4o", "openai", "openai-chat"),
        ("gemini-3-flash-preview", "google", "gemini"),
        ("grok-4.7", "xai", "openai-responses"),
    ],
)
def test_bare_model_name_resolves_to_its_owner(given, name, dialect):
    """The default provider and rows of the caller come first."""
    target = catalog.resolve(given)
    moved = Provider(name, dialect, "https://moved.test/v1")
    gateway = Provider("gateway", "openai-chat", "https://gateway.test/v1", default_model=given)

    assert (target.provider.name, target.model, target.dialect) == (name, given, dialect)
    assert catalog.resolve(given, default_provider="azure").provider.name == "azure"
    assert catalog.resolve(given, own={name: moved}).provider is moved
    assert catalog.resolve(given, own={"gateway": gateway, "gw": gateway}).provider is gateway


@pytest.mark.parametrize(
    "given, near",
    [
        ("", ()),
        ("/", ()),
        ("some-model", ()),
        ("sim", ()),
        ("/gpt-4o", ("openai/gpt-4o",)),
        ("openai/", ("openai/gpt-6.1-sol",)),
        ("gemini", ("google/gemini-3.8-flash",)),
        ("gpt-oss-120b", ("cerebras/gpt-oss-120b", "sambanova/gpt-oss-120b", "ollama/gpt-oss-120b")),
    ],
)
def test_bare_model_name_without_owner_lists_candidates(given, near):
    """In the error and in its message."""
    with pytest.raises(UnknownProvider) as caught:
        catalog.resolve(given)

    message = f"no provider in {given!r}: use {' or '.join(near)}" if near else f"{given!r} is not a model name"
    assert caught.value.bare
    assert caught.value.near == near
    assert message in str(caught.value)


def test_bare_model_name_with_two_owners_lists_both(monkeypatch):
    """None of them is chosen."""
    monkeypatch.setattr(models, "model_owners", lambda model: ("anthropic", "openai"))

    with pytest.raises(UnknownProvider, match="no provider in 'x': use anthropic/x or openai/x"):
        catalog.resolve("x")


def test_the_caller_may_choose_the_dialect():
    """And gets the address that goes with it."""
    target = catalog.resolve("deepseek/deepseek-v4-pro", dialect="anthropic-messages")

    assert target.dialect == "anthropic-messages"
    assert catalog.base_url(target) == "https://api.deepseek.com/anthropic/v1"
    assert catalog.base_url(catalog.resolve("deepseek/deepseek-v4-pro")) == "https://api.deepseek.com"
    assert catalog.base_url(catalog.resolve("perplexity/openai/gpt-5.2")) == "https://api.perplexity.ai/v1"


def test_the_model_decides_where_a_host_serves_other_vendors():
    """Traits come from the vendor, the form from the host; a gateway without a row is such a host too."""
    hosted = catalog.resolve("openrouter/openai/gpt-5.5")
    own = catalog.build_target(
        catalog.provider_or_default("my-gateway", "openai-chat"), "claude-opus-4-8", "openai-chat"
    )

    assert hosted.traits.sampling == "only_without_reasoning"
    assert own.traits.sampling == "rejected"
    assert own.traits.thinking == ("effort",)
    unknown = catalog.build_target(catalog.provider_or_default("my-gateway", "openai-chat"), "my-model", "openai-chat")
    assert not unknown.traits.known


# --- accounts ---------------------------------------------------------------------------------------------------------


def test_a_fingerprint_tells_accounts_apart_and_gives_nothing_away():
    """16 hex digits of sha256 over row, address and key."""
    row = catalog.find_provider("openai")
    known = catalog.fingerprint(row, row.base_url, "sk-one")

    assert known == hashlib.sha256(b"openai\0https://api.openai.com/v1\0sk-one").hexdigest()[:16]
    assert known == catalog.fingerprint("openai", f"{row.base_url}/", "sk-one")
    others = [
        catalog.fingerprint("openai", row.base_url, "sk-two"),
        catalog.fingerprint("openai", "https://proxy.example/v1", "sk-one"),
        catalog.fingerprint("azure", row.base_url, "sk-one"),
    ]
    assert len({known, *others}) == 4


# --- the page ---------------------------------------------------------------------------------------------------------


def test_the_page_is_current():
    """`python -m tenuto.catalog > docs/providers.md` makes it so."""
    assert (ROOT / "docs" / "providers.md").read_text("utf-8") == render()


def test_the_page_is_printed():
    """By the command that it names."""
    ran = subprocess.run([sys.executable, "-m", "tenuto.catalog"], capture_output=True, check=True, timeout=30)

    assert ran.stdout.decode() == render()
    assert "| [groq](#groq) | openai-chat |" in render()
    assert "* clamp: `temperature` 0 to 1" in render()
    assert "* clamp: `n` `1`" in render()
    assert "address from `OLLAMA_BASE_URL` or `OLLAMA_HOST` (`/v1` is added where it is missing)" in render()
    assert "; `{resource}` from `AZURE_RESOURCE_NAME`" in render()
    assert "* embeddings: path `/v1/embeddings`; batch `512`" in render()
    assert "* models: listed at `/v1/models`" in render()
