"""Models of the simulator that name only a provider: they accept everything."""

from tenuto.catalog.model_rows import ModelGroup

# The formatter would write one line per field.
# fmt: off
sim = ModelGroup(thinking_default="", continuity="yes", source="inf", confidence="high")
ROWS = {"sim": (
    sim("a Claude, simulated", "anthropic", max_output=128_000,
        thinking=("adaptive", "budget", "disabled", "between_tools")),
    sim("a Gemini, simulated", "gemini", "vertex", context_window=1_048_576, thinking=("level", "budget"),
        signed_calls="required"),
    sim("a GPT, simulated", "openai", "azure", thinking=("effort",), phases=True, cache_breakpoints=True),
    sim("another model with the Responses dialect, simulated", "xai", "meta", thinking=("effort",)),
    sim("a Claude through OpenRouter, simulated", "openrouter", thinking=("toggle", "effort"),
        reasoning_format="anthropic-claude-v1"),
    sim("a model that is asked by Chat Completions, simulated", suffix="(?:[a-z]+)", thinking=("toggle", "effort")),
)}
