"""Plain answers, which are no replies: embeddings, counts, lists. One door where what is wrong with them becomes ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import Raw

from tenuto.core import jsonio
from tenuto.errors import LLMError, ProtocolError
from tenuto.wire.provider_errors import classify_error

__all__ = ["listed", "protocol_errors", "reply_fields"]

_NOTHING = (b"null", b"0", b"{}", b'""', b"false")


@contextmanager
def protocol_errors(what: str, body: bytes, provider: str) -> Iterator[None]:
    """Turn what reading a malformed answer raises into `ProtocolError`, which holds the answer."""
    try:
        yield
    except LLMError as exc:
        exc.provider = exc.provider or provider
        raise
    except ValueError as exc:
        raise ProtocolError(f"{what} cannot be read: {exc}", provider=provider, frame=body) from exc


def reply_fields(body: bytes, provider: str) -> dict[str, Raw]:
    """Split an answer into its fields. Raise the error that it amounts to, though its status was a good one."""
    fields = jsonio.members(body)
    if bytes(fields.get("error", b"null")) not in _NOTHING:
        raise classify_error(body, provider=provider)
    state = fields.get("base_resp")
    if state is not None and bytes(state)[:1] == b"{":
        code = jsonio.members(state).get("status_code")
        if code is not None and bytes(code) not in _NOTHING:
            raise classify_error(jsonio.encode({"error": {"message": jsonio.as_text(state)}}), provider=provider)
    return fields


def listed(raw: Raw | None) -> list[Raw]:
    """Return the elements of a list; none for null or nothing at all."""
    return [] if raw is None or bytes(raw) == b"null" else jsonio.elements(raw)
