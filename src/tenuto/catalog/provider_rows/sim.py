"""The simulator on your machine, which imitates the other providers."""

from tenuto.catalog.provider_rows import hosts, makers
from tenuto.core.provider import Provider

_FIRST = {"anthropic": "anthropic", "openai": "openai", "google": "gemini"}
"""Listed first, under these names. `chat`, a server without peculiarities of the chat dialect, follows them."""
_OTHERS = (row.name for row in (*makers.ROWS, *hosts.ROWS) if not row.retired and row.name not in _FIRST)

# The formatter would write one line per field.
# fmt: off
ROW = Provider("sim", "openai-chat", "{sim}/v1", auth="none",
    fill={"sim": ("TENUTO_SIM_URL",)}, base_urls={"gemini": "{sim}/v1beta"},
    plays=(*_FIRST.values(), "chat", *_OTHERS), source="inf",
    notes="Its models name a provider, and may name a model: sim/anthropic, sim/anthropic/claude-opus-4-6; chat is a "
        "plain server of the chat dialect. It has the dialect, the switches and the embeddings of that provider, and "
        "the traits of that model. Its URL is the base_url that was passed, else TENUTO_SIM_URL; if neither is set, the "
        "client starts one in its own process, with TENUTO_SIM_SEED, TENUTO_SIM_PACE and TENUTO_SIM_SCRIPT (a file).")
