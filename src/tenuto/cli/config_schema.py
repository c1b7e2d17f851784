"""The types of the settings in `config.toml`. Import it late: it loads msgspec and the client's parameters."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, get_args, get_origin

import msgspec
from msgspec import Meta

from tenuto.cli.terminal.text import closest_names
from tenuto.client.parameters import ModelParameters
from tenuto.core.provider import Dialect
from tenuto.core.request import Effort

_Approve = Literal["ask", "auto", "never"]
_Color = Literal["auto", "always", "never"]

TEXT = Annotated[str, Meta(description="text")]
_FLAG = Annotated[bool, Meta(description="true or false")]
_COUNT = Annotated[int, Meta(ge=1, description="a whole number, 1 or more")]
_AMOUNT = Annotated[float, Meta(gt=0, lt=1e300, description="a number above 0")]
TEXTS = Annotated[list[str], Meta(description='a list of texts, such as ["a", "b"]')]
_URL = Annotated[str, Meta(pattern="^https?://", description="a URL, http://... or https://...")]
_VARIABLE = Annotated[str, Meta(pattern=r"^[^\W\d]\w*$", description="the name of an environment variable")]
JSON = Annotated[Any, Meta(description="text, a number, true or false, a list or a table")]
ANY_NAME = "*"
"""The name of a table's entries if it takes any."""
_SETTINGS: dict[str, Any] = {
    "model": TEXT,
    "system": TEXT,
    "effort": Effort,
    "max_tokens": _COUNT,
    "options": {name: JSON for name in ModelParameters.__annotations__ if name not in ("effort", "max_tokens")},
    "allow_unverified": _FLAG,
    "fallback": TEXTS,
    "tools": TEXTS,
    "root": TEXT,
    "approve": _Approve,
    "allow": TEXTS,
    "deny": TEXTS,
    "max_turns": _COUNT,
    "max_usd": _AMOUNT,
    "max_tokens_total": _COUNT,
    "timeout": _AMOUNT,
    "quiet": _FLAG,
    "hide_thinking": _FLAG,
    "usage": _FLAG,
    "store": TEXT,
    "color": _Color,
}
_PROVIDER = {"base_url": _URL, "dialect": Dialect, "headers": {ANY_NAME: TEXT}, "key_env": _VARIABLE}
SCHEMA: dict[str, Any] = {
    **_SETTINGS,
    "profile": TEXT,
    "profiles": {ANY_NAME: _SETTINGS},
    "providers": {ANY_NAME: _PROVIDER},
}
"""The settings by name: a type, or a dictionary for a table."""
_SECRETS = ("api_key", "apikey", "api-key", "key", "keys", "token")


def find_problems(document: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the path of each wrong setting and what is wrong with it. Values that may be secrets are not quoted."""
    yield from _problems(document, SCHEMA, ())
    for name in document["providers"] if isinstance(document.get("providers"), dict) else ():
        if not name or "/" in name:
            yield ("providers", name), f"providers.{name!r}: the name of a provider is not empty and has no slash"
    profile, profiles = document.get("profile"), document.get("profiles", {})
    if isinstance(profile, str) and profile and isinstance(profiles, dict) and profile not in profiles:
        close = closest_names(profile, profiles)
        yield ("profile",), f"profile names {profile[:60]!r}, but there is no [profiles.{profile[:60]}]: {close}"


def _problems(value: object, schema: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    if not _is_table(schema):
        if problem := value_problem(path, value, schema):
            yield path, problem
    elif not isinstance(value, dict):
        yield path, f"{'.'.join(path)} should be a table, [{'.'.join(path)}], not {_shown(value, None)}"
    else:
        for name, item in value.items():
            step = (*path, name)
            try:
                yield from _problems(item, setting_type(step), step)
            except LookupError as exc:
                yield step, exc.args[0]


def setting_type(path: Sequence[str]) -> Any:
    """Return the type of a setting, or a dictionary for a table. Raise `LookupError` if the setting is unknown."""
    schema: Any = SCHEMA
    for at, name in enumerate(path):
        where = ".".join(path[:at])
        if not _is_table(schema):
            raise LookupError(f"unknown setting {'.'.join(path)}: {where} is {describe(schema)}")
        if name not in schema and ANY_NAME not in schema:
            table = f" in {where}" if where else ""
            if name.lower() in _SECRETS:
                raise LookupError(f"API key{table} ({name}): store it with tenuto keys set PROVIDER instead")
            raise LookupError(f"unknown setting {name[:60]!r}{table}: {closest_names(name, schema)}")
        schema = schema.get(name, schema.get(ANY_NAME))
    return schema


def _is_table(type_: Any) -> bool:
    return isinstance(type_, dict)


def value_problem(path: Sequence[str], value: object, type_: Any) -> str:
    """Return what is wrong with a value; empty if nothing is."""
    try:
        msgspec.convert(value, type_)
        if type_ is JSON:
            json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return f"{'.'.join(path)} should be {describe(type_)}, not {_shown(value, type_)}"
    return ""


def describe(type_: Any) -> str:
    """Return the values of a setting in words."""
    if _is_table(type_):
        return "a table"
    if choices := _choices(type_):
        return f"one of {', '.join(choices)}"
    return str(type_.__metadata__[0].description)


def _choices(type_: Any) -> tuple[str, ...]:
    return get_args(type_) if get_origin(type_) is Literal else ()


def _shown(value: object, type_: Any) -> str:
    """Return a value for a message: only its kind if it may be a secret."""
    if isinstance(value, str) and _choices(type_):
        close = closest_names(value, _choices(type_))
        return f"{value[:60]!r}" + (f"; {close}" if close.startswith("did you mean") else "")
    if isinstance(value, bool | int | float):
        return str(value).lower()
    kinds: dict[type, str] = {str: "text", list: "a list", dict: "a table"}
    return kinds.get(type(value), "a date or a time")


def parse_value(path: Sequence[str], words: Sequence[str]) -> Any:
    """Return the value of a setting from the words of a command line. Raise `LookupError` or `ValueError`."""
    type_, name = setting_type(path), ".".join(path)
    if _is_table(type_):
        raise LookupError(f"{name} is a table: set one of its keys, {name}.KEY")
    if not words:
        raise ValueError(f"no value for {name}, which should be {describe(type_)}; tenuto config unset removes it")
    if type_ is TEXTS:
        return list(words)
    if len(words) > 1:
        raise ValueError(
            f"{name} should be {describe(type_)}, not {len(words)} values: quote one that has spaces in it"
        )
    try:
        return _read_json(words[0]) if type_ is JSON else msgspec.convert(words[0], type_, strict=False)
    except ValueError:
        raise ValueError(value_problem(path, words[0], type_)) from None


def _read_json(word: str) -> Any:
    """Read a word as a TOML value if it is one, else as text."""
    try:
        return tomllib.loads(f"value = {word}")["value"] if "\n" not in word else word
    except tomllib.TOMLDecodeError:
        return word
