"""Read a provider's usage object into counts that do not overlap.

Usage is billing: a count that cannot be read is unknown (None), and the reply does not fail. `raw_usage` of a response
has the provider's own object.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec
from msgspec import Raw

from tenuto.core import jsonio
from tenuto.core.jsonio import Fields, is_list, is_object, list_or_empty, object_or_empty
from tenuto.core.loss import Location, Loss
from tenuto.core.messages import Usage

Paths: TypeAlias = tuple[tuple[str, int, str], ...]
"""A count, a section (0 the usage object, 1 and 2 the details of input and output) and a field in it."""
MODALITY_FIELDS = {"text_tokens": "text", "image_tokens": "image", "audio_tokens": "audio", "video_tokens": "video"}
_NOTHING = Usage()


def count_paths(**names: str) -> Paths:
    """Return the paths of counts: of several names, the first one with a count is read; `input.` and `output.` are the
    details.

    `tool_input` are input tokens of built-in tools that `input` does not include.
    """
    split = ((count, *path.rpartition(".")) for count, path in names.items() for path in path.split())
    return tuple((count, ("", "input", "output").index(section), field) for count, section, _, field in split)


class UsageTable(msgspec.Struct, frozen=True, kw_only=True):
    """Where the usage object of a dialect has its counts, and what they include."""

    counts: Paths
    input_details: tuple[str, ...] = ()
    """Names of the details of the input: the first one that is an object (or a list of modalities) is read."""
    output_details: tuple[str, ...] = ()
    modalities: Mapping[str, str] = {}  # fields of the details with counts by modality, and the modality
    modality_numbers: tuple[str, ...] = ()
    """The details are lists of modalities, each with its name or its index in this tuple."""

    input_includes_cache: bool = True
    output_includes_reasoning: bool = True
    keeps_parts: bool = False  # if parts exceed their total, the rest is 0; otherwise the parts are reduced
    counts_as_text: bool = False  # a count can be a string of digits: JSON with 64-bit integers
    spellings: Mapping[str, str] = {}  # other names of fields, each with the name in this table
    must_be_object: bool = False  # another value raises `JsonError`; otherwise it is a loss
    empty_is_none: bool = False  # an object without counts does not count as usage
    iterations: str = ""
    """A list of usage objects that the totals include, except those whose type is in `extra_iterations`."""
    extra_iterations: tuple[str, ...] = ()

    def read(
        self, usage: Raw | bytes | Fields, *, output_excludes_reasoning: bool = False
    ) -> tuple[Usage | None, list[Loss]]:
        """Read a usage object; None if it is missing or not an object. Counts that contradict each other are losses."""
        if not usage:
            return None, []
        raw = Raw(msgspec.json.encode(usage) if isinstance(usage, dict) else usage)
        fields = parse_tolerantly(raw)
        if not isinstance(fields, dict):
            if self.must_be_object:
                jsonio.members(raw)  # raises
            return None, [Loss("unreadable-usage", Location(path="usage"), jsonio.as_text(raw)[:200])]
        losses: list[Loss] = []
        includes_reasoning = self.output_includes_reasoning and not output_excludes_reasoning
        result = self._read_object(fields, includes_reasoning, losses)
        if self.iterations and isinstance(entries := fields.get(self.iterations), list):
            for entry in entries:
                if isinstance(entry, dict) and entry.get("type") in self.extra_iterations:
                    result += self._read_object(entry, includes_reasoning, losses)
        return None if self.empty_is_none and result == _NOTHING else result, losses

    def _read_object(self, fields: dict[str, Any], includes_reasoning: bool, losses: list[Loss]) -> Usage:
        if self.spellings and not self.spellings.keys().isdisjoint(fields):
            fields = {self.spellings.get(name, name): value for name, value in fields.items()} | fields
        input_details, input_modalities = self._read_details(fields, self.input_details)
        output_details, output_modalities = self._read_details(fields, self.output_details)
        sections = (fields.get, input_details.get, output_details.get)
        counts: dict[str, int] = {}
        for name, section, field in self.counts:
            value = sections[section](field)
            if value is None or name in counts:
                continue
            if type(value) is int and value >= 0:
                counts[name] = value
            elif (count := _count_or_none(value, self.counts_as_text)) is not None:
                counts[name] = count
        input, output = counts.get("input"), counts.get("output")
        cache_read, cache_write = counts.get("cache_read"), counts.get("cache_write")
        reasoning = counts.get("reasoning")
        if self.keeps_parts:
            input = _subtract_all("input_tokens", input, (cache_read or 0) + (cache_write or 0), losses)
            output = _subtract_all("output_tokens", output, reasoning or 0, losses)
        else:
            if self.input_includes_cache and (cache_read or cache_write):
                input, cache_read = _subtract("cache_read_tokens", input, cache_read, losses)
                input, cache_write = _subtract("cache_write_tokens", input, cache_write, losses)
            if includes_reasoning and reasoning:
                output, reasoning = _subtract("reasoning_tokens", output, reasoning, losses)
        if "tool_input" in counts:
            input = (input or 0) + counts["tool_input"]
        return Usage(
            input,
            cache_read,
            cache_write,
            output,
            reasoning,
            counts.get("total"),
            counts.get("audio_input"),
            counts.get("audio_output"),
            input_modalities,
            output_modalities,
        )

    def _read_details(
        self, fields: dict[str, Any], names: tuple[str, ...]
    ) -> tuple[dict[str, Any], dict[str, int] | None]:
        """Return the details and their counts by modality."""
        for name in names:
            details = fields.get(name)
            if isinstance(details, list) and self.modality_numbers:
                counts = self._sum_modalities(details)
                return counts, counts or None
            if isinstance(details, dict) and not self.modality_numbers:
                if self.modalities.keys().isdisjoint(details):
                    return details, None
                counts = {
                    modality: count
                    for field, modality in self.modalities.items()
                    if field in details and (count := _count_or_none(details[field])) is not None
                }
                return details, counts or None
        return {}, None

    def _sum_modalities(self, entries: list[Any]) -> dict[str, int]:
        totals: dict[str, int] = {}
        for entry in entries:
            if isinstance(entry, dict):
                modality = entry.get("modality")
                if isinstance(modality, int) and 0 <= modality < len(self.modality_numbers):
                    modality = self.modality_numbers[modality]
                count = entry.get("tokenCount") or entry.get("token_count")
                totals[str(modality)] = totals.get(str(modality), 0) + (_count_or_none(count, self.counts_as_text) or 0)
        return totals


def _count_or_none(value: object, as_text: bool = False) -> int | None:
    if as_text and isinstance(value, str) and value.isdecimal() and len(value) < 19:
        return int(value)
    if type(value) is int or (isinstance(value, float) and value.is_integer()):
        return int(value) if value >= 0 else None
    return None


def read_count(raw: Raw | None) -> int | None:
    """Return a whole number that is not negative; None for any other value."""
    return _count_or_none(parse_tolerantly(raw))


def parse_tolerantly(raw: Raw | None) -> Any:
    """Parse a value; None if it is missing. Only the parts of it that have a number out of range are None."""
    try:
        return None if raw is None else jsonio.parse(raw)
    except jsonio.JsonError:
        if is_object(raw):
            return {name: parse_tolerantly(value) for name, value in object_or_empty(raw).items()}
        return [parse_tolerantly(value) for value in list_or_empty(raw)] if is_list(raw) else None


def _subtract(name: str, total: int | None, part: int | None, losses: list[Loss]) -> tuple[int | None, int | None]:
    """Return the total without a part, and the part, reduced to the total if it is larger."""
    if total is None or part is None:
        return total, part
    if part > total:
        detail = f"{part} is more than the total of {total}"
        losses.append(Loss("contradicting-usage", Location(path=f"usage.{name}"), detail))
        part = total
    return total - part, part


def _subtract_all(name: str, total: int | None, parts: int, losses: list[Loss]) -> int | None:
    """Return the total without its parts; 0 if they are more than the total."""
    if total is None or parts <= total:
        return None if total is None else total - parts
    losses.append(Loss("usage-contradiction", Location(path="usage"), f"{name} is {total}, but its parts are {parts}"))
    return 0
