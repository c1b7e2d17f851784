"""Every key that `config.toml` may have: what it holds, which option it stands for, and what is wrong with a file.

Nothing is read here; no file, no environment. What is typed to `tenuto config set` becomes a value by the same table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

__all__ = [
    "DIALECTS",
    "EFFORTS",
    "KEYS",
    "PROVIDER_KEYS",
    "Key",
    "Kind",
    "faults",
    "fitting",
    "kind_of",
    "near",
    "unfit",
]

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
DIALECTS = ("anthropic-messages", "openai-responses", "openai-chat", "gemini")
PARAMETERS = (
    *(
        "tool_choice",
        "parallel_tool_calls",
        "response_format",
        "thinking",
        "temperature",
        "top_p",
        "top_k",
        "stop",
        "seed",
    ),
    *("frequency_penalty", "presence_penalty", "logprobs", "top_logprobs", "logit_bias", "user", "verbosity"),
    *("service_tier", "modalities", "audio", "cache", "container", "metadata", "extra_body", "extra_headers"),
    "foreign_reasoning",
)
"""What `-o`, and so `options`, may name. This and the two above stand here so that nothing has to be loaded for them."""
_BEGIN = ("run", "chat")
"""Who begins a session: what a session asks with is its own from then on."""
_ASK = ("run", "chat", "resume")
_WORDS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


class Kind(NamedTuple):
    """What a key may hold."""

    says: str
    """What it should be, for who wrote something else."""
    fits: Callable[[Any], bool]
    read: Callable[[str], object] = str
    """Makes a value of a word that was typed; raises `ValueError`."""
    choices: tuple[str, ...] = ()
    many: bool = False
    """Each word is one of its values."""


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value > 0


def _number(word: str) -> object:
    return int(word) if word.isdecimal() else float(word)


def _is_money(value: object) -> bool:
    try:
        return _is_number(float(value)) if isinstance(value, str) else _is_number(value)
    except ValueError:
        return False


def _is_list(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _yes(word: str) -> object:
    return _WORDS.get(word.lower(), word)


def _any(word: str) -> object:
    """A parameter of a model's: a number, true, a list, if it reads like one; else text."""
    import tomllib

    try:
        return tomllib.loads(f"value = {word}")["value"] if "\n" not in word else word
    except tomllib.TOMLDecodeError:
        return word


def _is_table_of(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, dict) and all(map(fits, value.values()))


def _is_plain(value: object) -> bool:
    """Whether it can be said in JSON: a date cannot."""
    match value:
        case bool() | int() | str():
            return True
        case float():
            return math.isfinite(value)
        case list():
            return all(map(_is_plain, value))
        case dict():
            return all(map(_is_plain, value.values()))
        case _:
            return False


def _is_address(value: object) -> bool:
    return isinstance(value, str) and value.startswith(("http://", "https://"))


def _is_variable(value: object) -> bool:
    return isinstance(value, str) and value.isidentifier()


def _one_of(choices: Sequence[str]) -> Kind:
    return Kind(f"one of {', '.join(choices)}", lambda value: value in choices, choices=tuple(choices))


_TEXT = Kind("text", _is_text)
_WHOLE = Kind("a whole number, 1 or more", _is_whole, int)
_NUMBER = Kind("a number above 0", _is_number, _number)
_MONEY = Kind("an amount above 0", _is_money, _number)
_YES = Kind("true or false", lambda value: isinstance(value, bool), _yes)
_LIST = Kind('a list of texts, such as ["a", "b"]', _is_list, many=True)
_VALUE = Kind("text, a number, true or false, a list or a table", _is_plain, _any)
_OPTIONS = Kind("a table of parameters, each with its value", _is_table_of(_is_plain))
_HEADERS = Kind("a table of headers, each a text", _is_table_of(_is_text))
_VARIABLE = Kind("the name of a variable", _is_variable)
_ADDRESS = Kind("an address, http://... or https://...", _is_address)


class Key(NamedTuple):
    """One key: the option that it stands for, by click's name, in those verbs; in all that have it if none is named."""

    kind: Kind
    parameter: str
    verbs: tuple[str, ...] = ()
    variable: str = ""
    """What in the environment stands above it."""
    usual: object = None
    """What holds if nobody says anything."""


KEYS: dict[str, Key] = {
    "model": Key(_TEXT, "model", _BEGIN, "TENUTO_MODEL"),
    "system": Key(_TEXT, "system", _BEGIN),
    "effort": Key(_one_of(EFFORTS), "effort", _BEGIN),
    "max_tokens": Key(_WHOLE, "max_tokens", _BEGIN),
    "options": Key(_OPTIONS, "option", _BEGIN),
    "allow_unverified": Key(_YES, "allow_unverified", _BEGIN, usual=False),
    "fallback": Key(_LIST, "fallback", _ASK),
    "tools": Key(_LIST, "tool", _ASK),
    "root": Key(_TEXT, "root", _ASK, usual="."),
    "approve": Key(_one_of(("ask", "auto", "never")), "approve", _ASK, usual="ask"),
    "allow": Key(_LIST, "allow", _ASK),
    "deny": Key(_LIST, "deny", _ASK),
    "max_turns": Key(_WHOLE, "max_turns", _ASK, usual=100),
    "max_usd": Key(_MONEY, "max_usd", _ASK),
    "max_tokens_total": Key(_WHOLE, "max_tokens_total", _ASK),
    "timeout": Key(_NUMBER, "timeout", _ASK),
    "quiet": Key(_YES, "quiet", _ASK, usual=False),
    "hide_thinking": Key(_YES, "hide_thinking", _ASK, usual=False),
    "usage": Key(_YES, "usage", _ASK, usual=False),
    "store": Key(_TEXT, "store", (), "TENUTO_STORE"),
    "color": Key(_one_of(("auto", "always", "never")), "color", usual="auto"),
}
"""What the file may say, and so may each of its profiles."""
PROVIDER_KEYS: dict[str, Kind] = {
    "base_url": _ADDRESS,
    "dialect": _one_of(DIALECTS),
    "headers": _HEADERS,
    "key_env": _VARIABLE,
}
"""What `[providers.NAME]` may say."""
_TABLES = ("profile", "profiles", "providers")
_SECRETS = ("api_key", "apikey", "api-key", "key", "keys", "token")


def _alike(name: str, names: Collection[str], most: int) -> list[str]:
    import difflib  # every command reads this table, and few are told of a slip

    return difflib.get_close_matches(name, names, n=most)


def near(name: str, names: Collection[str]) -> str:
    """Say which name is meant, or which there are."""
    alike = _alike(name.lower(), names, 2)
    if alike:
        return f"did you mean {' or '.join(alike)}?"
    return f"there are {', '.join(names)}" if names else "there are none"


def _unknown(name: str, names: Collection[str], where: str) -> str:
    if name.lower() in _SECRETS:
        return f"{where or 'it'} has a key in it, {name!r}: keys are not kept here; tenuto keys set PROVIDER keeps one"
    return f"{where + ' has' if where else 'there is'} no setting {name[:60]!r}: {near(name, names)}"


def _called(value: object) -> str:
    """What a value is, without saying it: it may be a secret."""
    match value:
        case bool():
            return str(value).lower()
        case int() | float():
            return f"{value}"
        case str():
            return "text"
        case list():
            return "a list"
        case dict():
            return "a table"
        case _:
            return "a date or a time"


def unfit(name: str, kind: Kind, value: object) -> str:
    """Say that a value is none for a key; it is only quoted where it cannot be a secret."""
    if kind.choices and isinstance(value, str):
        alike = _alike(value, kind.choices, 1)
        return f"{name} should be {kind.says}, not {value[:60]!r}" + (f"; did you mean {alike[0]}?" if alike else "")
    return f"{name} should be {kind.says}, not {_called(value)}"


def faults(document: Mapping[str, Any]) -> Iterator[str]:
    """Say what is wrong with a file that was read, one thing after the other."""
    yield from _wrong({name: held for name, held in document.items() if name not in _TABLES}, _KINDS, "", _TABLES)
    for name in ("profiles", "providers"):
        if not isinstance(tables := document.get(name, {}), dict):
            yield f"{name} should be tables, [{name}.NAME], not {_called(tables)}"
    profiles = _tables(document, "profiles")
    for name, table in profiles.items():
        yield from _wrong(table, _KINDS, f"profiles.{name}")
    for name, table in _tables(document, "providers").items():
        if not name or "/" in name:
            yield f"providers.{name!r}: a provider's name stands before the slash of provider/model, and has none"
        yield from _wrong(table, PROVIDER_KEYS, f"providers.{name}")
    usual = document.get("profile", "")
    if not isinstance(usual, str):
        yield unfit("profile", _TEXT, usual)
    elif usual and usual not in profiles:
        yield f"profile names {usual[:60]!r}, and there is no [profiles.{usual[:60]}]: {near(usual, profiles)}"


def _tables(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    held = document.get(name)
    return held if isinstance(held, dict) else {}


def _wrong(table: object, kinds: Mapping[str, Kind], where: str, more: tuple[str, ...] = ()) -> Iterator[str]:
    if not isinstance(table, dict):
        yield f"{where} should be a table, [{where}], not {_called(table)}"
        return
    for name, held in table.items():
        if name not in kinds:
            yield _unknown(name, (*kinds, *more), where)
        elif not kinds[name].fits(held):
            yield unfit(f"{where}.{name}" if where else name, kinds[name], held)
        elif kinds[name] is _OPTIONS:
            strange = [one for one in held if one not in PARAMETERS]
            yield from (_unknown(one, PARAMETERS, f"{where}.{name}" if where else name) for one in strange)


def fitting(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a file says without what is wrong with it."""
    kept = {name: held for name, held in document.items() if name not in _TABLES and not any(faults({name: held}))}
    for name in ("profiles", "providers"):
        kept[name] = {
            one: {key: held for key, held in table.items() if not any(faults({name: {one: {key: held}}}))}
            for one, table in _tables(document, name).items()
            if isinstance(table, dict)
        }
    usual = document.get("profile")
    return {**kept, "profile": usual} if isinstance(usual, str) and usual in kept["profiles"] else kept


_KINDS = {name: key.kind for name, key in KEYS.items()}


def kind_of(path: Sequence[str]) -> Kind:
    """Return what stands at a place of the file. Raise `LookupError`, which says what is near, for one that is none."""
    match path:
        case ["profile"]:
            return _TEXT
        case ["profiles", _, *rest] if rest:
            return _kind(rest, _KINDS, ".".join(path[:2]))
        case ["providers", _, *rest] if rest:
            return _kind(rest, PROVIDER_KEYS, ".".join(path[:2]))
        case ["profiles" | "providers", *_]:
            raise LookupError(f"{'.'.join(path)} is a table: say what to set in it, {path[0]}.NAME.KEY")
        case _:
            return _kind(path, _KINDS, "", _TABLES)


def _kind(path: Sequence[str], kinds: Mapping[str, Kind], where: str, more: tuple[str, ...] = ()) -> Kind:
    name, *rest = path
    if name not in kinds:
        raise LookupError(_unknown(name, (*kinds, *more), where))
    if len(rest) == 1 and kinds[name] is _HEADERS:
        return _TEXT
    if len(rest) == 1 and kinds[name] is _OPTIONS:
        return _kind(rest, dict.fromkeys(PARAMETERS, _VALUE), f"{where}.{name}" if where else name)
    if rest:
        raise LookupError(f"{'.'.join(path)} is no setting: {name} is {kinds[name].says}")
    if kinds[name] in (_OPTIONS, _HEADERS):
        raise LookupError(f"{name} is {kinds[name].says}: name one of them, {name}.NAME")
    return kinds[name]
