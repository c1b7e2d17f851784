"""Parse JSON responses other than replies: embeddings, token counts, model lists."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import Raw

from tenuto.core import jsonio
from tenuto.errors import LLMError, ProtocolError
from tenuto.wire.provider_errors import classify_error
from tenuto.wire.rawjson import Fields, is_empty, is_null, object_or_empty


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
    if error := find_error(fields, body):
        error.provider = provider
        raise error
    return fields


def find_error(fields: Fields, body: bytes) -> LLMError | None:
    """Return the error of a response with a successful status, from any field where hosts put one."""
    if not is_empty(fields.get("error")):
        return classify_error(body)
    error = object_or_empty(fields.get("x_groq")).get("error")
    if not is_empty(error):
        return classify_error(jsonio.encode({"error": error}))
    status = fields.get("base_resp")
    if status is not None and not is_empty(object_or_empty(status).get("status_code")):
        return classify_error(jsonio.encode({"error": {"message": jsonio.as_text(status)}}))
    return None


def read_optional_list(raw: Raw | None) -> list[Raw]:
    """Return the elements of a list; none if it is null or missing."""
    return [] if raw is None or is_null(raw) else jsonio.elements(raw)
