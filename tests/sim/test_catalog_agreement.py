"""The simulator's model tables agree with the catalog on every field that both have."""

from __future__ import annotations

from typing import get_args

import pytest
from anthropic.types.model import Model as AnthropicModel
from openai.types.shared.all_models import AllModels

from tenuto import catalog
from tenuto.cli.catalogue import known_models
from tenuto.core.provider import Dialect, ModelTraits
from tenuto.sim.anthropic import models as anthropic
from tenuto.sim.chat import models as chat
from tenuto.sim.gemini import models as gemini
from tenuto.sim.responses import models as responses
from tenuto.sim.styles import exists, find

MORE = {
    "anthropic": get_args(get_args(AnthropicModel)[0]),
    "openai": [id for literal in get_args(AllModels)[1:] for id in get_args(literal)],
    "google": (
        *("gemini-1.5-pro-002", "gemini-1.5-flash-8b", "gemini-2.0-flash", "gemini-2.0-flash-lite-001"),
        *("gemini-2.5-flash-preview-09-2025", "gemini-2.5-flash-lite-preview-06-17", "gemini-2.5-pro-preview-05-06"),
        *(
            "gemini-3.5-flash-lite-001",
            "gemini-3.7-flash-lite",
            "gemini-3.8-flash-lite",
            "gemini-4-argon-preview-10-2026",
        ),
        *("gemini-2.5-computer-use-preview-10-2025", "gemma-4-31b-it", "gemma-3-27b-it", "gemini-5-neon"),
    ),
}
"""Ids that the catalog does not list: those of the SDKs, and of families with dates and other endings."""
SAMPLING = {"ok": "always", "only_without_reasoning": "none", "rejected": "never"}


def ids(provider: str, style: str, dialect: Dialect) -> list[str]:
    """Return the ids of the catalog that the simulator serves."""
    known = dict.fromkeys((*(model.model for model in known_models() if model.provider == provider), *MORE[provider]))
    served = (id for id in known if catalog.model_traits(provider, id).served)
    return [id for id in served if exists(*find(f"{style}/{id}", dialect))]


def responses_ids() -> list[str]:
    """Return the ids of the catalog with a row at Responses."""
    known = ids("openai", "openai", "openai-responses")
    return sorted(id for id in known if any(pattern.fullmatch(id) for pattern, _ in responses._OPENAI))


def differences(traits: ModelTraits, pairs: dict[str, tuple[object, object]]) -> dict[str, tuple[object, object]]:
    """Return the fields on which the tables differ; each pair is the catalog's value and the simulator's."""
    assert traits.known
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


@pytest.mark.parametrize("model", ids("anthropic", "anthropic", "anthropic-messages"))
def test_claude_models_agree(model):
    """Modes, default, sampling, forced choice, prefill, system messages, efforts, prefix binding, window."""
    traits, facts = catalog.model_traits("anthropic", model), anthropic.facts(model)
    modes = {
        {"budget": "enabled", "always": "adaptive", "none": "disabled"}.get(mode, mode) for mode in traits.thinking
    }
    sampling = "none" if traits.sampling == "rejected" else "one" if traits.exclusive else "any"

    assert not differences(
        traits,
        {
            "modes": (modes, set(facts.modes)),
            "is_thinking_enabled": (traits.thinking_default != "no", facts.thinks),
            "sampling": (sampling, facts.sampling),
            "forces": (traits.forced_tool_choice != "rejected", facts.forces),
            "prefill": (traits.prefill != "rejected", facts.prefills),
            "system": (traits.system_mid in ("native", "ignored"), facts.system),
            "effort when off": (traits.effort_when_off, "high" if facts.calm else ""),
            "bound": (traits.prefix_bound, facts.bound),
            "efforts": (set(traits.efforts or ()), set(facts.efforts)),
            "window": (traits.context_window or 0, facts.window),
        },
    )


@pytest.mark.parametrize("model", responses_ids())
def test_openai_models_agree(model):
    """Efforts, default effort, reasoning, sampling, window."""
    traits = catalog.model_traits("openai", model)
    facts = next(facts for pattern, facts in responses._OPENAI if pattern.fullmatch(model))

    assert not differences(
        traits,
        {
            "efforts": (traits.efforts or (), facts.efforts),
            "default": (traits.effort_default, facts.effort or ""),
            "reasons": ("none" not in traits.thinking, facts.reasons),
            "sampling": (SAMPLING[traits.sampling], facts.sampling),
            "window": (traits.context_window or 0, facts.window),
        },
    )


@pytest.mark.parametrize("model", ids("openai", "openai", "openai-chat"))
def test_openai_chat_models_agree(model):
    """Reasoning and its default, as the chat dialect of the simulator has them."""
    traits = catalog.model_traits("openai", model)
    reasons = traits.thinking_default != "" and "none" not in traits.thinking

    assert not differences(
        traits,
        {
            "reasons": (reasons, chat.is_openai_reasoner(model)),
            "idle": (traits.effort_default == "none", reasons and chat.effort(model, {}) == "none"),
        },
    )


@pytest.mark.parametrize("model", ids("google", "gemini", "gemini"))
def test_gemini_models_agree(model):
    """Thinking, levels, budget, prefill, window."""
    traits, facts = catalog.model_traits("google", model), gemini._of(model)

    assert not differences(
        traits,
        {
            "is_thinking_enabled": ("none" not in traits.thinking, facts.thinks),
            "levels": ("level" in traits.thinking, facts.level),
            "minimal": ("minimal" in (traits.efforts or ()), facts.level and facts.minimal),
            "budget": (traits.budget, facts.budget),
            "off": (traits.budget is not None and "always" not in traits.thinking, bool(facts.budget) and facts.off),
            "prefill": (traits.prefill != "rejected", facts.prefill),
            "window": (traits.context_window or 0, facts.window),
        },
    )
