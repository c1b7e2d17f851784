"""Model rows: what each model accepts and what it costs. A new model is one call in a module of this package.

The first row of a provider that matches a whole model id describes the model: exceptions precede families, and the rows
for future models, which allow less, come last. `source` lists where the values are from: `sdk` the vendor's SDK, `doc`
its documentation, `pa` pydantic-ai-slim 2.66.0, `ll` litellm 1.108.4, `v` the Vercel packages, `gp` genai-prices 0.2.1,
`inf` inferred. `confidence`: `high` if sources agree or the API was probed, `medium` for one current source, `low` for
an assumption. Refusals are better founded than permissions: for a host, "ok" often means only that no refusal is known.
"""

import re
from decimal import Decimal
from functools import cache
from typing import Any, TypeAlias

import msgspec

from tenuto.core.provider import ModelTraits

AS_OF = "2026-11-15"
"""The day (ISO) on which the rows were last compared with their sources."""
ANY_HOST = "*"
"""The key of the rows that apply to a model on any host of other vendors' models."""
DATE = r"(?:[-@]\d{8}|-\d{4}-\d{2}-\d{2})?"
"""The optional date at the end of an id."""

LOW_TO_HIGH = ("low", "medium", "high")
LOW_TO_XHIGH = (*LOW_TO_HIGH, "xhigh")
LOW_TO_MAX = (*LOW_TO_XHIGH, "max")
LOW_HIGH_MAX = ("low", "high", "max")
_CONTINUITY = {
    "yes": "yes",
    "no-reasoning": "no: it returns no reasoning that could be handed back",
    "no-interleaving": "no: interleaved thinking with signatures is relied on from Claude 4.5 on",
    "no-encrypted-reasoning": "no: reasoning items with encrypted_content are relied on from GPT-5.2 on",
    "no-thought-signatures": "no: thoughtSignature on calls and text is relied on from Gemini 3 on",
    "chat-only": "no: it has no Responses API, and Chat Completions returns no reasoning",
    "reasoning-rejected": "no: it refuses the reasoning of earlier turns",
    "reasoning-ignored": "no: its server ignores the reasoning of earlier turns",
    "think-tags": "no: its reasoning is part of its text",
    "stateless-search": "no: each request is a search of its own",
    "native-only": "no: its reasoning items exist in the vendor's native API only",
}
UNSUPPORTED = frozenset(
    _CONTINUITY[word] for word in ("no-interleaving", "no-encrypted-reasoning", "no-thought-signatures")
)
"""The reasons for which the specification excludes models from agents (S0-16 to S0-18)."""


class Price(msgspec.Struct, frozen=True):
    """A price in USD per million tokens on the standard tier. None if unknown; 0 if free."""

    input: Decimal | None = None
    output: Decimal | None = None
    cache_read: Decimal | None = None
    cache_write: Decimal | None = None
    since: str = ""
    """The first day (ISO) of this price; empty for the first price that is known."""
    tiered: bool = False
    """Long prompts cost more. This is the lowest tier."""
    source: str = ""
    as_of: str = ""
    notes: str = ""
    """For example peak hours or promotions."""


class ModelRow(msgspec.Struct, frozen=True):
    """One row: a model, or a family of models with the same traits."""

    traits: ModelTraits
    """`pattern` is a regular expression for the whole id. If `vendor` is set, its group is the id at that vendor."""
    prefixes: tuple[str, ...]
    """Each matching id starts with one of these. They are compared first, so that few patterns are compiled."""
    ids: tuple[str, ...]
    """The ids to list. Ids with a date, and others that only the pattern matches, are not listed."""
    vendor: str
    """The provider whose rows describe the model, if this host serves it for a vendor; else empty."""
    overrides: dict[str, Any]
    """The fields of `ModelTraits` that this row sets; on a host they replace those of the vendor's row."""
    prices: tuple[Price, ...]
    """In the order of their first days; empty if unknown."""

    def match(self, model: str) -> re.Match[str] | None:
        return _compile(self.traits.pattern).fullmatch(model) if model.startswith(self.prefixes) else None


_compile = cache(re.compile)
Rows: TypeAlias = dict[str, tuple[ModelRow, ...]]
"""The rows of a module by provider, in the order in which they are tried."""


class ModelGroup:
    """Make rows that share fields: those of `ModelTraits`, which describes them, and these:

    `suffix`: a regular expression for the end of each id; `path`: a text that may precede it, such as `models/`;
    `ignore_case`: whether upper and lower case match; `ids`: the ids to list, by default the prefixes that end in a
    letter or digit; `vendor`: the provider whose rows describe the model, if this host serves it for a vendor; `usd`:
    the price of input, output, cache reads and cache writes, as far as they are known; `usd_from`: later prices by
    their first day (ISO); `tiered`: whether long prompts cost more; `usd` is the lowest tier then.

    `continuity` is a word of `_CONTINUITY`; `thinking_default` follows from `thinking` and `effort_default` (see
    `_apply_thinking`); `effort_default` is inherited only if it is one of `efforts`, which is () if none may be sent.
    """

    def __init__(self, **fields: Any) -> None:
        self._fields = fields

    def extend(self, **fields: Any) -> "ModelGroup":
        return ModelGroup(**{**self._fields, **fields})

    def __call__(self, family: str, *prefixes: str, **fields: Any) -> ModelRow:
        """Make a row for the ids that consist of one of `prefixes` and the suffix."""
        row: dict[str, Any] = {"confidence": "medium", **self._fields, **fields}
        pattern = "|".join(map(re.escape, prefixes))
        pattern = f"(?:{pattern})" if len(prefixes) > 1 else pattern
        pattern += row.pop("suffix", "")
        starts = prefixes or ("",)
        if path := row.pop("path", ""):
            pattern = f"(?:{re.escape(path)})?{pattern}"
            starts += tuple(path + prefix for prefix in starts)
        if row.pop("ignore_case", False):
            pattern, starts = f"(?i:{pattern})", ("",)
        ids = row.pop("ids", tuple(prefix for prefix in prefixes if prefix[-1].isalnum()))
        vendor, tiered = row.pop("vendor", ""), row.pop("tiered", False)
        usd = {"": row.pop("usd", ()), **row.pop("usd_from", {})}
        if "efforts" in row and row.get("effort_default") not in row["efforts"]:
            row["effort_default"] = ""
        if not vendor:
            _apply_thinking(row)
        overrides = {**row, "pattern": pattern, "as_of": AS_OF}
        if "continuity" in row:
            overrides["continuity"] = _CONTINUITY[row["continuity"]]
        traits = ModelTraits(known=True, family=family, **overrides)
        prices = tuple(_make_price(numbers, day, tiered, traits) for day, numbers in usd.items() if numbers)
        return ModelRow(traits, starts, ids, vendor, overrides, prices)


def _make_price(numbers: tuple[float, ...], since: str, tiered: bool, traits: ModelTraits) -> Price:
    input, output, cache_read, cache_write, *_ = *(Decimal(str(number)) for number in numbers), None, None
    return Price(input, output, cache_read, cache_write, since, tiered, traits.source, traits.as_of, traits.notes)


def _apply_thinking(row: dict[str, Any]) -> None:
    """Set the fields that follow from `thinking`. A model that does not think has no reasoning to send back."""
    thinking = row.get("thinking", ())
    if "none" in thinking:
        row.update({"thinking_default": "no", "efforts": (), "effort_default": ""})
        if row.get("passback") != "never":
            row["passback"] = None
        if row.get("continuity") == "yes":
            row["continuity"] = "no-reasoning"
    elif "always" in thinking:
        row["thinking_default"] = "always"
    elif thinking:
        row.setdefault("thinking_default", "no" if row.get("effort_default") == "none" else "yes")
