"""Parse JSON responses other than replies: embeddings, token counts, model lists."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import Raw

from tenuto.core import jsonio
from tenuto.errors import LLMError, ProtocolError
from tenuto.wire.provider_errors import classify_error
from tenuto.wire.rawjson import Fields, is_null, object_or_empty

_NO_ERROR = (b"null", b"0", b"{}", b'""', b"false")
"""Values of an error field that mean success."""


@contextmanager
def protocol_errors(what: str, body: bytes, provider: str) -> Iterator[None]:
    """Raise `ProtocolError`, which contains the body, if reading a malformed response fails."""
    try:
        yield
    except LLMError as exc:
        exc.provider = exc.provider or provider
        raise
    except ValueError as exc:
        raise ProtocolError(f"{what} cannot be read: {exc}", provider=provider, frame=body) from exc


def reply_fields(body: bytes, provider: str) -> Fields:
    """Return the fields of a response. Raise its error, if a response with a successful status contains one."""
    fields = jsonio.members(body)
    if bytes(fields.get("error", b"null")) not in _NO_ERROR:
        raise classify_error(body, provider=provider)
    state = fields.get("base_resp")
    if state is not None and bytes(object_or_empty(state).get("status_code", b"null")) not in _NO_ERROR:
        raise classify_error(jsonio.encode({"error": {"message": jsonio.as_text(state)}}), provider=provider)
    return fields


def read_optional_list(raw: Raw | None) -> list[Raw]:
    """Return the elements of a list; none if it is null or missing."""
    return [] if raw is None or is_null(raw) else jsonio.elements(raw)
