"""Two plain functions for anyone who holds bytes: `decode` what a provider said, `encode` what to ask it.

`dialect` decides the codec. `provider` is a row's name and only picks switches; a name that is no row means the
dialect's defaults, and is reported as it was given.
"""

from __future__ import annotations

import hashlib

from tenuto import catalog
from tenuto.core.provider import Dialect, Target, WireRequest
from tenuto.core.request import ChatRequest
from tenuto.core.response import ChatResponse
from tenuto.wire.decoder import decode_body, decode_stream
from tenuto.wire.registry import codec_for, dialect_names
from tenuto.wire.write import write_request

__all__ = ["decode", "encode"]


def decode(dialect: Dialect, body: bytes | str, *, provider: str | None = None, stream: bool = False) -> ChatResponse:
    """Read a reply, whole or as the recorded bytes of its stream.

    Raise the typed error that the bytes amount to: an error of the provider, `ProtocolError` for bytes that break the
    dialect, `IncompleteResponse` for a stream that was cut off. What was assembled is on the error's `partial`.
    """
    data = body.encode("utf-8", "surrogatepass") if isinstance(body, str) else bytes(body)
    target = Target(catalog.provider_or_default(provider, _known(dialect)), "", dialect)
    decoder = codec_for(dialect).decoder(target, seed=hashlib.sha256(data).hexdigest())
    return decode_stream(decoder, [data]) if stream else decode_body(decoder, data)


def encode(dialect: Dialect, request: ChatRequest, *, provider: str | None = None) -> WireRequest:
    """Write a request as bytes. What could not be carried is in its `losses`; the same request gives the same bytes.

    The model may be given with or without its provider's name in front.
    """
    return write_request(request, target_of(dialect, request.model, provider))


def target_of(dialect: Dialect, model: str, provider: str | None = None) -> Target:
    """Find the row and the traits for a model asked for in a given dialect."""
    row = catalog.provider_or_default(provider, _known(dialect))
    head, slash, rest = model.partition("/")
    if slash and (
        head == provider or head in (row.name, *row.aliases) or (provider is None and catalog.is_known_provider(head))
    ):
        if provider is None:
            row = catalog.provider_or_default(head, dialect)
        model = rest
    return catalog.build_target(row, model, dialect)


def _known(dialect: Dialect) -> Dialect:
    if dialect not in dialect_names():
        raise ValueError(f"unknown dialect {dialect!r}: it is one of {', '.join(dialect_names())}")
    return dialect
