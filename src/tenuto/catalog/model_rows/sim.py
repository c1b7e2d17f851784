"""Models of the simulator that name only a provider: they accept everything."""

from tenuto.catalog.model_rows import ModelGroup, ModelRow

# The formatter would write one line per field.
# fmt: off

simulated = ModelGroup(continuity="yes", source="inf", confidence="high")

SIM = (
    simulated("a Claude, simulated", "anthropic", max_output=128_000,
        thinking=("adaptive", "budget", "disabled", "between_tools")),
    simulated("a Gemini, simulated", "gemini", "vertex", thinking=("level", "budget")),
    simulated("a model that is asked by Responses, simulated", "openai", "azure", "xai", "meta", thinking=("effort",)),
    simulated("a model that is asked by Chat Completions, simulated", suffix="(?:[a-z]+)",
        thinking=("toggle", "effort")),
)

ROWS: dict[str, tuple[ModelRow, ...]] = {"sim": SIM}
