"""Count the tokens of a request before it is sent.

The ordinary request is reduced to the fields that the endpoint accepts. So the count covers what would be sent: the same
instructions, tools, schema and transcript, adapted to the model. Limits and sampling are omitted: no model reads them.
"""

import msgspec

from tenuto.core import jsonio
from tenuto.core.provider import Target, WireRequest
from tenuto.core.request import ChatRequest
from tenuto.errors import UnsupportedModel
from tenuto.wire.codec import TokenCounter, codec_for
from tenuto.wire.provider_errors import protocol_errors, reply_fields
from tenuto.wire.usage import read_count
from tenuto.wire.write import write_request


def encode(request: ChatRequest, target: Target) -> WireRequest:
    """Write the request for a token count.

    Raise `UnsupportedModel` for a dialect without such an endpoint, and what `write_request` raises.
    """
    target, counter = _counter(target)
    written = write_request(request, target)
    fields = jsonio.members(written.body)
    accepted = {name: raw for name, raw in fields.items() if name in counter.fields}
    path, body = counter.write(written, fields, accepted, target)
    return msgspec.structs.replace(written, path=path, body=jsonio.encode(body))


def decode(body: bytes, target: Target) -> int:
    """Read the count. Raise the provider's error if the response is one, `ProtocolError` if it has no count."""
    name = _counter(target)[1].total
    with protocol_errors("the count", body, target.provider.name):
        total = read_count(reply_fields(body, target.provider.name).get(name))
        if total is None:
            raise ValueError(f"there is no {name} in it")
        return total


def _counter(target: Target) -> tuple[Target, TokenCounter]:
    """Return the endpoint of the target's dialect, or else of its provider's own, and the target in that dialect."""
    for dialect in (target.dialect, target.provider.dialect):
        counter = codec_for(dialect).count_tokens
        if counter is not None:
            return msgspec.structs.replace(target, dialect=dialect), counter
    name = f"{target.provider.name}/{target.model}"
    raise UnsupportedModel(name, "the chat dialect cannot count tokens; the usage of a reply tells them afterwards")
