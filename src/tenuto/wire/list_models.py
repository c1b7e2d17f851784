"""List the models of a provider, page by page."""

import re
from datetime import date

from msgspec import Raw

from tenuto.core import jsonio
from tenuto.core.jsonio import Fields, is_text, object_or_empty, read_optional_list, text_or_empty
from tenuto.core.provider import ModelInfo, Provider, WireRequest
from tenuto.errors import UnsupportedModel
from tenuto.wire.codec import codec_for
from tenuto.wire.provider_errors import protocol_errors, reply_fields
from tenuto.wire.usage import parse_tolerantly, read_count

_LISTS = ("data", "models")
_DISPLAY_NAMES = ("display_name", "displayName", "name")
_CREATED = ("created", "created_at")
_MAX_INPUTS = ("max_input_tokens", "inputTokenLimit")
_CONTEXT_WINDOWS = ("context_window", "context_length", "max_context_length", "max_model_len", *_MAX_INPUTS)
_MAX_OUTPUTS = ("max_completion_tokens", "max_output_tokens", "max_output_length", "max_tokens", "outputTokenLimit")
_EPOCH = date(1970, 1, 1).toordinal()


def encode(row: Provider, page: str = "") -> WireRequest:
    """Write the request for a page by its name. Raise `UnsupportedModel` if the provider has no list."""
    if not row.models_path:
        raise UnsupportedModel(f"{row.name}/", "this provider has no list of its models below its address")
    listing = codec_for(row.dialect).list_models
    return WireRequest("GET", row.models_path + listing.page_query(page), {**listing.headers, **row.headers}, b"")


def decode(body: bytes, row: Provider) -> tuple[tuple[ModelInfo, ...], str]:
    """Return the models of a page and the name of the next, if any. Raise the provider's error or `ProtocolError`."""
    with protocol_errors("the list of models", body, row.name):
        if body.lstrip()[:1] == b"[":  # some hosts send the list and nothing else
            return tuple(map(_read_model, jsonio.elements(body))), ""
        fields = reply_fields(body, row.name)
        name = next((name for name in _LISTS if name in fields), "")
        if not name and not codec_for(row.dialect).list_models.may_lack_list:
            raise ValueError(f"there is neither of {' and '.join(_LISTS)} in it")
        has_more = bytes(fields.get("has_more", b"false")) == b"true"
        next_page = jsonio.text_of(fields.get("last_id" if has_more else "nextPageToken"))
        return tuple(map(_read_model, read_optional_list(fields.get(name)))), next_page


def _read_model(raw: Raw) -> ModelInfo:
    if is_text(raw):
        return ModelInfo(jsonio.text_of(raw), raw=jsonio.as_text(raw))
    fields = jsonio.members(raw)
    wire_id = jsonio.text_of(fields.get("id")) or jsonio.text_of(fields.get("name"))
    if not wire_id:
        raise ValueError(f"a model without a name: {jsonio.as_text(raw)[:200]}")
    id = wire_id.removeprefix("models/")
    name = next((text for key in _DISPLAY_NAMES if (text := text_or_empty(fields.get(key)))), "")
    return ModelInfo(
        id,
        "" if name in (wire_id, id) else name,
        next((day for key in _CREATED if (day := _read_day(fields.get(key)))), ""),
        _first_count(fields, _CONTEXT_WINDOWS),
        _first_count(fields, _MAX_OUTPUTS) or _first_count(object_or_empty(fields.get("top_provider")), _MAX_OUTPUTS),
        jsonio.as_text(raw),
    )


def _first_count(fields: Fields, names: tuple[str, ...]) -> int | None:
    return next((count for name in names if (count := read_count(fields.get(name)))), None)


def _read_day(raw: Raw | None) -> str:
    """Return the day of a time in seconds since 1970 or in ISO form; empty for another value and the first of 1970."""
    value = parse_tolerantly(raw)
    if isinstance(value, str):
        return value[:10] if re.match(r"\d{4}-\d{2}-\d{2}", value) and not value.startswith("1970-01-01") else ""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ""
    ordinal = _EPOCH + int(value // 86_400)
    return date.fromordinal(ordinal).isoformat() if _EPOCH < ordinal <= date.max.toordinal() else ""
