"""The models' table: every line can be read, families are what they are known to be, and the unknown is left alone."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import typing
from datetime import date
from decimal import Decimal

import anthropic.types.model
import msgspec
import openai.types.shared.chat_model
import openai.types.shared.responses_model
import pytest
from hypothesis import HealthCheck, given, settings, strategies

from tenuto import UserMessage, catalog, encode
from tenuto.catalog import models
from tenuto.cli.catalogue import known_models
from tenuto.core.request import ChatRequest
from tenuto.core.target import ModelTraits

TODAY = date(2026, 11, 15)
RULES = [rule for vendor in (*models.vendors(), models.ANYWHERE) for rule in models.model_rows(vendor)]


def literals(tp) -> set[str]:
    """The strings of a Literal, wherever it stands in a union."""
    if typing.get_origin(tp) is typing.Literal:
        return set(typing.get_args(tp))
    return set().union(*(literals(arg) for arg in typing.get_args(tp)))


# --- the table itself -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.vendor}: {rule.traits.family}")
def test_every_rule_can_be_read(rule):
    """The pattern compiles, each value is one that its field may hold, and the row says whence and when."""
    pattern = re.compile(rule.pattern)

    msgspec.convert(msgspec.to_builtins(rule.traits), ModelTraits, strict=False)
    assert rule.traits.family
    assert rule.traits.source
    assert rule.traits.as_of == "2026-11-15"
    assert rule.traits.confidence in ("high", "medium", "low")
    assert pattern.groups == (1 if rule.of else 0), "a row of another vendor's names the id in its one group"
    assert rule.of == "" or rule.of in models.vendors()
    assert set(rule.traits.refuses) | set(rule.traits.exclusive) <= set(ChatRequest.__struct_fields__)
    assert rule.traits.effort_default in ("", *(rule.traits.efforts or ()))
    assert rule.traits.effort_when_off in ("", *(rule.traits.efforts or ()))
    if rule.traits.retires:
        date.fromisoformat(rule.traits.retires)


def test_no_rule_is_hidden_by_the_one_before():
    """Two lines of one vendor never have the same pattern."""
    seen = [(rule.vendor, rule.pattern) for rule in RULES]

    assert len(seen) == len(set(seen))


@pytest.mark.parametrize("model", sorted(literals(anthropic.types.model.Model)))
def test_every_id_of_the_anthropic_sdk_has_a_rule_of_its_own(model):
    """None is left to the rule for later families."""
    known = catalog.model_traits("anthropic", model)

    assert known.known
    assert known.family != "a later Claude"
    assert known.dialect == "anthropic-messages"


OPENAI = literals(openai.types.shared.chat_model.ChatModel) | literals(
    openai.types.shared.responses_model.ResponsesModel
)


@pytest.mark.parametrize("model", sorted(OPENAI))
def test_every_id_of_the_openai_sdk_has_a_rule_of_its_own(model):
    """None is left to the rules for later families, save one that was never served."""
    known = catalog.model_traits("openai", model)

    assert known.known
    assert known.dialect in ("openai-responses", "openai-chat")
    assert not known.family.startswith(("a later", "another")) or model == "gpt-5.1-mini"


def test_parsing_waits_until_somebody_asks():
    """Importing the tables compiles no pattern and reads no line."""
    script = (
        "import re\n"
        "compiled = []\n"
        "original = re.compile\n"
        "re.compile = lambda *args, **kwargs: (compiled.append(args), original(*args, **kwargs))[1]\n"
        "from tenuto.catalog import models\n"
        "assert models._lines.cache_info().currsize == 0\n"
        "assert models._compiled.cache_info().currsize == 0\n"
        "assert not any('claude' in str(pattern) for pattern, *_ in compiled)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=30)


def test_the_rows_of_a_vendor_are_found_without_the_tables_of_others():
    """A table that is named for a vendor has all of its rows; the rows of the others stand in those that are shared."""
    for vendor, lines in models._lines(None).items():
        assert models._lines(vendor)[vendor] == lines


# --- what is known of families ----------------------------------------------------------------------------------------

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
    """Each generation refuses other things."""
    model, thinking, efforts, *rest = case
    known = catalog.model_traits("anthropic", model)

    assert known.thinking == thinking
    assert known.efforts == tuple(efforts.split())
    assert rest == [known.sampling, known.forced_tool_choice, known.prefill, known.system_mid, known.max_output]


GPT = [
    # model, dialect, efforts, default effort, sampling, tools on Chat Completions, output
    ("gpt-6-astra", "openai-responses", "low medium high xhigh max", "medium", "rejected", "rejected", 128_000),
    ("gpt-6.1-sol", "openai-responses", "low medium high xhigh max", "medium", "rejected", "rejected", 128_000),
    ("gpt-6-sol", "openai-responses", "none low medium high xhigh max", "medium", "only_without_reasoning", "effort_none", 128_000),
    ("gpt-5.6", "openai-responses", "none low medium high xhigh max", "medium", "only_without_reasoning", "effort_none", 128_000),
    ("gpt-5.5-2026-04-23", "openai-responses", "none low medium high xhigh", "medium", "only_without_reasoning", "effort_none", 128_000),
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
    """Responses from GPT-5 on and for the o-series; Chat Completions before."""
    model, dialect, efforts, *rest = case
    known = catalog.model_traits("openai", model)

    assert known.dialect == dialect
    assert known.efforts == tuple(efforts.split())
    assert rest == [known.effort_default, known.sampling, known.chat_tools, known.max_output]


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
    """Levels from 3 on, budgets before; sampling is without effect from 3.6 on."""
    known = catalog.model_traits("google", model)

    assert known.thinking == thinking
    assert known.efforts == tuple(efforts.split())
    assert (known.sampling, known.prefill) == (sampling, prefill)
    assert known.system_mid == "top_only"


@pytest.mark.parametrize("effort", ["low", "medium", "high"])
@pytest.mark.parametrize(
    "model", ["gpt-5-codex", "gpt-5.1-codex", "gpt-5.1-codex-mini", "gpt-5.1-codex-max", "gpt-5.2-codex"]
)
def test_codex_models_get_the_effort_asked_for(model, effort):
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
    """Text, unless the row says otherwise; hosts take the vendor's value."""
    assert catalog.model_traits(provider, model).output_modalities == modalities


def test_facts_that_one_word_cannot_say():
    """Bounds of budgets, efforts with thinking off, refused parameters, bound thinking."""
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
        ("a host of one's own", "zai-org/GLM-5.3", "tool_turns"),
        ("a host of one's own", "deepseek-ai/DeepSeek-R1", "never"),
        ("a host of one's own", "minimax-m3", "always"),
    ],
)
def test_reasoning_goes_back_as_the_model_wants_it(provider, model, passback):
    """Wherever it is served."""
    assert catalog.model_traits(provider, model).passback == passback


def test_what_kimi_and_deepseek_and_mistral_want_of_a_last_assistant_message():
    """A flag, spelt differently."""
    assert catalog.model_traits("deepseek", "deepseek-v4-pro").prefill == "flag:prefix"
    assert catalog.model_traits("mistral", "mistral-large-latest").prefill == "flag:prefix"
    assert catalog.model_traits("moonshot", "kimi-k3.1-pro").prefill == "flag:partial"


# --- the unknown ------------------------------------------------------------------------------------------------------


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
def test_a_model_nobody_knows_is_left_alone(provider, model):
    """It has no traits at all, so nothing is taken from its requests."""
    assert catalog.model_traits(provider, model) == ModelTraits()


# --- hosts of other vendors' models -----------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["anthropic/claude-opus-4.6", "~anthropic/claude-opus-4.6", "anthropic/claude-opus-4.6:thinking"])  # fmt: skip
def test_openrouter_takes_the_vendors_word_and_its_own_form(model):
    """The prefix comes off, dots become dashes; effort and system messages are said OpenRouter's way."""
    known, own = catalog.model_traits("openrouter", model), catalog.model_traits("anthropic", "claude-opus-4-6")

    assert known.family == own.family
    assert (known.sampling, known.prefill, known.max_output) == (own.sampling, own.prefill, own.max_output)
    assert known.dialect == "openai-chat"
    assert known.thinking == ("effort",)
    assert "none" in known.efforts
    assert known.system_mid == "native"
    assert known.passback == "always"


def test_openrouter_cannot_turn_off_what_is_always_on():
    """Where the vendor's model always thinks, no effort none is offered."""
    known = catalog.model_traits("openrouter", "anthropic/claude-fable-5.1")

    assert known.efforts == ("minimal", "low", "medium", "high", "xhigh", "max")
    assert known.thinking == ("effort", "always")
    assert known.forced_tool_choice == "rejected"
    assert known.prefix_bound


def test_a_deployment_that_reads_like_a_model_is_taken_for_it():
    """Azure: any other name says nothing. Its calendar is its own."""
    assert catalog.model_traits("azure", "gpt-5.2").family == "GPT-5.2"
    assert catalog.model_traits("azure", "gpt-4o").dialect == "openai-chat"
    assert catalog.model_traits("azure", "o3").retires == ""
    assert "max" not in (catalog.model_traits("azure", "gpt-6-astra").efforts or ())


def test_vertex_asks_both_vendors():
    """Gemini and Claude, with the publisher's path or without."""
    assert catalog.model_traits("vertex", "gemini-3.5-flash").dialect == "gemini"
    assert catalog.model_traits("vertex", "publishers/google/models/gemini-3.5-flash").family == "Gemini 3.5 Flash"
    assert catalog.model_traits("vertex", "claude-opus-4-5@20251101").dialect == "anthropic-messages"
    assert catalog.model_traits("vertex", "gemini-2.5-pro").refuses == ()
    assert catalog.model_traits("vertex", "llama-4-maas").dialect == "openai-chat"


def test_a_fine_tuned_model_is_like_its_base():
    """And costs what fine-tuned models cost."""
    model = "ft:gpt-4o-mini-2024-07-18:acme::abc123"

    assert catalog.model_traits("openai", model).family == "GPT-4o mini"
    assert catalog.model_traits("openai", model).retires == "2027-01-14"
    assert catalog.model_traits("openai", "ft:gpt-4.1-2025-04-14:acme:x:y").family == "GPT-4.1"
    assert catalog.price_on("openai", model, TODAY).input == Decimal("0.3")
    assert catalog.price_on("openai", "ft:gpt-4.1:acme::1", TODAY) is None


def test_behind_a_gateway_the_vendors_refusals_hold():
    """A host that has no table serves known models too; which dialect it speaks is its own affair."""
    known = catalog.model_traits("my-gateway", "anthropic/claude-opus-4.8")

    assert known.family == "Claude Opus 4.8"
    assert known.sampling == "rejected"
    assert known.dialect is None


def test_modes_of_thinking_come_down_to_an_effort_in_the_chat_dialect():
    """Adaptive and level are words of other dialects; a budget has no common word."""
    claude, budget = catalog.model_traits("gw", "claude-opus-4-8"), catalog.model_traits("gw", "claude-haiku-4-5")

    assert catalog.traits_for_dialect(claude, "openai-chat").thinking == ("effort",)
    assert catalog.traits_for_dialect(catalog.model_traits("gw", "claude-fable-5"), "openai-chat").thinking == (
        "effort",
        "always",
    )
    assert catalog.traits_for_dialect(budget, "openai-chat").efforts is None
    assert catalog.traits_for_dialect(claude, "anthropic-messages") is claude
    grok = catalog.model_traits("xai", "grok-4.20")
    assert catalog.traits_for_dialect(grok, "openai-chat") is grok
    qwen = catalog.model_traits("alibaba", "qwen3.8-flash")
    assert catalog.traits_for_dialect(qwen, "openai-chat") is qwen


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.vendor}: {rule.traits.family}")
def test_a_pattern_that_is_passed_over_unread_would_not_have_matched(rule):
    """Ids are made from the pattern itself: each must still be found by `match`."""

    @given(model=strategies.from_regex(rule.pattern, fullmatch=True))
    @settings(max_examples=5, database=None, suppress_health_check=list(HealthCheck))
    def check(model):
        assert rule.match(model)

    check()


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
def test_a_price_changes_on_its_day(model, before, after, day):
    """The day before, the day itself, and long after."""

    def on(when: date) -> str:
        found = catalog.price_on("google", model, when)
        return f"{found.input} {found.output} {found.cache_read}"

    assert on(TODAY) == before
    assert on(day.replace(year=day.year - 1)) == before
    assert on(date.fromordinal(day.toordinal() - 1)) == before
    assert on(day) == after
    assert on(day.replace(year=day.year + 3)) == after


def test_a_launch_price_ends():
    """Mistral Large 4."""
    assert catalog.price_on("mistral", "mistral-large-4", date(2026, 10, 19)).input == Decimal("0.68")
    assert catalog.price_on("mistral", "mistral-large-4", date(2026, 10, 20)).output == Decimal("4.18")


def test_unknown_is_none_and_free_is_nought():
    """A budget must be able to tell the two apart."""
    assert catalog.price_on("anthropic", "claude-fable-5-2", TODAY) is None
    assert catalog.price_on("nobody", "some-model", TODAY) is None
    assert catalog.price_on("openrouter", "anthropic/claude-opus-4.6", TODAY) is None
    assert catalog.price_on("zai", "glm-4.7-flash", TODAY).input == 0
    assert catalog.price_on("ollama", "any-model", TODAY).output == 0
    assert catalog.price_on("vllm", "any-model", TODAY).output == 0
    pro = catalog.price_on("openai", "gpt-5.5-pro", TODAY)
    assert (pro.cache_read, pro.cache_write) == (None, None)


def test_prices_are_exact_and_say_whether_they_rise():
    """Decimals, with all four places where they are known."""
    known = catalog.price_on("anthropic", "claude-haiku-5-5", TODAY)

    assert (known.input, known.output) == (Decimal("0.1"), Decimal("0.5"))
    assert (known.cache_read, known.cache_write) == (Decimal("0.01"), Decimal("0.125"))
    assert known.tiered
    assert not catalog.price_on("anthropic", "claude-opus-4-8", TODAY).tiered
    assert catalog.price_on("minimax", "MiniMax-M2.7-highspeed", TODAY).input == Decimal("0.6")


# --- ends -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "provider, model, day",
    [
        ("google", "gemini-2.5-pro-preview-tts", date(2026, 11, 17)),
        ("anthropic", "claude-sonnet-4-5-20250929", date(2026, 11, 30)),
        ("openai", "gpt-5", date(2026, 12, 11)),
        ("openai", "gpt-5-mini", date(2026, 12, 11)),
        ("openai", "gpt-5-nano", date(2026, 12, 11)),
        ("openai", "gpt-5-pro", date(2026, 12, 11)),
        ("openai", "o3", date(2026, 12, 11)),
        ("openai", "o3-pro", date(2026, 12, 11)),
        ("moonshot", "kimi-k2.6", date(2026, 12, 31)),
        ("openai", "gpt-4o", date(2027, 1, 14)),
        ("openai", "gpt-4o-mini", date(2027, 1, 14)),
        ("openai", "gpt-4.1", date(2027, 1, 14)),
        ("openai", "gpt-4.1-mini", date(2027, 1, 14)),
        ("openai", "gpt-audio", date(2027, 1, 20)),
        ("openai", "gpt-audio-mini", date(2027, 1, 20)),
        ("openai", "gpt-audio-1.5", None),
        ("openai", "gpt-5.1", date(2027, 4, 1)),
        ("openai", "gpt-5.3-codex", date(2027, 4, 1)),
        ("openai", "gpt-5.4-nano", date(2027, 4, 1)),
        ("google", "gemini-3.1-flash-lite", date(2027, 5, 7)),
        ("anthropic", "claude-opus-4-0", date(2026, 6, 15)),
        ("anthropic", "claude-opus-5-5", None),
        ("nobody", "some-model", None),
    ],
)
def test_the_calendar_is_data(provider, model, day):
    """A model has a last day, or none that is known."""
    assert models.retirement(provider, model) == day


# --- whose model it is -----------------------------------------------------------------------------------------------


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
    """By its own table, including rules for families to come."""
    assert catalog.model_owners(model) == (vendor,)


@pytest.mark.parametrize("model", ["some-model", "llama-3.3-70b", "gpt-oss-120b", "openai", ""])
def test_bare_model_name_has_no_owner(model):
    """Hosts own nothing, and a vendor does not own open weights that it does not serve."""
    assert catalog.model_owners(model) == ()


def test_hosts_list_bare_model_name():
    """By rows of their own, not by a vendor's table or by what holds everywhere."""
    assert catalog.model_hosts("gpt-oss-120b") == ("cerebras", "sambanova", "ollama")
    assert catalog.model_hosts("claude-sonnet-4-5") == ()


def test_bare_model_names_of_the_catalog_have_one_owner():
    """No two vendors serve the same id."""
    ids = {known.model for known in known_models() if "/" not in known.model}

    assert [] == [id for id in ids if len(catalog.model_owners(id)) > 1]
