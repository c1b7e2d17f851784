"""Values as plain JSON with the names of the recorded files, and their digests."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import msgspec

from baseline import renames

__all__ = ["Masker", "Names", "canonical", "digest"]

PROSE = ("Loss.what", "Loss.remedy")
"""Fields with explanations for people. They are compared separately: see `Names.prose`."""
_ABSENT = object()


def canonical(value: Any) -> str:
    """Write plain JSON in the canonical form."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def digest(value: Any, length: int = 8) -> str:
    """Return the first characters of the digest of plain JSON or of bytes, in base 64."""
    data = value if isinstance(value, bytes) else canonical(value).encode("utf-8", "surrogatepass")
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode()[:length]


class _Field(NamedTuple):
    name: str
    recorded: str
    default: Any
    convert: Callable[[Any], Any] | None
    prose: bool


class _Plan(NamedTuple):
    tag: dict[str, Any]
    fields: tuple[_Field, ...]


class Names:
    """Maps the names of the current code to those of the recorded files."""

    def __init__(self, table: ModuleType | SimpleNamespace = renames, prose: Iterable[str] = PROSE) -> None:
        self._table = table
        self._prose = frozenset(prose)
        self._classes = _inverse(table.CLASSES)
        self._tag_fields = _inverse(table.TAG_FIELDS)
        self._tags = {(old.partition(".")[0], new): old.partition(".")[2] for old, new in table.TAGS.items()}
        self._texts = sorted(((new, old) for old, new in table.TEXTS.items()), key=lambda pair: -len(pair[0]))
        self._plan = functools.cache(self._make_plan)

    def class_name(self, kind: type) -> str:
        """Return the recorded name of a class."""
        return self._classes.get(kind.__name__, kind.__name__)

    def tag(self, value: Any) -> str:
        """Return the recorded tag of a value; its class name if it has none."""
        return str(next(iter(self._plan(type(value)).tag.values()), self.class_name(type(value))))

    def tagged(self, value: Any) -> tuple[str, dict[str, Any]]:
        """Return the recorded tag of a value, and its plain fields without the tag."""
        fields = self.plain(value)
        for tag_field in self._plan(type(value)).tag:
            del fields[tag_field]
        return self.tag(value), fields

    def text(self, text: str) -> str:
        """Return a text with every renamed part as it was recorded."""
        for new, old in self._texts:
            text = text.replace(new, old)
        return text

    def arguments(self, recorded: tuple[str, ...]) -> tuple[str, ...]:
        """Return a recorded command line in its current form."""
        line = list(recorded)
        for old, new in self._table.ARGUMENTS.items():
            for at in range(len(line) - len(old), -1, -1):
                if tuple(line[at : at + len(old)]) == old:
                    line[at : at + len(old)] = new
        return tuple(line)

    def document(self, value: Any) -> Any:
        """Return JSON output of a command with the recorded names."""
        if isinstance(value, list):
            return [self.document(item) for item in value]
        if not isinstance(value, dict):
            return value
        names: dict[str, str] = {}
        for condition, fields in self._table.DOCUMENTS.items():
            if _matches(value, condition):
                names |= _inverse(fields)
        found = {names.get(name, name): self.document(item) for name, item in value.items()}
        if "kind" in value and _matches(value, self._table.ENTRY_KINDS):
            found["kind"] = self._tags.get(("entry", value["kind"]), value["kind"])
        if isinstance(value.get("entry"), str):
            found["entry"] = self._tags.get(("entry", value["entry"]), value["entry"])
        return found

    def word(self, key: str, value: str) -> str:
        """Return the recorded name of a value outside structs, by its key in `renames.WORDS`."""
        return str(_word(_inverse(self._table.WORDS.get(key, {})), value))

    def is_ignored(self, tag: str) -> bool:
        """Return whether events with this recorded tag are not recorded."""
        return tag in self._table.IGNORED_EVENTS

    def plain(self, value: Any, prose: list[str] | None = None) -> Any:
        """Return a value as plain JSON with recorded names.

        Fields with their default are omitted: a new optional field has no effect until it is used. Prose is omitted,
        too, and appended to `prose` if that is passed.
        """
        if value is None or isinstance(value, str | int | float | bool):
            return value
        if isinstance(value, msgspec.Struct):
            return self._struct(value, prose)
        if isinstance(value, Mapping):
            return {str(name): self.plain(item, prose) for name, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.plain(item, prose) for item in value]
        if isinstance(value, bytes):
            return value.decode("utf-8", "replace")
        return str(value)

    def _struct(self, value: msgspec.Struct, prose: list[str] | None) -> dict[str, Any]:
        plan = self._plan(type(value))
        found = dict(plan.tag)
        for name, recorded, default, convert, is_prose in plan.fields:
            field_value = getattr(value, name)
            if field_value == default and type(field_value) is type(default):
                continue
            plain = self.plain(field_value, prose)
            if is_prose:
                if prose is not None:
                    prose.append(f"{recorded}: {plain}")
                continue
            found[recorded] = plain if convert is None else convert(plain)
        return found

    def _make_plan(self, kind: type[msgspec.Struct]) -> _Plan:
        own = self.class_name(kind)
        config = kind.__struct_config__
        tags = {}
        if config.tag_field:
            tag_field = self._tag_fields.get(config.tag_field, config.tag_field)
            tags[tag_field] = self._tags.get((tag_field, str(config.tag)), config.tag)
        defaults = kind.__struct_defaults__
        padded = (*[_ABSENT] * (len(kind.__struct_fields__) - len(defaults)), *defaults)
        fields = [self._field(own, *pair) for pair in zip(kind.__struct_fields__, padded, strict=True)]
        return _Plan(tags, tuple(field for field in fields if field is not None))

    def _field(self, own: str, name: str, default: Any) -> _Field | None:
        table = self._table
        if {f"{own}.{name}", f"*.{name}"} & table.ADDED:
            return None
        recorded = name
        for scope in ("*", own):
            for old, new in table.FIELDS.items():
                if new == name and old.startswith(f"{scope}."):
                    recorded = old.partition(".")[2]
        key = f"{own}.{recorded}"
        factory = getattr(default, "factory", None)  # the form that msgspec stores for `field(default_factory=...)`
        if factory is not None:
            default = factory()
        convert = table.VALUES.get(key)
        if key in table.WORDS:
            convert = functools.partial(_word, _inverse(table.WORDS[key]))
        return _Field(name, recorded, default, convert, key in self._prose)


def _inverse(table: Mapping[str, str]) -> dict[str, str]:
    return {new: old for old, new in table.items()}


def _matches(value: Mapping[str, Any], condition: str) -> bool:
    conditions = [part.partition("=") for part in condition.split()]
    return all(name in value and (not equals or value[name] == text) for name, equals, text in conditions)


def _word(words: Mapping[str, str], plain: Any) -> Any:
    return words.get(plain, plain) if isinstance(plain, str) else plain


class Masker:
    """Masks values that differ between two runs, by the recorded name of the field: ids are numbered in order."""

    def __init__(self, numbered: Mapping[str, str], masked: Iterable[str]) -> None:
        self._numbered = numbered
        self._masked = frozenset(masked)
        self._seen: dict[tuple[str, str], str] = {}

    def number(self, word: str, value: str) -> str:
        """Return the replacement of an id; `word` is its kind."""
        number_of_id = self._seen.get((word, value))
        if number_of_id is None:
            count = sum(1 for kind, _ in self._seen if kind == word)
            number_of_id = self._seen[word, value] = f"<{word} {count + 1}>"
        return number_of_id

    def mask(self, plain: Any) -> Any:
        """Return plain JSON with the values of the listed fields replaced."""
        if isinstance(plain, list):
            return [self.mask(item) for item in plain]
        if not isinstance(plain, dict):
            return plain
        return {name: self._field(name, value) for name, value in plain.items()}

    def _field(self, name: str, value: Any) -> Any:
        if name in self._numbered and isinstance(value, str) and value:
            return self.number(self._numbered[name], value)
        if name in self._masked and value not in (None, ""):
            return f"<{name}>"
        return self.mask(value)
