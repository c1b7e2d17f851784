"""The types of the settings in `config.toml`. Import it late: it loads msgspec and the client's parameters."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, get_args, get_origin

import msgspec
from msgspec import Meta

from tenuto.cli.terminal.text import closest_names
from tenuto.client.parameters import ModelParameters
from tenuto.core.provider import Dialect
from tenuto.core.request import Effort

_Text = Annotated[str, Meta(description="text")]
_Flag = Annotated[bool, Meta(description="true or false")]
_Count = Annotated[int, Meta(ge=1, description="a whole number, 1 or more")]
_Amount = Annotated[float, Meta(gt=0, lt=1e300, description="a number above 0")]
_Texts = Annotated[list[str], Meta(description='a list of texts, such as ["a", "b"]')]
_Url = Annotated[str, Meta(pattern="^https?://", description="a URL, http://... or https://...")]
_Variable = Annotated[str, Meta(pattern=r"^[^\W\d]\w*$", description="the name of an environment variable")]
_Json = Annotated[Any, Meta(description="text, a number, true or false, a list or a table")]
_ANY_NAME = "*"  # the name of a table's entries if it takes any
_SETTINGS: dict[str, Any] = {
    **dict.fromkeys(("model", "system", "root", "store"), _Text),
    **dict.fromkeys(("fallback", "tools", "allow", "deny"), _Texts),
    **dict.fromkeys(("max_tokens", "max_turns", "max_tokens_total"), _Count),
    **dict.fromkeys(("max_usd", "timeout"), _Amount),
    **dict.fromkeys(("allow_unverified", "strict", "quiet", "hide_thinking", "usage"), _Flag),
    "effort": Effort,
    "approve": Literal["ask", "auto", "never"],
    "color": Literal["auto", "always", "never"],
    "options": {name: _Json for name in ModelParameters.__annotations__ if name not in ("effort", "max_tokens")},
}
_HEADERS = {_ANY_NAME: _Text}
_PROVIDER = {"base_url": _Url, "dialect": Dialect, "headers": _HEADERS, "key_env": _Variable, "allow_unverified": _Flag}
SCHEMA: dict[str, Any] = {  # a type, or a dictionary for a table
    **_SETTINGS,
    "profile": _Text,
    "profiles": {_ANY_NAME: _SETTINGS},
    "providers": {_ANY_NAME: _PROVIDER},
    "aliases": {_ANY_NAME: _Text},
}
_SECRETS = ("api_key", "apikey", "api-key", "key", "keys", "token")


def find_problems(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with a document. Values that may be secrets are not quoted."""
    problems = list(_problems(document, SCHEMA, ""))
    yield from problems
    if problems:
        return
    for name in document.get("providers", ()):
        if not name or "/" in name:
            yield f"providers.{name!r}: the name of a provider is not empty and has no slash"
    profile, profiles = document.get("profile"), document.get("profiles", {})
    if profile and profile not in profiles:
        close = closest_names(profile, profiles)
        yield f"profile names {profile[:60]!r}, but there is no [profiles.{profile[:60]}]: {close}"


def _problems(value: Any, type_: Any, name: str) -> Iterator[str]:
    if not isinstance(type_, dict):
        try:
            msgspec.convert(value, type_)
            if type_ is _Json:
                json.dumps(value, allow_nan=False)
        except (TypeError, ValueError):
            yield f"{name} should be {_describe(type_)}, not {_shown(value, type_)}"
    elif not isinstance(value, dict):
        yield f"{name} should be a table, [{name}], not {_shown(value, type_)}"
    else:
        for key, item in value.items():
            below = type_.get(key, type_.get(_ANY_NAME))
            if below is not None:
                yield from _problems(item, below, f"{name}.{key}".lstrip("."))
            elif key.lower() in _SECRETS:
                yield f"{name}: keep API keys out of the file ({key}); use tenuto keys set PROVIDER instead"
            else:
                where = f" in {name}" if name else ""
                yield f"unknown setting {key[:60]!r}{where}: {closest_names(key, type_)}"


def _describe(type_: Any) -> str:
    if get_origin(type_) is Literal:
        return f"one of {', '.join(get_args(type_))}"
    return str(type_.__metadata__[0].description)


def _shown(value: object, type_: Any) -> str:
    """Return a value for a message: only its kind if it may be a secret."""
    if isinstance(value, str) and get_origin(type_) is Literal:
        close = closest_names(value, get_args(type_))
        return f"{value[:60]!r}" + (f"; {close}" if close.startswith("did you mean") else "")
    if isinstance(value, bool | int | float):
        return str(value).lower()
    kinds: dict[type, str] = {str: "text", list: "a list", dict: "a table"}
    return kinds.get(type(value), "a date or a time")
