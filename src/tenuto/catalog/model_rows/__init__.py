"""What models accept, as text tables: one line a rule, one string a group of vendors. `tenuto.catalog` reads them.

A line `[vendor] key=value ...` opens a group and gives what its rows have in common. A row is

    pattern | family | key=value ... | price | sources | confidence | notes

with `-` for nothing. Within a vendor the first pattern that matches a whole id wins, so exceptions stand above rules and
rules for families yet to come stand last. `<date>` in a pattern is the optional date that ends an id.

| key | meaning |
|---|---|
| `dialect` | the dialect in which the model is asked, unless the caller says otherwise |
| `window`, `output` | tokens it can read, tokens it can write |
| `thinking`, `default` | accepted modes; whether it thinks unasked (`no`, `yes`, `always`) |
| `efforts` | accepted efforts, `*` on what the server assumes; `-` means that no effort may be sent |
| `budget`, `off` | bounds of a thinking budget; the highest effort that goes with thinking turned off |
| `sampling`, `forced`, `prefill`, `system`, `format` | sampling parameters, forced tool choice, a last assistant message, \
a system message in mid-conversation, structured output |
| `refuses`, `exclusive` | parameters that are refused or without effect; those of which one at most may be given |
| `tools`, `parallel`, `images`, `audio`, `documents` | `no` where the model has none (or takes none) |
| `modalities` | what a reply can contain: `text`, `image`, `audio`; `text` unless the row says otherwise |
| `served` | `no` where the vendor's own API does not serve the model (open weights) |
| `chat_tools` | function tools on Chat Completions: `effort_none` only without reasoning, `rejected` never |
| `passback`, `continuity` | which turns get their reasoning back; whether tokens carry it over (`yes`, or a word for why not) |
| `interleaved`, `bound` | wants the interleaved-thinking header with a budget; thinking is bound to its prefix |
| `max_tokens` | the word for the limit, where it differs from the provider's own in the chat dialect |
| `retires` | the day from which it is not served |
| `of` | the vendor whose row holds for the id in the pattern's group; the keys of this row then lie over that row |
| `others` | in a group's line: this host serves models of other vendors, so the group `[*]` is looked at last |
| `price` | in a group's line: what every model of this host costs, unless its row says otherwise |

A price is `input/output/cache read/cache write` in USD per million tokens on the standard tier. `*` says that long
prompts cost more than this. `2/10, 2026-12-01 4/20` is a price that changes on that day. What is left off is unknown.

Sources: `sdk` the vendor's SDK (anthropic 2.8.0, openai 3.49.0, google-genai 3.1.0, mistralai 3.7.0, ...), `doc` the
vendor's documentation, `pa` pydantic-ai-slim 2.66.0, `ll` litellm 1.108.4, `v` the Vercel provider packages, `gp`
genai-prices 0.2.1, `inf` inferred. Confidence is `high` where current sources agree or the API was probed, `medium` for
one current source or a settled conflict, `low` for an assumption. Refusals are better founded than permissions: "ok" on
a host often means only that nobody reported a refusal.
"""

from __future__ import annotations

import importlib

__all__ = ["AS_OF", "tables"]

AS_OF = "2026-11-15"
_OWN = ("anthropic", "openai", "google", "sim")
"""Vendors whose rows are a module of their own, and stand nowhere else."""
_SHARED = ("vendors", "hosts")


def tables(vendor: str | None = None) -> tuple[str, ...]:
    """Load the tables in which the rows of a vendor stand, if it has any; without one, all of them."""
    names = (*_OWN, *_SHARED) if vendor is None else (vendor,) if vendor in _OWN else _SHARED
    return tuple(importlib.import_module(f"{__name__}.{name}").ROWS for name in names)
