"""Provider rows match the specification or explain why not, and `provider/model` resolves to the right target."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tenuto import catalog
from tenuto.catalog import providers
from tenuto.catalog.page import render
from tenuto.core.provider import Provider
from tenuto.errors import UnknownProvider

ROOT = Path(__file__).parents[2]
NAMES = sorted(catalog.PROVIDERS)
PENALTIES = "frequency_penalty presence_penalty"
PERPLEXITY = "logprobs top_logprobs logit_bias seed n user"

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


# --- rows -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_provider_row_is_valid(name):
    """Each value fits the type of its field; source and date are set."""
    row = catalog.PROVIDERS[name]

    assert msgspec.convert(msgspec.to_builtins(row), Provider) == row
    assert row.source
    assert row.as_of == "2026-11-15"
    assert row.base_url.startswith(("https://", "http://localhost:", "{sim}/"))
    assert not row.base_url.endswith("/")
    assert row.auth == "none" or row.key_env


@pytest.mark.parametrize("name", NAMES)
def test_only_hosts_use_rows_for_any_host(name):
    """A vendor describes its own models only."""
    row = catalog.PROVIDERS[name]

    assert row.hosts_others == catalog.model_traits(row.name, "x/gpt-oss-120b:free").known


def test_required_providers_exist():
    """Aliases are unique, and none is the name of a row."""
    required = (
        "openai openai-chat openai-responses anthropic google vertex azure groq together mistral deepseek fireworks "
        "perplexity ollama cohere openrouter xai cerebras moonshot zai alibaba nvidia huggingface minimax sambanova "
        "lmstudio vllm llamacpp meta github sim"
    )
    aliases = [alias for row in {row.name: row for row in catalog.PROVIDERS.values()}.values() for alias in row.aliases]

    assert set(required.split()) <= set(catalog.PROVIDERS)
    assert len(aliases) == len(set(aliases))
    assert not set(aliases) & set(catalog.PROVIDERS)


@pytest.mark.parametrize("name, address, auth", [(name, *rest) for name, rest in SPECIFIED.items()])
def test_base_url_and_auth_match_specification(name, address, auth):
    row = catalog.find_provider(name)

    assert (row.base_url, row.auth) == (address, auth)


def test_together_base_url_moved():
    """The URL is that of its SDK; the notes have the specified one."""
    row = catalog.find_provider("together")

    assert row.base_url == "https://api.together.ai/v1"
    assert "api.together.xyz" in row.notes


@pytest.mark.parametrize(
    "name, specified, added, accepted",
    [
        ("groq", f"{PENALTIES} logprobs top_logprobs logit_bias", "store", ""),
        ("deepseek", "n seed user logit_bias", f"top_k {PENALTIES}", "user"),
        ("perplexity", f"tools tool_choice parallel_tool_calls {PERPLEXITY} {PENALTIES}", "", PENALTIES),
        ("ollama", "tool_choice logprobs top_logprobs logit_bias n user", "", ""),
        ("cohere", "logit_bias top_logprobs n user parallel_tool_calls", "store", ""),
    ],
)
def test_stripped_fields_match_specification(name, specified, added, accepted):
    """The notes explain each difference: parameters that are accepted today, and further ones that are refused."""
    row = catalog.find_provider(name)

    assert set(row.chat.strip) == (set(specified.split()) | set(added.split())) - set(accepted.split())
    assert row.notes or not (added or accepted)


def test_renames_clamps_defaults_and_headers():
    """n, seed, temperature and the version header as specified; DeepSeek's user_id and Mistral's temperature as today."""
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


def test_chat_switches():
    """The tests of the codec show what they do."""
    chat = {name: row.chat for name, row in catalog.PROVIDERS.items()}

    assert {name for name in chat if chat[name].max_tokens_field == "max_completion_tokens"} >= {
        *("openai", "openai-chat", "openai-responses", "azure", "groq", "xai", "cerebras", "moonshot")
    }
    assert {name for name in chat if not chat[name].stream_options} >= {"together", "mistral", "perplexity", "cohere"}
    assert {name for name in chat if chat[name].empty_reasoning} >= {"deepseek", "moonshot"}
    assert chat["mistral"].call_id == "nine"
    assert chat["mistral"].required_word == "any"
    assert chat["openrouter"].reasoning_field == "reasoning_details"
    assert chat["xai"].output_excludes_reasoning
    assert chat["minimax"].defaults == {"reasoning_split": True}
    assert catalog.find_provider("vertex").gemini.vertex


def test_passback_of_providers():
    """For unknown models; the row of a model takes precedence."""
    by_policy: dict[str, set[str]] = {}
    for name, row in catalog.PROVIDERS.items():
        by_policy.setdefault(row.chat.passback, set()).add(name)

    never = "openai openai-chat openai-responses azure perplexity cohere alibaba"
    assert by_policy["never"] >= set(never.split())
    assert by_policy["always"] >= {"openrouter", "mistral", "minimax", "xai"}
    assert by_policy["tool_turns"] >= {"deepseek", "moonshot", "zai", "groq", "together", "fireworks", "vllm"}


def test_responses_switches():
    assert catalog.find_provider("deepseek").responses.calls_last
    assert catalog.find_provider("deepseek").responses.plain_reasoning
    assert catalog.find_provider("lmstudio").responses.plain_reasoning
    assert not catalog.find_provider("openai").responses.plain_reasoning
    xai = catalog.find_provider("xai").responses
    assert not xai.plain_reasoning  # an id alone is refused unless the reply is stored
    assert xai.call_id_max == 0


def test_base_url_variables():
    """Each provider has one that ends with `_BASE_URL`; the path that the vendor's SDK adds is added here too."""
    for row in catalog.PROVIDERS.values():
        assert row.retired or row.plays or any(name.endswith("_BASE_URL") for name in row.base_url_env), row.name
        assert row.base_url.endswith(row.base_url_path)

    paths = {row.name: row.base_url_path for row in catalog.PROVIDERS.values() if row.base_url_path}
    assert paths.pop("vertex").startswith("/v1/projects/{project}/")
    known = {"/v1": "anthropic cerebras ollama", "/openai/v1": "azure groq", "/v1beta": "google"}
    known["/compatibility/v1"] = "cohere"
    assert paths.items() >= {(name, path) for path, names in known.items() for name in names.split()}
    assert catalog.find_provider("ollama").base_url_env == ("OLLAMA_BASE_URL", "OLLAMA_HOST")


def test_url_placeholders_have_variables():
    for row in catalog.PROVIDERS.values():
        addresses = " ".join((row.base_url, *row.base_urls.values()))
        assert set(re.findall(r"\{(\w+)\}", addresses)) == set(row.fill)
    assert catalog.find_provider("vertex").fill["project"][0] == "GOOGLE_CLOUD_PROJECT"


def test_key_variables_are_ordered():
    """Google's SDK has the first two in the other order."""
    google = catalog.find_provider("google")

    assert google.key_env == ("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY")
    assert "GOOGLE_API_KEY" in google.notes


def test_embedding_switches_and_model_lists():
    rows = {row.name: row for row in catalog.PROVIDERS.values()}
    batch = {name: row.embeddings.batch for name, row in rows.items() if row.embeddings.batch}

    without = {name for name, row in rows.items() if not row.embeddings.path}
    assert without >= {"anthropic", "deepseek", "xai", "cerebras", "moonshot", "huggingface", "meta", "github"}
    unlisted = {name for name, row in rows.items() if not row.models_path}
    assert unlisted >= {"zai", "minimax", "cohere", "vertex", "github"}
    known = dict.fromkeys(("openai", "azure", "groq", "fireworks"), 2048)
    known |= {"google": 100, "mistral": 32, "perplexity": 512, "cohere": 96, "zai": 64, "alibaba": 10}
    assert batch.items() >= known.items()
    assert rows["perplexity"].models_path == "/v1/models"


# --- lookup -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "alias, name", [("gemini", "google"), ("open_ai", "openai"), ("x-ai", "xai"), ("moonshotai", "moonshot")]
)
def test_alias_finds_its_row(alias, name):
    assert catalog.find_provider(alias).name == name
    assert catalog.is_known_provider(alias)


@pytest.mark.parametrize("wrong, near", [("antropic", "anthropic"), ("open-ai", "openai"), ("GROQ", "groq")])
def test_unknown_provider_suggests_similar_names(wrong, near):
    with pytest.raises(UnknownProvider) as caught:
        catalog.find_provider(wrong)

    assert caught.value.name == wrong
    assert near in caught.value.suggestions
    assert repr(near) in str(caught.value)


def test_unknown_provider_without_similar_names():
    with pytest.raises(UnknownProvider) as caught:
        catalog.find_provider("qqqqqq")

    assert caught.value.suggestions == ()


def test_custom_name_gets_dialect_defaults():
    """The row has the name, so that errors and tokens do."""
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
def test_missing_name_is_the_home_of_the_dialect(dialect, name):
    """A known name is that row, for any dialect."""
    assert catalog.provider_or_default(None, dialect).name == name
    assert catalog.provider_or_default("groq", dialect) is catalog.PROVIDERS["groq"]


# --- provider/model ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name_of_model, name, model, dialect",
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
def test_resolve_provider_and_model(name_of_model, name, model, dialect):
    """The split is at the first slash; the dialect of the model row precedes that of the provider."""
    target = catalog.resolve(name_of_model)

    assert (target.provider.name, target.model, target.dialect) == (name, model, dialect)
    assert target.traits.known == catalog.model_traits(name, model).known


def test_bare_model_uses_default_provider():
    """Before a slash is always a provider."""
    assert catalog.resolve("gpt-4o", default_provider="openai").provider.name == "openai"
    assert catalog.resolve("gpt-5.2", default_provider="openai-chat").dialect == "openai-chat"
    with pytest.raises(UnknownProvider):
        catalog.resolve("meta-llama/llama-3.3-70b", default_provider="groq")


@pytest.mark.parametrize(
    "model, name, dialect",
    [
        ("claude-sonnet-4-5", "anthropic", "anthropic-messages"),
        ("gpt-5.2", "openai", "openai-responses"),
        ("gpt-4o", "openai", "openai-chat"),
        ("gemini-3-flash-preview", "google", "gemini"),
        ("grok-4.7", "xai", "openai-responses"),
    ],
)
def test_bare_model_name_resolves_to_its_owner(model, name, dialect):
    """The default provider and custom rows take precedence."""
    target = catalog.resolve(model)
    moved = Provider(name, dialect, "https://moved.test/v1")
    gateway = Provider("gateway", "openai-chat", "https://gateway.test/v1", default_model=model)

    assert (target.provider.name, target.model, target.dialect) == (name, model, dialect)
    assert catalog.resolve(model, default_provider="azure").provider.name == "azure"
    assert catalog.resolve(model, custom={name: moved}).provider is moved
    assert catalog.resolve(model, custom={"gateway": gateway, "gw": gateway}).provider is gateway


@pytest.mark.parametrize(
    "model, near",
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
def test_bare_model_name_without_owner_lists_candidates(model, near):
    with pytest.raises(UnknownProvider) as caught:
        catalog.resolve(model)

    message = f"no provider in {model!r}: use {' or '.join(near)}" if near else f"{model!r} is not a model name"
    assert caught.value.bare
    assert caught.value.suggestions == near
    assert message in str(caught.value)


def test_bare_model_name_with_two_owners_lists_both(monkeypatch):
    monkeypatch.setattr(providers, "model_owners", lambda model: ("anthropic", "openai"))

    with pytest.raises(UnknownProvider, match="no provider in 'x': use anthropic/x or openai/x"):
        catalog.resolve("x")


def test_resolve_with_dialect():
    """The URL follows the dialect."""
    target = catalog.resolve("deepseek/deepseek-v4-pro", dialect="anthropic-messages")

    assert target.dialect == "anthropic-messages"
    assert catalog.base_url(target) == "https://api.deepseek.com/anthropic/v1"
    assert catalog.base_url(catalog.resolve("deepseek/deepseek-v4-pro")) == "https://api.deepseek.com"
    assert catalog.base_url(catalog.resolve("perplexity/openai/gpt-5.2")) == "https://api.perplexity.ai/v1"


def test_hosted_model_has_traits_of_its_vendor():
    """Also at a custom provider."""
    hosted = catalog.resolve("openrouter/openai/gpt-5.5")
    custom = catalog.build_target(
        catalog.provider_or_default("my-gateway", "openai-chat"), "claude-opus-4-8", "openai-chat"
    )

    assert hosted.traits.sampling == "only_without_reasoning"
    assert custom.traits.sampling == "rejected"
    assert custom.traits.thinking == ("effort",)
    unknown = catalog.build_target(catalog.provider_or_default("my-gateway", "openai-chat"), "my-model", "openai-chat")
    assert not unknown.traits.known


# --- accounts ---------------------------------------------------------------------------------------------------------


def test_fingerprint_identifies_account():
    """16 hex digits of sha256 over name, URL and key."""
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


# --- page -------------------------------------------------------------------------------------------------------------


def test_page_is_current():
    """`python -m tenuto.catalog > docs/providers.md` updates it."""
    assert (ROOT / "docs" / "providers.md").read_text("utf-8") == render()


def test_page_is_printed_by_command():
    ran = subprocess.run([sys.executable, "-m", "tenuto.catalog"], capture_output=True, check=True, timeout=30)

    assert ran.stdout.decode() == render()
    assert "| [groq](#groq) | openai-chat |" in render()
    assert "* chat.clamp: `temperature` 0 to 1" in render()
    assert "* chat.clamp: `n` `1`" in render()
    assert "* base_url_env: `OLLAMA_BASE_URL`, `OLLAMA_HOST`\n* base_url_path: `/v1`" in render()
    assert "* fill: `resource` `AZURE_RESOURCE_NAME`" in render()
    assert "* embeddings.path: `/v1/embeddings`\n* embeddings.batch: `512`" in render()
    assert "* models_path: `/v1/models`" in render()
