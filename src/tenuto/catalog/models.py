"""What a model accepts, what it costs and when it ends: data with a date and a source, and the few questions put to it.

The rows are text, one line a rule (`tenuto.catalog.model_rows`); a vendor's are loaded when it is first asked for, and a row is
read when a model first fits it. Families are rules, exceptions are rows above them. Three things may surprise:

* A model that no rule describes is `ModelTraits()`: nothing is known of it, so nothing is taken from its requests. The
  rules for families to come (a later Claude, a later GPT) are narrow on purpose and send less.
* A host that serves other vendors' models asks the vendor's row, and lays its own words over it. Wherever a model is
  served, the group `[*]` says whether its reasoning is wanted back.
* A price that is not known is None and never 0. Prices have days: `price()` wants to know on which.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import date
from decimal import Decimal
from functools import cache, cached_property, lru_cache
from typing import Any

import msgspec
from msgspec.structs import replace

from tenuto.catalog.model_rows import AS_OF, tables
from tenuto.core.target import Dialect, ModelTraits

__all__ = [
    "UNSUPPORTED",
    "ModelRow",
    "Price",
    "model_hosts",
    "model_owners",
    "model_rows",
    "model_traits",
    "price_on",
    "retirement",
    "traits_for_dialect",
    "vendors",
]

ANYWHERE = "*"
_DATE = r"(?:[-@]\d{8}|-\d{4}-\d{2}-\d{2})?"
_PARTS = 7
_DOT = "\0"  # what stands for a dot while a pattern is looked at
_MAYBE = ("?", "*", "{")  # what stands before them may be missing
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
    _CONTINUITY[name] for name in ("no-interleaving", "no-encrypted-reasoning", "no-thought-signatures")
)
"""The reasons for which the specification excludes models from agents (S0-16 to S0-18)."""


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """USD per million tokens on the standard tier; None where it is not known.

    `since` is the day (ISO) the price began, if a change is on record. `tiered` prices rise with long prompts: this is
    the lowest tier. `notes` may tell of peak hours or promotions.
    """

    input: Decimal | None = None
    output: Decimal | None = None
    cache_read: Decimal | None = None
    cache_write: Decimal | None = None
    since: str = ""
    tiered: bool = False
    source: str = ""
    as_of: str = ""
    notes: str = ""


class ModelRow(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the tables.

    `of` names the vendor whose row holds for the id in the pattern's group; `over` are the traits that this line itself
    gives. `prices` come in the order of their days.
    """

    vendor: str
    pattern: str
    traits: ModelTraits
    of: str = ""
    over: dict[str, Any] = {}
    prices: tuple[Price, ...] = ()

    def match(self, model: str) -> re.Match[str] | None:
        """Match a whole id."""
        return _matched(self.pattern, model)


class _Row:
    """One line of the tables, of which only the pattern is read until a model fits it."""

    def __init__(self, vendor: str, line: str, common: dict[str, str]) -> None:
        self._vendor = vendor
        self._line = line
        self._common = common
        self.pattern = line.partition(" | ")[0].replace("<date>", _DATE)

    @cached_property
    def rule(self) -> ModelRow:
        """The whole line."""
        return _rule(self._vendor, self.pattern, self._line, self._common)


class _Group(msgspec.Struct, frozen=True):
    """The rows of one vendor; `others` and `price_on` as the first line of the group says."""

    rows: tuple[_Row, ...] = ()
    others: bool = True
    price: Price | None = None

    @property
    def rules(self) -> tuple[ModelRow, ...]:
        """All of them, read."""
        return tuple(row.rule for row in self.rows)


# --- asking -----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=2048)
def model_traits(provider: str, model: str) -> ModelTraits:
    """Return what `model` accepts at `provider` (a row's own name); `ModelTraits()` if no rule describes it."""
    found = _find(provider, model)
    return found[1] if found else ModelTraits()


def traits_for_dialect(model: ModelTraits, dialect: Dialect) -> ModelTraits:
    """Return the traits as a dialect that is not the model's own can say them.

    A vendor's modes of thinking are words of its dialect; in the chat dialect they come down to an effort, if the model
    takes one. A budget has no common word there, so a model that takes only budgets is left alone.
    """
    if dialect != "openai-chat" or {"effort", "toggle"} & set(model.thinking):
        return model
    if model.efforts:
        modes = ("effort", "always") if model.thinking_default == "always" else ("effort",)
        return replace(model, thinking=modes)
    return replace(model, thinking=(), efforts=None) if "budget" in model.thinking else model


def price_on(provider: str, model: str, on: date) -> Price | None:
    """Return what `model` costs at `provider` on a day; None if that is not known."""
    found = _find(provider, model)
    day = on.isoformat()[:10]
    current = [candidate for candidate in (found[0].prices if found else ()) if candidate.since <= day]
    return current[-1] if current else _group(provider).price


def retirement(provider: str, model: str) -> date | None:
    """Return the day from which the model is not served; None if no such day is known."""
    known = model_traits(provider, model).retires
    return date.fromisoformat(known) if known else None


def model_owners(model: str) -> tuple[str, ...]:
    """Return the vendors that serve a model of this bare id as their own."""
    makers = (name for name in vendors() if not _group(name).others)
    return tuple(name for name in makers if (known := model_traits(name, model)).known and known.served)


def model_hosts(model: str) -> tuple[str, ...]:
    """Return the hosts of other vendors' models that have a row of their own for this bare id."""
    return tuple(name for name in vendors() if _group(name).others and _has_row(name, model))


def vendors() -> tuple[str, ...]:
    """Return the names that have a table of their own."""
    return tuple(name for name in _lines(None) if name != ANYWHERE)


def model_rows(vendor: str) -> tuple[ModelRow, ...]:
    """Return the rules of a vendor, in the order in which they are tried."""
    return _group(vendor).rules


# --- finding ----------------------------------------------------------------------------------------------------------


def _find(provider: str, model: str) -> tuple[ModelRow, ModelTraits] | None:
    group = _group(provider)
    for row in (*group.rows, *(_group(ANYWHERE).rows if group.others else ())):
        match = _matched(row.pattern, model)
        if match is None:
            continue
        rule = row.rule
        if not rule.of:
            return rule, rule.traits
        known = _vendor_traits(rule.of, match.group(1))
        if known.known:
            return rule, _laid_over(known, rule, provider)
    return None


def _has_row(host: str, model: str) -> bool:
    """Tell whether a host has its own row for an id; a row that asks a vendor's table does not count."""
    rows = (row for row in _group(host).rows if _matched(row.pattern, model))
    return any(not row.rule.of for row in rows)


def _vendor_traits(vendor: str, model: str) -> ModelTraits:
    # Hosts spell `4.6` where some vendors spell `4-6`.
    known = model_traits(vendor, model)
    return known if known.known else model_traits(vendor, model.replace(".", "-"))


def _laid_over(vendor: ModelTraits, rule: ModelRow, provider: str) -> ModelTraits:
    over = dict(rule.over)
    if vendor.thinking_default == "always" and over.get("efforts"):
        over["efforts"] = tuple(effort for effort in over["efforts"] if effort != "none")
        over["thinking"] = ("effort", "always")
    if rule.of != provider:
        over.setdefault("retires", "")  # each platform has a calendar of its own
        over.setdefault("served", True)
    return replace(vendor, **over)


def _matched(pattern: str, model: str) -> re.Match[str] | None:
    """Match a whole id. A pattern is compiled when an id that begins like it is first asked for."""
    return _compiled(pattern).fullmatch(model) if model.startswith(_beginnings(pattern)) else None


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


@cache
def _beginnings(pattern: str) -> tuple[str, ...]:
    """Return letters with which everything a pattern matches begins: those up to its first sign, or to a choice of words
    behind them, with each of the words. A word that may stand in front is once there and once not.
    """
    pattern = pattern.replace(r"\.", _DOT)
    front, maybe, rest = pattern.removeprefix("(?:").partition(")?")
    if maybe and pattern.startswith("(?:") and all(map(_is_letter, front)):
        return tuple(f"{word}{letters}" for word in ("", front) for letters in _beginnings(rest))
    head = _beginning(pattern)
    choice, _, rest = pattern[len(head) :].partition(")")
    words = choice.removeprefix("(?:")
    if words == choice or not all(map(_is_letter, words.replace("|", ""))) or rest[:1] in _MAYBE:
        words = ""
    return tuple(f"{head}{word}".replace(_DOT, ".") for word in words.split("|"))


def _beginning(pattern: str) -> str:
    """Return letters that everything a pattern matches begins with; none if it is a choice at its top."""
    end = next((at for at, letter in enumerate(pattern) if not _is_letter(letter)), len(pattern))
    if "|" in pattern and _is_choice(pattern):
        return ""
    return pattern[: end - 1] if pattern[end : end + 1] in _MAYBE and end else pattern[:end]


def _is_letter(sign: str) -> bool:
    """Tell whether a sign of a pattern stands for itself."""
    return sign.isalnum() or sign in ("-", "_", "/", _DOT)


def _is_choice(pattern: str) -> bool:
    """Tell whether a bar of a pattern stands outside of all brackets."""
    depth = 0
    for letter in pattern:
        if letter == "|" and not depth:
            return True
        depth += (letter == "(") - (letter == ")")
    return False


# --- reading ----------------------------------------------------------------------------------------------------------


@cache
def _lines(vendor: str | None) -> dict[str, list[str]]:
    """Sort the lines of a vendor's tables, or of all, by vendor; a vendor's groups stay in their order."""
    by_vendor: dict[str, list[str]] = {}
    current: list[str] = []
    for line in (line for table in tables(vendor) for line in table.splitlines() if line):
        if line.startswith("["):
            current = by_vendor.setdefault(line[1 : line.index("]")], [])
        current.append(line)
    return by_vendor


@cache
def _group(vendor: str) -> _Group:
    found: list[_Row] = []
    common: dict[str, str] = {}
    lines = _lines(vendor).get(vendor)
    others, everywhere = lines is None, None
    for line in lines or ():
        if line.startswith("["):
            common = dict(_words(line.partition("]")[2]))
            others = common.pop("others", "no") == "yes" or others
            everywhere = _prices(common.pop("price", "-"), "doc", "one's own machine") or everywhere
        else:
            found.append(_Row(vendor, line, common))
    return _Group(tuple(found), others, everywhere[0] if everywhere else None)


def _words(text: str) -> Iterator[tuple[str, str]]:
    for word in text.split():
        key, _, value = word.partition("=")
        yield key, value


def _rule(vendor: str, pattern: str, line: str, common: dict[str, str]) -> ModelRow:
    _, family, given, cost, source, confidence, notes = line.split(" | ", _PARTS - 1)
    words = {**common, **dict(_words(given.removeprefix("-")))}
    of = words.pop("of", "")
    notes = notes.removeprefix("-")
    over: dict[str, Any] = {}
    for key, value in words.items():
        field, read = _FIELDS[key]
        over[field] = read(value)
        if key == "efforts":
            over["effort_default"] = next((word[:-1] for word in value.split("|") if word.endswith("*")), "")
    over |= {"pattern": pattern, "source": source, "as_of": AS_OF, "confidence": confidence}
    over |= {"notes": notes} if notes else {}
    return ModelRow(
        vendor=vendor,
        pattern=pattern,
        traits=ModelTraits(known=True, family=family, **over),
        of=of,
        over=over,
        prices=_prices(cost, source, notes),
    )


def _prices(text: str, source: str, notes: str) -> tuple[Price, ...]:
    """Read `2/10/0.1*, 2026-12-01 4/20/0.2`; the first price has no first day."""
    if text == "-":
        return ()
    found: list[Price] = []
    for part in text.split(", "):
        since, _, numbers = part.rpartition(" ")
        values = map(Decimal, numbers.rstrip("*").split("/"))
        named = dict(zip(("input", "output", "cache_read", "cache_write"), values, strict=False))
        tiered = numbers.endswith("*")
        found.append(Price(**named, since=since, tiered=tiered, source=source, as_of=AS_OF, notes=notes))
    return tuple(found)


def _flag(value: str) -> bool:
    return value == "yes"


def _number(value: str) -> int | None:
    return None if value == "-" else int(value)


def _word(default: str | None) -> Callable[[str], str | None]:
    return lambda value: default if value == "-" else value


def _list(separator: str) -> Callable[[str], tuple[str, ...]]:
    return lambda value: () if value == "-" else tuple(word.rstrip("*") for word in value.split(separator))


def _bounds(value: str) -> tuple[int, int]:
    low, _, high = value.partition("-")
    return int(low), int(high)


_FIELDS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "dialect": ("dialect", _word(None)),
    "window": ("context_window", _number),
    "output": ("max_output", _number),
    "thinking": ("thinking", _list("|")),
    "efforts": ("efforts", _list("|")),
    "default": ("thinking_default", _word("")),
    "budget": ("budget", _bounds),
    "off": ("effort_when_off", _word("")),
    "sampling": ("sampling", _word("ok")),
    "forced": ("forced_tool_choice", _word("ok")),
    "prefill": ("prefill", _word("ok")),
    "system": ("system_mid", _word("unverified")),
    "format": ("structured_output", _word("native")),
    "refuses": ("refuses", _list(",")),
    "exclusive": ("exclusive", _list(",")),
    "tools": ("tools", _flag),
    "parallel": ("parallel_tools", _flag),
    "images": ("images_in", _flag),
    "audio": ("audio_in", _flag),
    "documents": ("documents_in", _flag),
    "modalities": ("output_modalities", _list("|")),
    "served": ("served", _flag),
    "chat_tools": ("chat_tools", _word("ok")),
    "passback": ("passback", _word(None)),
    "continuity": ("continuity", _CONTINUITY.__getitem__),
    "interleaved": ("interleaved_beta", _flag),
    "bound": ("prefix_bound", _flag),
    "max_tokens": ("max_tokens_field", _word("")),
    "retires": ("retires", _word("")),
}
