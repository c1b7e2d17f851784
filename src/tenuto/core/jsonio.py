"""The one JSON door: read and write JSON without changing what a provider wrote.

msgspec does the work. Where it cannot (lone surrogates, numbers beyond a double), the standard library takes over, so
that whatever can be received can be stored and read back identical. Four promises:

* A value that is not ours to interpret travels as its own JSON text (`str` or `msgspec.Raw`), so `1.10` stays `1.10`.
* Half characters survive as escapes; two halves side by side are the character they make.
* Every unreadable document, and every value JSON has no word for, is one error: `JsonError`.
* Nesting beyond `MAX_DEPTH` is refused with a message that says so, before it can exhaust the stack.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Any, NoReturn, TypeVar

import msgspec
from msgspec import Raw

__all__ = [
    "MAX_DEPTH",
    "JsonError",
    "as_text",
    "check",
    "check_depth",
    "decode_as",
    "decoder",
    "elements",
    "encode",
    "join_surrogates",
    "lone_surrogates",
    "members",
    "object_text",
    "parse",
    "printable",
    "problem",
    "text_of",
]

T = TypeVar("T")
MAX_DEPTH = 200

_members = msgspec.json.Decoder(dict[str, Raw]).decode
_elements = msgspec.json.Decoder(list[Raw]).decode
_raw = msgspec.json.Decoder(Raw).decode
_any = msgspec.json.Decoder().decode
_string = msgspec.json.Decoder(str).decode
_compact = msgspec.json.Encoder().encode
_UNREAD = (msgspec.DecodeError, UnicodeError, RecursionError)
"""What msgspec says of a text that it cannot read: others may."""
# A string that never ends counts as one token, too: were it none, each quote inside it would be tried anew.
_TOKENS = rb'(?s)"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|[\[\]{}]'  # compiled when a text has many
_SPACE = r"[ \t\n\r]*"
_SURROGATE = "[\ud800-\udfff]"  # compiled when there is one to look for
_INFINITY = float("inf")
_DECODERS: dict[type, Any] = {}
_dumps = json.JSONEncoder(ensure_ascii=False).encode


class JsonError(ValueError):
    """The text is not JSON that can be kept: the message says what is wrong with it."""


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if abs(number) == _INFINITY:
        raise JsonError(f"number out of range: {digits[:40]}")
    return number


# Digits stay text here: this scanner only finds where values end, and int() refuses more than 4,300 digits.
_scanner = json.JSONDecoder(parse_constant=_refuse_constant, parse_int=str, parse_float=str, strict=True)
_plain = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite, strict=True)


def check_depth(data: bytes | str | Raw) -> bytes:
    """Return the text as bytes; refuse nesting over `MAX_DEPTH`. A text that is no longer than that need not be asked."""
    raw = _bytes(data) if isinstance(data, str) else bytes(data)
    if raw.count(b"[") + raw.count(b"{") > MAX_DEPTH:
        _measure(raw)
    return raw


def _measure(data: bytes) -> None:
    """Count how deep a text nests. Strings are skipped, so brackets inside them do not count."""
    depth = 0
    for token in re.finditer(_TOKENS, data):
        first = data[token.start()]
        if first in b"[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise JsonError(f"nested deeper than {MAX_DEPTH} levels")
        elif first in b"]}":
            depth -= 1


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _attempt(fast: Callable[[bytes], T], slow: Callable[[str], T], data: bytes | str | Raw) -> T:
    """Read what msgspec did not: once more as bytes, since a `str` with half a character is none to it; then slowly."""
    raw = check_depth(data)
    try:
        return fast(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as first:
        text = as_text(raw)
        try:
            return slow(text)
        except JsonError:
            raise
        except msgspec.ValidationError as second:
            raise JsonError(str(second)) from None
        except UnicodeEncodeError:  # msgspec's, while it looks for a number or a word
            raise JsonError("a string with half a character does not fit here") from None
        except (ValueError, RecursionError):
            raise JsonError(str(first)) from None


def _skip(text: str, at: int) -> int:
    match = re.compile(_SPACE).match(text, at)
    return match.end() if match else at


def _slow_members(text: str) -> dict[str, Raw]:
    found: dict[str, Raw] = {}
    at = _skip(text, 0)
    if text[at : at + 1] != "{":
        raise JsonError("Expected `object`")
    at = _skip(text, at + 1)
    if text[at : at + 1] == "}":
        return _ended(text, at + 1, found)
    while True:
        if text[at : at + 1] != '"':
            raise JsonError(f"expected a key at character {at}")
        key, at = _scanner.raw_decode(text, at)
        at = _skip(text, at)
        if text[at : at + 1] != ":":
            raise JsonError(f"expected ':' at character {at}")
        start = _skip(text, at + 1)
        _, at = _scanner.raw_decode(text, start)
        found[key] = Raw(_bytes(text[start:at]))
        at = _skip(text, at)
        if text[at : at + 1] == "}":
            return _ended(text, at + 1, found)
        if text[at : at + 1] != ",":
            raise JsonError(f"expected ',' or '}}' at character {at}")
        at = _skip(text, at + 1)


def _ended(text: str, at: int, found: T) -> T:
    if _skip(text, at) != len(text):
        raise JsonError(f"trailing characters at character {at}")
    return found


def _slow_elements(text: str) -> list[Raw]:
    found: list[Raw] = []
    at = _skip(text, 0)
    if text[at : at + 1] != "[":
        raise JsonError("Expected `array`")
    at = _skip(text, at + 1)
    if text[at : at + 1] == "]":
        return _ended(text, at + 1, found)
    while True:
        end = _scanner.raw_decode(text, at)[1]
        found.append(Raw(_bytes(text[at:end])))
        at = _skip(text, end)
        if text[at : at + 1] == "]":
            return _ended(text, at + 1, found)
        if text[at : at + 1] != ",":
            raise JsonError(f"expected ',' or ']' at character {at}")
        at = _skip(text, at + 1)


def _slow_check(text: str) -> Raw:
    start = _skip(text, 0)
    end = _scanner.raw_decode(text, start)[1]
    return _ended(text, end, Raw(_bytes(text[start:end])))


def _slow_parse(text: str) -> Any:
    start = _skip(text, 0)
    found, end = _plain.raw_decode(text, start)
    return _ended(text, end, found)


# Each of these begins alike, and calls nobody on the way: splitting a reply into its fields is most of reading it.


def members(data: bytes | str | Raw) -> dict[str, Raw]:
    """Split a JSON object into its members, each value as its exact text. A repeated key: the last one counts."""
    if len(data) > MAX_DEPTH:
        data = check_depth(data)
    try:
        return _members(data)
    except _UNREAD:
        return _attempt(_members, _slow_members, data)


def elements(data: bytes | str | Raw) -> list[Raw]:
    """Split a JSON array into its elements, each as its exact text."""
    if len(data) > MAX_DEPTH:
        data = check_depth(data)
    try:
        return _elements(data)
    except _UNREAD:
        return _attempt(_elements, _slow_elements, data)


def parse(data: bytes | str | Raw) -> Any:
    """Decode to plain Python values. Numbers lose their spelling here: only for values that are ours to interpret."""
    if len(data) > MAX_DEPTH:
        data = check_depth(data)
    try:
        return _any(data)
    except _UNREAD:
        return _attempt(_any, _slow_parse, data)


def decode_as(data: bytes | str | Raw, kind: type[T]) -> T:
    """Decode to `kind`; raise `JsonError` where the text is no JSON or does not fit."""

    def fast(raw: bytes) -> T:
        return msgspec.json.decode(raw, type=kind)

    def slow(text: str) -> T:
        return msgspec.convert(_slow_parse(text), kind)

    return _attempt(fast, slow, data)


def decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    """Return the decoder for `kind`, made when it is first asked for: making one costs as much as loading a module."""
    found: msgspec.json.Decoder[T] | None = _DECODERS.get(kind)
    if found is None:
        found = _DECODERS[kind] = msgspec.json.Decoder(kind)
    return found


def check(data: bytes | str | Raw) -> Raw:
    """Return `data` as `Raw` after making sure that it is one JSON document; raise `JsonError` if it is not."""
    raw = _attempt(_raw, _slow_check, data)
    as_text(raw)  # msgspec does not look inside strings it skips
    return raw


def problem(data: bytes | str | Raw) -> str:
    """Say why `data` is not JSON; empty if it is."""
    try:
        check(data)
    except JsonError as exc:
        return str(exc) or "not JSON"
    return ""


def text_of(value: Raw | None, default: str = "") -> str:
    """Return a JSON string's value; `default` for null or absent; raise `JsonError` for anything else."""
    if value is None:
        return default
    try:
        return _string(value)  # a string nests nothing: no need to look at its depth
    except (msgspec.DecodeError, UnicodeDecodeError):
        if bytes(value) == b"null":
            return default
    found = _attempt(_string, _slow_parse, value)
    if not isinstance(found, str):
        raise JsonError(f"Expected `str`, got `{bytes(value)[:40].decode('utf-8', 'replace')}`")
    return found


def as_text(value: bytes | Raw) -> str:
    """Return the JSON text itself as a string."""
    try:
        return str(value, "utf-8", "surrogatepass")
    except UnicodeDecodeError as exc:
        raise JsonError(f"not UTF-8: {exc.reason} at byte {exc.start}") from None


def object_text(fields: dict[str, Raw]) -> str:
    """Join members into the text of an object; empty for none, so that "nothing extra" has one spelling."""
    if not fields:
        return ""
    try:
        return _compact(fields).decode()  # what is spliced cannot be infinite: `encode` would look for that
    except UnicodeError:
        return as_text(encode(fields))


def lone_surrogates(text: str) -> bool:
    """Tell whether `text` holds a half character that UTF-8 cannot carry."""
    return not text.isascii() and re.search(_SURROGATE, text) is not None


def join_surrogates(text: str) -> str:
    """Join the halves of characters that were cut in two, as pieces of a stream can be; a lone half stays."""
    if not lone_surrogates(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def printable(text: str) -> str:
    """Join the halves of characters, and write U+FFFD for a lone one: for people, since it cannot be printed."""
    return re.sub(_SURROGATE, "\ufffd", join_surrogates(text)) if lone_surrogates(text) else text


def encode(value: Any) -> bytes:
    """Write compact JSON. `Raw` is spliced in as it stands; lone surrogates become escapes that read back identical.

    What JSON has no word for (NaN and infinities, objects of any class), and nesting without end are a `JsonError`.
    """
    try:
        return _written(value)
    except RecursionError:
        raise JsonError(f"nested deeper than {MAX_DEPTH} levels") from None
    except JsonError:
        raise
    except (TypeError, ValueError) as exc:  # msgspec's word for a class, Python's for an integer of too many digits
        raise JsonError(str(exc)) from exc


def _written(value: Any) -> bytes:
    try:
        data = _compact(value)
    except UnicodeEncodeError:
        return _escaped(value)
    if not data.isascii() and not _is_utf8(data):
        return _escaped(value)
    if data.find(b"null") >= 0:  # msgspec's word for NaN, too; `in` costs more: it first asks whether that is a number
        _refuse_infinite(value)
    return data


def _is_utf8(data: bytes) -> bool:
    """Tell whether spliced text brought no half characters along as bytes."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _refuse_infinite(value: Any) -> None:
    left = [value]
    while left:
        item = left.pop()
        if isinstance(item, float) and not -_INFINITY < item < _INFINITY:
            raise JsonError(f"{item} is not JSON")
        if isinstance(item, dict):
            left.extend(item.values())
        elif isinstance(item, list | tuple):
            left.extend(item)
        elif isinstance(item, msgspec.Struct):
            left.extend(getattr(item, name) for name in item.__struct_fields__)


def _escaped(value: Any) -> bytes:
    # Half characters can only stand inside strings, where Python's replacement is JSON's escape.
    return "".join(_pieces(value)).encode("utf-8", "backslashreplace")


def _pieces(value: Any) -> Iterable[str]:
    if isinstance(value, Raw):
        yield as_text(value)
    elif isinstance(value, dict):
        yield "{"
        for at, (key, item) in enumerate(value.items()):
            yield f"{',' if at else ''}{_dumps(key if isinstance(key, str) else _key(key))}:"
            yield from _pieces(item)
        yield "}"
    elif isinstance(value, list | tuple):
        yield "["
        for at, item in enumerate(value):
            yield "," if at else ""
            yield from _pieces(item)
        yield "]"
    elif value is None or isinstance(value, str | int | float):
        _refuse_infinite(value)
        yield _dumps(value)
    else:
        yield from _pieces(msgspec.to_builtins(value, builtin_types=(Raw,)))


def _key(key: Any) -> str:
    return str(next(iter(msgspec.to_builtins({key: None}, str_keys=True))))
