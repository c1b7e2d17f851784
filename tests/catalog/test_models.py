"""Model rows: valid, listed, and equal to the known facts of each family; prices, retirement, owners."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import typing
from datetime import date
from decimal import Decimal
from pathlib import Path

import anthropic.types.model
import msgspec
import openai.types.shared.chat_model
import openai.types.shared.responses_model
import pytest

from tenuto import UserMessage, catalog, encode
from tenuto.catalog import model_rows as package
from tenuto.catalog import models, provider_rows
from tenuto.catalog.model_rows import _CONTINUITY as CONTINUITY
from tenuto.catalog.model_rows import ANY_HOST, ModelGroup
from tenuto.catalog.models import model_rows
from tenuto.core.provider import ModelTraits
from tenuto.core.request import ChatRequest

TODAY = date(2026, 11, 15)
PROVIDERS = [row.name for row in provider_rows.ROWS]
ROWS = [(name, row) for name in (*PROVIDERS, ANY_HOST) for row in model_rows(name)]
IDS = [(name, id) for name, row in ROWS for id in row.ids]


def literals(tp) -> set[str]:
    """The strings of a Literal, also inside a union."""
    if typing.get_origin(tp) is typing.Literal:
        return set(typing.get_args(tp))
    return set().union(*(literals(arg) for arg in typing.get_args(tp)))


# --- rows -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name, row", ROWS, ids=[f"{name}: {row.traits.family}" for name, row in ROWS])
def test_model_row_is_valid(name, row):
    """Types and words, patterns, dates, and values that depend on each other."""
    traits = row.traits

    assert msgspec.convert(msgspec.to_builtins(traits), ModelTraits) == traits
    assert re.compile(traits.pattern).groups == (1 if row.vendor else 0), "the group is the vendor's id of the model"
    assert row.vendor in ("", *PROVIDERS)
    assert set(traits.source.split(";")) <= {"sdk", "doc", "pa", "ll", "v", "gp", "inf"}
    assert traits.source
    assert traits.confidence
    assert set(traits.refuses) | set(traits.exclusive) <= set(ChatRequest.__struct_fields__)
    assert {traits.effort_default, traits.effort_when_off} <= {"", *(traits.efforts or ())}
    for day in (traits.retires, *(price.since for price in row.prices)):
        assert not day or date.fromisoformat(day).isoformat() == day
    assert [price.since for price in row.prices] == sorted(price.since for price in row.prices)


def test_patterns_of_a_provider_differ():
    """No row is hidden by an equal one."""
    patterns = [(name, row.traits.pattern) for name, row in ROWS]

    assert len(patterns) == len(set(patterns))


def test_listed_ids_are_described_by_their_row():
    """Each id is listed once, and the first row that matches it lists it."""
    first = {(name, id): next(row for row in model_rows(name) if row.match(id)) for name, id in IDS}

    assert len(IDS) == len(set(IDS)) > 200
    assert [] == [id for id, row in first.items() if id[1] not in row.ids]


@pytest.mark.parametrize("name", [*PROVIDERS, ANY_HOST, "my-gateway"])
def test_rows_are_in_the_module_of_their_provider(name):
    """`model_rows` loads one module; no other module has rows of the provider."""
    modules = [path.stem for path in Path(package.__file__).parent.glob("[a-z]*.py")]
    defined = [rows for module in modules if (rows := models._load(module).get(name))]

    assert defined == ([model_rows(name)] if model_rows(name) else [])


@pytest.mark.parametrize("mistake", [{"thinking": ("togle",)}, {"window": 1}, {"efforts": "low"}, {"confidence": "hi"}])
def test_mistake_in_row_is_refused(mistake):
    """An unknown field raises at import; a value of another type, or an unknown word, fails the test of all rows."""
    with pytest.raises((TypeError, msgspec.ValidationError)):
        msgspec.convert(msgspec.to_builtins(ModelGroup()("X", "x", **mistake).traits), ModelTraits)


@pytest.mark.parametrize(
    "fields, expected",
    [
        ({"thinking": ("toggle",)}, ("yes", ("low", "high"), "high", "always", "yes")),
        ({"thinking": ("effort", "always")}, ("always", ("low", "high"), "high", "always", "yes")),
        ({"thinking": ("none",)}, ("no", (), "", None, CONTINUITY["no-reasoning"])),
        ({"thinking": ("none",), "passback": "never"}, ("no", (), "", "never", CONTINUITY["no-reasoning"])),
        ({"efforts": ("none", "low")}, ("yes", ("none", "low"), "", "always", "yes")),
        ({"efforts": ("none", "low"), "effort_default": "none"}, ("no", ("none", "low"), "none", "always", "yes")),
    ],
)
def test_row_derives_fields_from_thinking(fields, expected):
    """A row that names a vendor does not: the vendor's row decides."""
    group = ModelGroup(
        thinking=("effort",), efforts=("low", "high"), effort_default="high", passback="always", continuity="yes"
    )
    traits = group("X", "x", **fields).traits

    derived = (traits.thinking_default, traits.efforts, traits.effort_default, traits.passback, traits.continuity)
    assert derived == expected
    assert "thinking_default" not in group("X", "x", vendor="openai", **fields).overrides


def test_row_lists_prefixes_that_are_ids():
    row = ModelGroup(path="models/")("X", "x-1", "x-", suffix=".*")

    assert row.ids == ("x-1",)
    assert row.match("models/x-2")
    assert not row.match("models/y")


@pytest.mark.parametrize("model", sorted(literals(anthropic.types.model.Model)))
def test_ids_of_anthropic_sdk_have_a_row(model):
    """Not only the row for later models."""
    traits = catalog.model_traits("anthropic", model)

    assert traits.known
    assert traits.family != "a later Claude"
    assert traits.dialect == "anthropic-messages"


OPENAI = literals(openai.types.shared.chat_model.ChatModel) | literals(
    openai.types.shared.responses_model.ResponsesModel
)


@pytest.mark.parametrize("model", sorted(OPENAI))
def test_ids_of_openai_sdk_have_a_row(model):
    """Not only the rows for later models, except an id that was never served."""
    traits = catalog.model_traits("openai", model)

    assert traits.known
    assert traits.dialect in ("openai-responses", "openai-chat")
    assert not traits.family.startswith(("a later", "another")) or model == "gpt-5.1-mini"


def test_import_loads_no_model_rows():
    """A lookup loads the rows of one provider and compiles few patterns."""
    script = """
import sys
from tenuto import catalog
from tenuto.catalog import model_rows
loaded = lambda: {name.rpartition(".")[2] for name in sys.modules if name.startswith("tenuto.catalog.model_rows.")}
assert loaded() == set(), loaded()
catalog.resolve("openai/gpt-6.1-sol")
assert loaded() == {"openai"}, loaded()
assert model_rows._compile.cache_info().currsize < 4
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=30)


# --- families ---------------------------------------------------------------------------------------------------------

CLAUDE = [
    # model, thinking, efforts, sampling, forced choice, prefill, system in mid-conversation, output
    ("claude-fable-5-1", ("always",), "low medium high xhigh max", "rejected", "rejected", "rejected", "native", 128_000),
    ("claude-opus-5-5", ("always",), "low medium high xhigh max", "rejected", "rejected", "rejected", "native", 128_000),
    ("claude-sonnet-5-5", ("adaptive", "between_tools"), "low medium high xhigh max", "rejected", "rejected", "rejected", "native", 128_000),
    ("claude-haiku-5-5", ("adaptive", "disabled"), "low medium high xhigh max", "rejected", "ok", "rejected", "native", 128_000),
    ("claude-opus-5", ("adaptive", "disabled"), "low medium high xhigh max", "rejected", "ok", "rejected", "native", 128_000),
    ("claude-sonnet-5", ("adaptive", "disabled"), "low medium high xhigh max", "rejected", "ok", "rejected", "ignored", 128_000),
    ("claude-fable-5", ("always",), "low medium high xhigh max", "rejected", "ok", "rejected", "native", 128_000),
    ("claude-opus-4-8", ("adaptive", "disabled"), "low medium high xhigh max", "rejected", "ok", "rejected", "native", 128_000),
    ("claude-opus-4-7", ("adaptive", "disabled"), "low medium high xhigh max", "rejected", "ok", "rejected", "rejected", 128_000),
    ("claude-opus-4-6", ("adaptive", "budget", "disabled"), "low medium high max", "ok", "not_with_thinking", "rejected", "rejected", 128_000),
    ("claude-sonnet-4-6", ("adaptive", "budget", "disabled"), "low medium high max", "ok", "not_with_thinking", "rejected", "rejected", 128_000),
    ("claude-opus-4-5-20251101", ("budget", "disabled"), "low medium high", "ok", "not_with_thinking", "ok", "rejected", 64_000),
    ("claude-sonnet-4-5@20250929", ("budget", "disabled"), "", "ok", "not_with_thinking", "ok", "rejected", 64_000),
    ("claude-haiku-4-5", ("budget", "disabled"), "", "ok", "not_with_thinking", "ok", "rejected", 64_000),
    ("claude-opus-4-20250514", ("budget", "disabled"), "", "ok", "not_with_thinking", "ok", "rejected", 32_000),
    ("claude-3-5-haiku-latest", ("none",), "", "ok", "ok", "ok", "rejected", 8192),
    ("claude-lyra-7-1", ("adaptive",), "low medium high xhigh max", "rejected", "rejected", "rejected", "native", 128_000),
]  # fmt: skip


@pytest.mark.parametrize("case", CLAUDE, ids=lambda case: case[0])
def test_claude(case):
    model, thinking, efforts, *rest = case
    traits = catalog.model_traits("anthropic", model)

    assert traits.thinking == thinking
    assert traits.efforts == tuple(efforts.split())
    assert rest == [traits.sampling, traits.forced_tool_choice, traits.prefill, traits.system_mid, traits.max_output]


GPT = [
    # model, dialect, efforts, default effort, sampling, tools on Chat Completions, output
    ("gpt-6-astra", "openai-responses", "low medium high xhigh max", "medium", "rejected", "rejected", 128_000),
    ("gpt-6.1-sol", "openai-responses", "low medium high xhigh max", "medium", "rejected", "rejected", 128_000),
    ("gpt-6-sol", "openai-responses", "none low medium high xhigh max", "medium", "only_without_reasoning", "effort_none", 128_000),
    ("gpt-5.6", "openai-responses", "none low medium high xhigh max", "medium", "only_without_reasoning", "effort_none", 128_000),
    ("gpt-5.5-2026-04-23", "openai-responses", "none low medium high xhigh", "medium", "only_without_reasoning", "effort_unset", 128_000),
    ("gpt-5.5-pro", "openai-responses", "medium high xhigh", "", "rejected", "rejected", 128_000),
    ("gpt-5.4-mini", "openai-responses", "none low medium high xhigh", "none", "only_without_reasoning", "effort_none", 128_000),
    ("gpt-5.2", "openai-responses", "none low medium high xhigh", "none", "only_without_reasoning", "ok", 128_000),
    ("gpt-5.3-codex", "openai-responses", "none low medium high xhigh", "none", "only_without_reasoning", "rejected", 128_000),
    ("gpt-5.2-codex", "openai-responses", "low medium high xhigh", "medium", "rejected", "rejected", 128_000),
    ("gpt-5.1-codex-max", "openai-responses", "low medium high xhigh", "medium", "rejected", "ok", 128_000),
    ("gpt-5.1-codex", "openai-responses", "low medium high", "medium", "rejected", "ok", 128_000),
    ("gpt-5.1-codex-mini", "openai-responses", "low medium high", "medium", "rejected", "ok", 128_000),
    ("gpt-5-codex", "openai-responses", "low medium high", "medium", "rejected", "ok", 128_000),
    ("codex-mini-latest", "openai-responses", "low medium high", "medium", "rejected", "rejected", 100_000),
    ("gpt-5.2-chat-latest", "openai-responses", "medium", "medium", "rejected", "ok", 16_384),
    ("gpt-5-chat-latest", "openai-responses", "", "", "ok", "ok", 16_384),
    ("gpt-5-pro", "openai-responses", "high", "high", "rejected", "rejected", 272_000),
    ("gpt-5.1", "openai-responses", "none low medium high", "none", "only_without_reasoning", "ok", 128_000),
    ("gpt-5-mini", "openai-responses", "minimal low medium high", "medium", "rejected", "ok", 128_000),
    ("o3", "openai-responses", "low medium high", "medium", "rejected", "ok", 100_000),
    ("gpt-5-search-api", "openai-chat", "", "", "rejected", "ok", 128_000),
    ("gpt-4.1-2025-04-14", "openai-chat", "", "", "ok", "ok", 32_768),
    ("gpt-4o", "openai-chat", "", "", "ok", "ok", 16_384),
    ("gpt-audio", "openai-chat", "", "", "ok", "ok", 16_384),
    ("gpt-8-nova", "openai-responses", "low medium high xhigh max", "medium", "rejected", "rejected", 128_000),
]  # fmt: skip


@pytest.mark.parametrize("case", GPT, ids=lambda case: case[0])
def test_gpt(case):
    """Responses for GPT-5, the o-series and later; Chat Completions before."""
    model, dialect, efforts, *rest = case
    traits = catalog.model_traits("openai", model)

    assert traits.dialect == dialect
    assert traits.efforts == tuple(efforts.split())
    assert rest == [traits.effort_default, traits.sampling, traits.chat_tools, traits.max_output]


GEMINI = [
    ("gemini-4-argon", ("level", "always"), "low medium high", "ignored", "rejected"),
    ("gemini-4-carbon-preview-11-2026", ("level", "always"), "low medium high", "ignored", "rejected"),
    ("gemini-3.8-flash", ("level",), "low medium high", "ignored", "rejected"),
    ("gemini-flash-latest", ("level",), "low medium high", "ignored", "rejected"),
    ("models/gemini-3.6-flash", ("level",), "minimal low medium high", "ignored", "rejected"),
    ("gemini-3.5-flash", ("level",), "minimal low medium high", "ok", "ok"),
    ("gemini-3.1-pro-preview", ("level", "always"), "low medium high", "ok", "ok"),
    ("gemini-3-pro-preview", ("level", "always"), "low high", "ok", "ok"),
    ("gemini-3-flash-preview", ("level",), "minimal low medium high", "ok", "ok"),
    ("gemini-2.5-pro", ("budget", "always"), "", "ok", "ok"),
    ("gemini-2.5-flash", ("budget",), "", "ok", "ok"),
    ("gemini-2.0-flash", ("none",), "", "ok", "ok"),
    ("gemini-5-neon", ("level", "always"), "low medium high", "ignored", "rejected"),
]


@pytest.mark.parametrize("model, thinking, efforts, sampling, prefill", GEMINI)
def test_gemini(model, thinking, efforts, sampling, prefill):
    """Levels since 3, budgets before; sampling has no effect since 3.6."""
    traits = catalog.model_traits("google", model)

    assert traits.thinking == thinking
    assert traits.efforts == tuple(efforts.split())
    assert (traits.sampling, traits.prefill) == (sampling, prefill)
    assert traits.system_mid == "top_only"


@pytest.mark.parametrize("effort", ["low", "medium", "high"])
@pytest.mark.parametrize(
    "model", ["gpt-5-codex", "gpt-5.1-codex", "gpt-5.1-codex-mini", "gpt-5.1-codex-max", "gpt-5.2-codex"]
)
def test_codex_effort_is_sent_unchanged(model, effort):
    """No effort that the model accepts becomes another one."""
    request = ChatRequest(model=model, messages=(UserMessage("x"),), effort=effort)
    wire = encode("openai-responses", request)

    assert json.loads(wire.body)["reasoning"]["effort"] == effort
    assert not wire.losses


@pytest.mark.parametrize(
    "provider, model, modalities",
    [
        ("google", "gemini-2.5-flash-preview-tts", ("audio",)),
        ("google", "gemini-2.5-flash-native-audio-preview-12-2025", ("audio",)),
        ("vertex", "gemini-2.5-pro-tts", ("audio",)),
        ("google", "gemini-3-pro-image", ("text", "image")),
        ("openai", "gpt-audio", ("text", "audio")),
        ("google", "gemini-3.8-flash", ("text",)),
        ("nobody", "some-model", ("text",)),
    ],
)
def test_output_modalities(provider, model, modalities):
    """Text by default; hosts use the vendor's value."""
    assert catalog.model_traits(provider, model).output_modalities == modalities


def test_traits_that_one_word_does_not_describe():
    assert catalog.model_traits("google", "gemini-2.5-pro").budget == (128, 32_768)
    assert catalog.model_traits("anthropic", "claude-opus-4-5").budget == (1024, 63_999)
    assert catalog.model_traits("anthropic", "claude-opus-5").effort_when_off == "high"
    assert catalog.model_traits("anthropic", "claude-haiku-4-5").exclusive == ("temperature", "top_p")
    assert catalog.model_traits("google", "gemini-3.7-flash").refuses == ("frequency_penalty", "presence_penalty")
    assert catalog.model_traits("xai", "grok-4.7").refuses == ("frequency_penalty", "presence_penalty", "stop")
    assert catalog.model_traits("anthropic", "claude-fable-5-1").prefix_bound
    assert not catalog.model_traits("anthropic", "claude-mythos-5-1").prefix_bound
    assert catalog.model_traits("anthropic", "claude-sonnet-4-5").interleaved_beta
    assert not catalog.model_traits("anthropic", "claude-opus-4-6").interleaved_beta


@pytest.mark.parametrize(
    "provider, model, passback",
    [
        ("deepseek", "deepseek-flash", "tool_turns"),
        ("deepseek", "deepseek-reasoner", "never"),
        ("moonshot", "kimi-k3", "tool_turns"),
        ("zai", "glm-5.3", "tool_turns"),
        ("minimax", "MiniMax-M2.7", "always"),
        ("mistral", "mistral-medium-latest", "always"),
        ("alibaba", "qwen3.8-max", "never"),
        ("groq", "openai/gpt-oss-120b", "tool_turns"),
        ("groq", "llama-3.3-70b-versatile", "never"),
        ("huggingface", "deepseek-ai/DeepSeek-V4-Pro", "tool_turns"),
        ("nvidia", "moonshotai/kimi-k2.6", "tool_turns"),
        ("my-gateway", "zai-org/GLM-5.3", "tool_turns"),
        ("my-gateway", "deepseek-ai/DeepSeek-R1", "never"),
        ("my-gateway", "minimax-m3", "always"),
    ],
)
def test_passback_of_models(provider, model, passback):
    """On any host."""
    assert catalog.model_traits(provider, model).passback == passback


def test_prefill_flags():
    assert catalog.model_traits("deepseek", "deepseek-v4-pro").prefill == "flag:prefix"
    assert catalog.model_traits("mistral", "mistral-large-latest").prefill == "flag:prefix"
    assert catalog.model_traits("moonshot", "kimi-k3.1-pro").prefill == "flag:partial"


# --- unknown models ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "provider, model",
    [
        ("nobody", "some-model"),
        ("openai", "babbage-002"),
        ("anthropic", "claude-next"),
        ("google", "gemini-embedding-2"),
        ("mistral", "brand-new"),
        ("groq", "whisper-large-v3"),
        ("together", "Gryphe/MythoMax-L2-13b"),
        ("openrouter", "mistralai/mixtral-8x7b"),
        ("azure", "my-deployment"),
        ("ollama", "my-model:7b"),
        ("vllm", "anything"),
        ("openai", ""),
    ],
)
def test_unknown_model_has_default_traits(provider, model):
    """So nothing is removed from its requests."""
    assert catalog.model_traits(provider, model) == ModelTraits()


# --- hosts of other vendors' models -----------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["anthropic/claude-opus-4.6", "~anthropic/claude-opus-4.6", "anthropic/claude-opus-4.6:thinking"])  # fmt: skip
def test_openrouter_merges_traits_of_the_vendor(model):
    """The vendor is removed from the id, and dots become dashes; effort and system messages are OpenRouter's."""
    traits, own = catalog.model_traits("openrouter", model), catalog.model_traits("anthropic", "claude-opus-4-6")

    assert traits.family == own.family
    assert (traits.sampling, traits.prefill, traits.max_output) == (own.sampling, own.prefill, own.max_output)
    assert traits.dialect == "openai-chat"
    assert traits.thinking == ("effort",)
    assert "none" in traits.efforts
    assert traits.system_mid == "native"
    assert traits.passback == "always"


def test_openrouter_has_no_effort_none_if_always_thinking():
    traits = catalog.model_traits("openrouter", "anthropic/claude-fable-5.1")

    assert traits.efforts == ("minimal", "low", "medium", "high", "xhigh", "max")
    assert traits.thinking == ("effort", "always")
    assert traits.forced_tool_choice == "rejected"
    assert traits.prefix_bound


def test_azure_deployment_named_like_a_model():
    """Any other name is unknown. Azure has its own retirement days."""
    assert catalog.model_traits("azure", "gpt-5.2").family == "GPT-5.2"
    assert catalog.model_traits("azure", "gpt-4o").dialect == "openai-chat"
    assert catalog.model_traits("azure", "o3").retires == ""
    assert "max" not in (catalog.model_traits("azure", "gpt-6-astra").efforts or ())


def test_vertex_uses_rows_of_both_vendors():
    """With and without the publisher's path."""
    assert catalog.model_traits("vertex", "gemini-3.5-flash").dialect == "gemini"
    assert catalog.model_traits("vertex", "publishers/google/models/gemini-3.5-flash").family == "Gemini 3.5 Flash"
    assert catalog.model_traits("vertex", "claude-opus-4-5@20251101").dialect == "anthropic-messages"
    assert catalog.model_traits("vertex", "gemini-2.5-pro").refuses == ()
    assert catalog.model_traits("vertex", "llama-4-maas").dialect == "openai-chat"


def test_fine_tuned_model_has_traits_of_its_base():
    """And its own price."""
    model = "ft:gpt-4o-mini-2024-07-18:acme::abc123"

    assert catalog.model_traits("openai", model).family == "GPT-4o mini"
    assert catalog.model_traits("openai", model).retires == "2027-01-14"
    assert catalog.model_traits("openai", "ft:gpt-4.1-2025-04-14:acme:x:y").family == "GPT-4.1"
    assert catalog.price_on("openai", model, TODAY).input == Decimal("0.3")
    assert catalog.price_on("openai", "ft:gpt-4.1:acme::1", TODAY) is None


def test_custom_host_keeps_refusals_of_the_vendor():
    """The dialect is the host's."""
    traits = catalog.model_traits("my-gateway", "anthropic/claude-opus-4.8")

    assert traits.family == "Claude Opus 4.8"
    assert traits.sampling == "rejected"
    assert traits.dialect is None


def test_thinking_modes_become_efforts_in_chat_dialect():
    """A budget has no equivalent there."""
    claude, budget = catalog.model_traits("gw", "claude-opus-4-8"), catalog.model_traits("gw", "claude-haiku-4-5")

    assert catalog.traits_for_dialect(claude, "openai-chat").thinking == ("effort",)
    always = catalog.traits_for_dialect(catalog.model_traits("gw", "claude-fable-5"), "openai-chat")
    assert always.thinking == ("effort", "always")
    assert catalog.traits_for_dialect(budget, "openai-chat").efforts is None
    assert catalog.traits_for_dialect(claude, "anthropic-messages") is claude
    grok = catalog.model_traits("xai", "grok-4.20")
    assert catalog.traits_for_dialect(grok, "openai-chat") is grok
    qwen = catalog.model_traits("alibaba", "qwen3.8-flash")
    assert catalog.traits_for_dialect(qwen, "openai-chat") is qwen


# --- prices -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model, before, after, day",
    [
        ("gemini-4-argon", "2 10 0.1", "4 20 0.2", date(2026, 12, 1)),
        ("gemini-4-carbon", "2 10 0.1", "4 20 0.2", date(2026, 12, 1)),
        ("gemini-3.8-flash", "0.75 3.75 0.075", "1.5 7.5 0.15", date(2027, 1, 1)),
        ("gemini-3.7-flash", "0.75 3.75 0.075", "1.5 7.5 0.15", date(2027, 1, 1)),
        ("gemini-3.6-flash", "0.75 3.75 0.075", "1.5 7.5 0.15", date(2027, 1, 1)),
    ],
)
def test_price_changes_on_its_day(model, before, after, day):
    def on(when: date) -> str:
        found = catalog.price_on("google", model, when)
        return f"{found.input} {found.output} {found.cache_read}"

    assert on(TODAY) == before
    assert on(day.replace(year=day.year - 1)) == before
    assert on(date.fromordinal(day.toordinal() - 1)) == before
    assert on(day) == after
    assert on(day.replace(year=day.year + 3)) == after


def test_launch_price_ends():
    assert catalog.price_on("mistral", "mistral-large-4", date(2026, 10, 19)).input == Decimal("0.68")
    assert catalog.price_on("mistral", "mistral-large-4", date(2026, 10, 20)).output == Decimal("4.18")


def test_unknown_price_is_none_and_free_is_zero():
    """A budget has to distinguish them."""
    assert catalog.price_on("anthropic", "claude-fable-5-2", TODAY) is None
    assert catalog.price_on("nobody", "some-model", TODAY) is None
    assert catalog.price_on("openrouter", "anthropic/claude-opus-4.6", TODAY) is None
    assert catalog.price_on("zai", "glm-4.7-flash", TODAY).input == 0
    assert catalog.price_on("ollama", "any-model", TODAY).output == 0
    assert catalog.price_on("vllm", "any-model", TODAY).output == 0
    pro = catalog.price_on("openai", "gpt-5.5-pro", TODAY)
    assert (pro.cache_read, pro.cache_write) == (None, None)


def test_prices_are_exact_decimals():
    known = catalog.price_on("anthropic", "claude-haiku-5-5", TODAY)

    assert (known.input, known.output) == (Decimal("0.1"), Decimal("0.5"))
    assert (known.cache_read, known.cache_write) == (Decimal("0.01"), Decimal("0.125"))
    assert known.tiered
    assert not catalog.price_on("anthropic", "claude-opus-4-8", TODAY).tiered
    assert catalog.price_on("minimax", "MiniMax-M2.7-highspeed", TODAY).input == Decimal("0.6")


# --- retirement -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "provider, model, day",
    [
        ("google", "gemini-2.5-pro-preview-tts", "2026-11-17"),
        ("anthropic", "claude-sonnet-4-5-20250929", "2026-11-30"),
        ("openai", "gpt-5", "2026-12-11"),
        ("openai", "gpt-5-mini", "2026-12-11"),
        ("openai", "gpt-5-nano", "2026-12-11"),
        ("openai", "gpt-5-pro", "2026-12-11"),
        ("openai", "o3", "2026-12-11"),
        ("openai", "o3-pro", "2026-12-11"),
        ("moonshot", "kimi-k2.6", "2026-12-31"),
        ("openai", "gpt-4o", "2027-01-14"),
        ("openai", "gpt-4o-mini", "2027-01-14"),
        ("openai", "gpt-4.1", "2027-01-14"),
        ("openai", "gpt-4.1-mini", "2027-01-14"),
        ("openai", "gpt-audio", "2027-01-20"),
        ("openai", "gpt-audio-mini", "2027-01-20"),
        ("openai", "gpt-audio-1.5", ""),
        ("openai", "gpt-5.1", "2027-04-01"),
        ("openai", "gpt-5.3-codex", "2027-04-01"),
        ("openai", "gpt-5.4-nano", "2027-04-01"),
        ("google", "gemini-3.1-flash-lite", "2027-05-07"),
        ("anthropic", "claude-opus-4-0", "2026-06-15"),
        ("anthropic", "claude-opus-5-5", ""),
        ("nobody", "some-model", ""),
    ],
)
def test_retirement_days(provider, model, day):
    assert catalog.model_traits(provider, model).retires == day


# --- owners and hosts -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model, vendor",
    [
        ("claude-sonnet-4-5", "anthropic"),
        ("claude-lyra-7-1", "anthropic"),
        ("ft:gpt-4o:acme::1", "openai"),
        ("gpt-5.2", "openai"),
        ("gemini-3-flash-preview", "google"),
        ("grok-4.7", "xai"),
        ("kimi-k3", "moonshot"),
    ],
)
def test_vendor_owns_bare_model_name(model, vendor):
    """By its own rows, including those for later models."""
    assert catalog.model_owners(model) == (vendor,)


@pytest.mark.parametrize("model", ["some-model", "llama-3.3-70b", "gpt-oss-120b", "openai", ""])
def test_bare_model_name_has_no_owner(model):
    """Hosts own no model, and a vendor does not own open weights that it does not serve."""
    assert catalog.model_owners(model) == ()


def test_hosts_list_bare_model_name():
    """By their own rows, not by rows of a vendor or of any host."""
    assert catalog.model_hosts("gpt-oss-120b") == ("cerebras", "sambanova", "ollama")
    assert catalog.model_hosts("claude-sonnet-4-5") == ()


def test_bare_model_names_of_the_catalog_have_one_owner():
    """No two vendors serve the same id."""
    ids = {id for _, id in IDS if "/" not in id}

    assert [] == [id for id in ids if len(catalog.model_owners(id)) > 1]
