"""Read and write JSON without changing the text that a provider wrote; values that are not parsed yet.

msgspec does the work; the standard library takes over for lone surrogates and numbers beyond a double, so that
everything that can be received can be stored and read back identical. A value that we do not interpret stays JSON text
(`str` or `msgspec.Raw`): `1.10` stays `1.10`. Lone surrogates survive as escapes. Any failure, and nesting deeper than
`MAX_DEPTH`, raises `JsonError`.
"""

import json
import re
from collections.abc import Callable, Iterable
from typing import Any, NoReturn, TypeAlias, TypeVar

import msgspec
from msgspec import Raw

T = TypeVar("T")
Fields: TypeAlias = dict[str, Raw]
"""The fields of an object, each as its exact text."""
NULL = Raw(b"null")
MAX_DEPTH = 200

_members = msgspec.json.Decoder(dict[str, Raw]).decode
_elements = msgspec.json.Decoder(list[Raw]).decode
_raw = msgspec.json.Decoder(Raw).decode
_any = msgspec.json.Decoder().decode
_string = msgspec.json.Decoder(str).decode
_compact = msgspec.json.Encoder().encode
_FAST_PATH_ERRORS = (msgspec.DecodeError, UnicodeError, RecursionError)
"""Errors of msgspec for a text that the slow path may read."""
# An unterminated string is one token, too; otherwise each quote inside it would start another search.
_TOKENS = rb'(?s)"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|[\[\]{}]'  # compiled on first use
_SPACE = r"[ \t\n\r]*"
_SURROGATE = "[\ud800-\udfff]"  # compiled on first use
_INFINITY = float("inf")
_dumps = json.JSONEncoder(ensure_ascii=False).encode


class JsonError(ValueError):
    """The text is not valid JSON, or the value cannot be written as JSON."""


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if abs(number) == _INFINITY:
        raise JsonError(f"number out of range: {digits[:40]}")
    return number


# Numbers stay text: this scanner only finds the end of values, and int() refuses more than 4,300 digits.
_scanner = json.JSONDecoder(parse_constant=_reject_constant, parse_int=str, parse_float=str, strict=True)
_plain = json.JSONDecoder(parse_constant=_reject_constant, parse_float=_finite, strict=True)


def check_depth(data: bytes | str | Raw) -> bytes:
    """Return the text as bytes; raise `JsonError` if it nests deeper than `MAX_DEPTH`, as no shorter text can."""
    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else bytes(data)
    if raw.count(b"[") + raw.count(b"{") <= MAX_DEPTH:
        return raw
    depth = 0
    for token in re.finditer(_TOKENS, raw):  # strings are tokens: brackets inside them do not count
        first = raw[token.start()]
        if first in b"[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise JsonError(f"nested deeper than {MAX_DEPTH} levels")
        elif first in b"]}":
            depth -= 1
    return raw


def _read(fast: Callable[[bytes], T], slow: Callable[[str], T], data: bytes | str | Raw) -> T:
    """Read with msgspec as bytes, since it refuses a `str` with a lone surrogate; then with the slow path."""
    raw = check_depth(data)
    try:
        return fast(raw)
    except _FAST_PATH_ERRORS as first:
        text = as_text(raw)
        try:
            return slow(text)
        except JsonError:
            raise
        except msgspec.ValidationError as second:
            raise JsonError(str(second)) from None
        except UnicodeEncodeError:  # raised by msgspec for a string where it expects a number or a literal
            raise JsonError("a string with a lone surrogate is not valid here") from None
        except (ValueError, RecursionError):
            raise JsonError(str(first)) from None


def _slow_items(text: str, kind: str) -> list[tuple[str, Raw]]:
    """Split an object or array into keys, which are empty in an array, and the exact texts of the values."""
    opening, closing = ("{", "}") if kind == "object" else ("[", "]")
    items: list[tuple[str, Raw]] = []
    offset = _skip_space(text, 0)
    if not text.startswith(opening, offset):
        raise JsonError(f"Expected `{kind}`")
    offset = _skip_space(text, offset + 1)
    has_more = not text.startswith(closing, offset)
    while has_more:
        key = ""
        if kind == "object":
            if not text.startswith('"', offset):
                raise JsonError(f"expected a key at character {offset}")
            key, offset = _scanner.raw_decode(text, offset)
            offset = _skip_space(text, offset)
            if not text.startswith(":", offset):
                raise JsonError(f"expected ':' at character {offset}")
            offset = _skip_space(text, offset + 1)
        end = _scanner.raw_decode(text, offset)[1]
        items.append((key, Raw(text[offset:end].encode("utf-8", "surrogatepass"))))
        offset = _skip_space(text, end)
        has_more = not text.startswith(closing, offset)
        if has_more:
            if not text.startswith(",", offset):
                raise JsonError(f"expected ',' or {closing!r} at character {offset}")
            offset = _skip_space(text, offset + 1)
    if _skip_space(text, offset + 1) != len(text):
        raise JsonError(f"trailing characters at character {offset + 1}")
    return items


def _slow_check(text: str) -> Raw:
    _scanner.decode(text)
    return Raw(text.strip(" \t\n\r").encode("utf-8", "surrogatepass"))


def _skip_space(text: str, offset: int) -> int:
    match = re.compile(_SPACE).match(text, offset)
    return match.end() if match else offset


# The first lines of these functions are repeated, not shared: a call costs time, and decoding spends most of its time here.


def members(data: bytes | str | Raw) -> dict[str, Raw]:
    """Split a JSON object into its members, each value as its exact text; the last of repeated keys wins."""
    if len(data) > MAX_DEPTH:
        data = check_depth(data)
    try:
        return _members(data)
    except _FAST_PATH_ERRORS:
        return _read(_members, lambda text: dict(_slow_items(text, "object")), data)


def elements(data: bytes | str | Raw) -> list[Raw]:
    """Split a JSON array into its elements, each as its exact text."""
    if len(data) > MAX_DEPTH:
        data = check_depth(data)
    try:
        return _elements(data)
    except _FAST_PATH_ERRORS:
        return _read(_elements, lambda text: [value for _, value in _slow_items(text, "array")], data)


def parse(data: bytes | str | Raw) -> Any:
    """Decode to plain Python values. The spelling of numbers is lost: only for values that we interpret."""
    if len(data) > MAX_DEPTH:
        data = check_depth(data)
    try:
        return _any(data)
    except _FAST_PATH_ERRORS:
        return _read(_any, _plain.decode, data)


def decode_as(data: bytes | str | Raw, kind: type[T]) -> T:
    """Decode to `kind`; raise `JsonError` if the text is not JSON or does not match."""
    return _read(
        lambda raw: msgspec.json.decode(raw, type=kind), lambda text: msgspec.convert(_plain.decode(text), kind), data
    )


def check(data: bytes | str | Raw) -> Raw:
    """Return `data` as `Raw`; raise `JsonError` if it is not one JSON document."""
    raw = _read(_raw, _slow_check, data)
    as_text(raw)  # msgspec does not validate strings that it skips
    return raw


def problem(data: bytes | str | Raw) -> str:
    """Return why `data` is not JSON; empty if it is."""
    try:
        check(data)
    except JsonError as exc:
        return str(exc) or "not JSON"
    return ""


def text_of(value: Raw | None, default: str = "") -> str:
    """Return the value of a JSON string; `default` for null or None; raise `JsonError` for other values."""
    if value is None:
        return default
    try:
        return _string(value)  # a string needs no depth check
    except (msgspec.DecodeError, UnicodeDecodeError):
        if bytes(value) == b"null":
            return default
    text = _read(_string, _plain.decode, value)
    if not isinstance(text, str):
        raise JsonError(f"Expected `str`, got `{bytes(value)[:40].decode('utf-8', 'replace')}`")
    return text


def as_text(value: bytes | Raw) -> str:
    """Return JSON text as a string."""
    try:
        return str(value, "utf-8", "surrogatepass")
    except UnicodeDecodeError as exc:
        raise JsonError(f"not UTF-8: {exc.reason} at byte {exc.start}") from None


def object_text(fields: dict[str, Raw]) -> str:
    """Join members into the text of an object; empty if there are no members."""
    if not fields:
        return ""
    try:
        return _compact(fields).decode()  # raw text cannot be infinite, so the check of `encode` is not needed
    except UnicodeError:
        return as_text(encode(fields))


def lone_surrogates(text: str) -> bool:
    """Tell whether `text` has a surrogate, which UTF-8 cannot encode."""
    return not text.isascii() and re.search(_SURROGATE, text) is not None


def join_surrogates(text: str) -> str:
    """Join adjacent halves of characters, as a stream may split them; a lone half stays."""
    if text.isascii() or not lone_surrogates(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def printable(text: str) -> str:
    """Join adjacent halves of characters, and replace a lone half with U+FFFD, because it cannot be printed."""
    return re.sub(_SURROGATE, "\ufffd", join_surrogates(text)) if lone_surrogates(text) else text


def encode(value: Any, without_numbers: object = None) -> bytes:
    """Write compact JSON. `Raw` is inserted unchanged; lone surrogates become escapes that read back identical.

    `without_numbers` is a part of the value that has no numbers: the search for infinite ones can leave it out. Raise
    `JsonError` for values that JSON cannot express (NaN, infinities, objects of other classes) and for cycles.
    """
    try:
        try:
            data = _compact(value)
            if not data.isascii():
                data.decode()  # inserted text may have surrogates as bytes
        except UnicodeError:
            # Surrogates occur only inside strings, where the escape that Python writes is also JSON's.
            plain = msgspec.to_builtins(value, builtin_types=(Raw,), str_keys=True)
            return "".join(_iter_text(plain)).encode("utf-8", "backslashreplace")
        if data.find(b"null") >= 0:  # msgspec writes NaN as null, too; `find` is faster than `in` for bytes, measured
            _reject_infinite(value, without_numbers)
        return data
    except RecursionError:
        raise JsonError(f"nested deeper than {MAX_DEPTH} levels") from None
    except JsonError:
        raise
    except (TypeError, ValueError) as exc:  # msgspec for a class, Python for an integer with too many digits
        raise JsonError(str(exc)) from exc


def _reject_infinite(value: Any, without_numbers: object = None) -> None:
    items = [value]
    while items:
        item = items.pop()
        if item is without_numbers:
            continue
        if isinstance(item, float) and not -_INFINITY < item < _INFINITY:
            raise JsonError(f"{item} is not JSON")
        if isinstance(item, dict):
            items.extend(item.values())
        elif isinstance(item, list | tuple):
            items.extend(item)
        elif isinstance(item, msgspec.Struct):
            items.extend(getattr(item, name) for name in item.__struct_fields__)


def _iter_text(value: Any) -> Iterable[str]:
    if isinstance(value, Raw):
        yield as_text(value)
    elif isinstance(value, dict):
        yield "{"
        for index, (key, item) in enumerate(value.items()):
            yield f"{',' if index else ''}{_dumps(key)}:"
            yield from _iter_text(item)
        yield "}"
    elif isinstance(value, list | tuple):
        yield "["
        for index, item in enumerate(value):
            yield "," if index else ""
            yield from _iter_text(item)
        yield "]"
    else:
        _reject_infinite(value)
        yield _dumps(value)


# --- values that are not parsed yet -------------------------------------------------------------------------------------


def is_object(raw: Raw | None) -> bool:
    return raw is not None and bytes(raw)[:1] == b"{"


def is_list(raw: Raw | None) -> bool:
    return raw is not None and bytes(raw)[:1] == b"["


def is_text(raw: Raw | None) -> bool:
    return raw is not None and bytes(raw)[:1] == b'"'


def is_null(raw: Raw | None) -> bool:
    return raw is None or bytes(raw) == b"null"


def is_empty(raw: Raw | None) -> bool:
    """Return whether a value is missing, null, false, 0, or without content."""
    return raw is None or bytes(raw) in (b"null", b"false", b"0", b'""', b"[]", b"{}")


def object_or_empty(raw: Raw | None) -> Fields:
    """Return the fields of an object; none for any other value."""
    return members(raw) if raw is not None and bytes(raw)[:1] == b"{" else {}


def list_or_empty(raw: Raw | None) -> list[Raw]:
    """Return the elements of a list; none for any other value."""
    return elements(raw) if raw is not None and bytes(raw)[:1] == b"[" else []


def read_optional_list(raw: Raw | None) -> list[Raw]:
    """Return the elements of a list; none if it is null or missing. Raise `JsonError` for any other value."""
    return [] if raw is None or is_null(raw) else elements(raw)


def text_or_empty(raw: Raw | None) -> str:
    """Return a string; empty for any other value."""
    return text_of(raw) if raw is not None and bytes(raw)[:1] == b'"' else ""


def text_or_json(raw: Raw) -> str:
    """Return a string; the JSON text of any other value."""
    return text_of(raw) if bytes(raw)[:1] == b'"' else as_text(raw)


def to_raw(text: str) -> Raw:
    """Return JSON text as `Raw`, unchecked."""
    return Raw(text.encode("utf-8", "surrogatepass"))


def raw_object(text: str) -> Raw | None:
    """Return `text` as a JSON object to splice in; None if it is something else."""
    stripped = text.strip()
    if not stripped.startswith("{") or problem(stripped):
        return None
    return to_raw(stripped)


def raw_list(text: str) -> list[Raw] | None:
    """Return the elements of `text` as a JSON list; None if it is something else."""
    stripped = text.strip()
    return None if not stripped.startswith("[") or problem(stripped) else elements(stripped)


def splice_json(text: str) -> Raw | str:
    """Return JSON text as `Raw`; text that is not JSON stays a string."""
    return text if problem(text) else to_raw(text)


def take_text(fields: Fields, name: str) -> str:
    """Remove a string from the fields and return it. An empty string, and any other value, stays."""
    text = text_or_empty(fields.get(name))
    if text:
        del fields[name]
    return text


def whole_number(raw: Raw | None) -> int | None:
    """Return an integer; None for any other value."""
    if raw is None:
        return None
    try:
        return decode_as(raw, int)
    except JsonError:
        return None


def extra_fields_or_empty(extra: str) -> Fields:
    """Return the extra fields of a block; none if a caller wrote a text that is not an object."""
    try:
        return members(extra) if extra else {}
    except JsonError:
        return {}
