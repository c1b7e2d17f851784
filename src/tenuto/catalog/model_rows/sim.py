"""Models of the simulator that name only a provider: they accept everything."""

from tenuto.catalog.model_rows import ModelGroup

# The formatter would write one line per field.
# fmt: off
sim = ModelGroup(thinking_default="", continuity="yes", source="inf", confidence="high")
ROWS = {"sim": (
    sim("a Claude, simulated", "anthropic", max_output=128_000,
        thinking=("adaptive", "budget", "disabled", "between_tools")),
    sim("a Gemini, simulated", "gemini", "vertex", thinking=("level", "budget")),
    sim("a model that is asked by Responses, simulated", "openai", "azure", "xai", "meta", thinking=("effort",)),
    sim("a model that is asked by Chat Completions, simulated", suffix="(?:[a-z]+)", thinking=("toggle", "effort")),
)}
