"""The models that a provider lists, page by page."""

from __future__ import annotations

import re

from msgspec import Raw

from tenuto.core import jsonio
from tenuto.core.provider import ModelInfo, Provider, WireRequest
from tenuto.errors import UnsupportedModel
from tenuto.wire.json_reply import protocol_errors, read_optional_list, reply_fields
from tenuto.wire.rawjson import object_or_empty, text_or_empty
from tenuto.wire.registry import codec_for
from tenuto.wire.usage import parse_or_none, read_count

_ENTRIES = ("data", "models")
_NAMES = ("display_name", "displayName", "name")
_CREATED = ("created", "created_at")
_WINDOWS = (
    *("context_window", "context_length", "max_context_length", "max_model_len"),
    *("max_input_tokens", "inputTokenLimit"),
)
_OUTPUTS = ("max_completion_tokens", "max_output_tokens", "max_output_length", "max_tokens", "outputTokenLimit")
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_EPOCH = 719_468  # days from the first of March of the year 0 to 1970
_LAST = 253_402_300_800  # the end of the year 9999


def encode(row: Provider, page: str = "") -> WireRequest:
    """Write the request for one page of the list; `page` is what the page before named as the next.

    Raise `UnsupportedModel` where there is no list.
    """
    if not row.models_path:
        raise UnsupportedModel(f"{row.name}/", "this provider has no list of its models below its address")
    listing = codec_for(row.dialect).list_models
    return WireRequest("GET", row.models_path + listing.page_query(page), {**listing.headers, **row.headers}, b"")


def decode(body: bytes, row: Provider) -> tuple[tuple[ModelInfo, ...], str]:
    """Read one page: its models, and the name of the next page; empty after the last one.

    Raise the provider's error if the answer holds one, `ProtocolError` if it cannot be read.
    """
    with protocol_errors("the list of models", body, row.name):
        if body.lstrip()[:1] == b"[":  # some hosts list their models and say nothing else
            return tuple(map(_model, jsonio.elements(body))), ""
        fields = reply_fields(body, row.name)
        name = next((name for name in _ENTRIES if name in fields), "")
        if not name and not codec_for(row.dialect).list_models.may_lack_list:
            raise ValueError(f"there is neither of {' and '.join(_ENTRIES)} in it")
        return tuple(map(_model, read_optional_list(fields.get(name)))), _next(fields)


def _next(fields: dict[str, Raw]) -> str:
    if bytes(fields.get("has_more", b"false")) == b"true":
        return jsonio.text_of(fields.get("last_id"))
    return jsonio.text_of(fields.get("nextPageToken"))


def _model(raw: Raw) -> ModelInfo:
    if bytes(raw)[:1] == b'"':
        return ModelInfo(jsonio.text_of(raw), raw=jsonio.as_text(raw))
    fields = jsonio.members(raw)
    given = jsonio.text_of(fields.get("id")) or jsonio.text_of(fields.get("name"))
    if not given:
        raise ValueError(f"a model without a name: {jsonio.as_text(raw)[:200]}")
    id = given.removeprefix("models/")
    name = next((text for key in _NAMES if (text := text_or_empty(fields.get(key)))), "")
    return ModelInfo(
        id,
        "" if name in (given, id) else name,
        next((day for key in _CREATED if (day := _day(parse_or_none(fields.get(key))))), ""),
        _number(fields, _WINDOWS),
        _number(fields, _OUTPUTS) or _number(object_or_empty(fields.get("top_provider")), _OUTPUTS),
        jsonio.as_text(raw),
    )


def _number(fields: dict[str, Raw], names: tuple[str, ...]) -> int | None:
    """Return the first of these numbers that is given; a 0 says nothing."""
    return next((number for name in names if (number := read_count(fields.get(name)))), None)


def _day(value: object) -> str:
    """Return a time, in seconds since 1970 or in ISO form, as its day; empty for one that stands for none."""
    if isinstance(value, str):
        return value[:10] if _DAY.match(value) and not value.startswith("1970-01-01") else ""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 86_400 <= value < _LAST:
        return ""
    era, day = divmod(int(value) // 86_400 + _EPOCH, 146_097)  # 400 years, which all have as many days
    year = (day - day // 1_460 + day // 36_524 - day // 146_096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153  # from March
    year += 400 * era + (month >= 10)
    return f"{year:04}-{month + 3 if month < 10 else month - 9:02}-{day - (153 * month + 2) // 5 + 1:02}"
