"""Encode one request or decode one response without a client.

`dialect` selects the codec. `provider` is the name of a provider row and selects switches; an unknown name means the
defaults of the dialect, and the response has that name.
"""

from __future__ import annotations

import hashlib

from tenuto import catalog
from tenuto.core.provider import Dialect, Target, WireRequest
from tenuto.core.request import ChatRequest
from tenuto.core.response import ChatResponse
from tenuto.wire.codec import codec_for, dialect_names
from tenuto.wire.decoder import decode_body, decode_stream
from tenuto.wire.write import write_request


def decode(dialect: Dialect, body: bytes | str, *, provider: str | None = None, stream: bool = False) -> ChatResponse:
    """Decode a response body, or with `stream` the recorded bytes of a stream.

    Raise the error of the provider that the bytes contain, `ProtocolError` for invalid bytes, `IncompleteResponse` for a
    stream that was cut off. `partial` of the error has the blocks so far.
    """
    data = body.encode("utf-8", "surrogatepass") if isinstance(body, str) else bytes(body)
    target = Target(catalog.provider_or_default(provider, _check_dialect(dialect)), "", dialect)
    decoder = codec_for(dialect).decoder(target, seed=hashlib.sha256(data).hexdigest())
    return decode_stream(decoder, [data]) if stream else decode_body(decoder, data)


def encode(dialect: Dialect, request: ChatRequest, *, provider: str | None = None) -> WireRequest:
    """Encode a request. The same request gives the same bytes; `losses` lists the parts that could not be carried.

    `request.model` may start with the name of the provider.
    """
    return write_request(request, target_of(dialect, request.model, provider))


def target_of(dialect: Dialect, model: str, provider: str | None = None) -> Target:
    row = catalog.provider_or_default(provider, _check_dialect(dialect))
    head, slash, rest = model.partition("/")
    if slash and (
        head == provider or head in (row.name, *row.aliases) or (provider is None and catalog.is_known_provider(head))
    ):
        if provider is None:
            row = catalog.provider_or_default(head, dialect)
        model = rest
    return catalog.build_target(row, model, dialect)


def _check_dialect(dialect: Dialect) -> Dialect:
    if dialect not in dialect_names():
        raise ValueError(f"unknown dialect {dialect!r}: use one of {', '.join(dialect_names())}")
    return dialect
