"""A session in the three forms in which it can leave: lines that can be imported again, a document, OpenAI's messages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from tenuto.core.loss import Loss
    from tenuto.store.protocol import Store

__all__ = ["FORMS", "Lose"]

Lose: TypeAlias = "Callable[[Loss], object]"
"""Hears what cannot be said in a form."""


async def jsonl(store: Store, session: str, lose: Lose) -> AsyncIterator[bytes]:
    """Yield a line for the session and one for each entry: byte for byte what is kept."""
    from tenuto.store.export import export_session

    del lose
    async for line in export_session(store, session):
        yield line


async def md(store: Store, session: str, lose: Lose) -> AsyncIterator[bytes]:
    """Yield a document for people. What was lost stands in it, where it was lost."""
    from tenuto.cli.paper import paper

    del lose
    for piece in paper(await store.session(session), await store.read(session)):
        yield piece.encode()


async def openai(store: Store, session: str, lose: Lose) -> AsyncIterator[bytes]:
    """Yield `{"messages": [...]}` in one line, as a request in OpenAI's chat dialect has them: text, pictures, calls and
    results. Thoughts and tokens of other providers have no place there.
    """
    from tenuto.core import jsonio
    from tenuto.core.journal import UnknownPayload, transcript_of
    from tenuto.core.loss import Location, Loss
    from tenuto.core.messages import SystemMessage
    from tenuto.core.next_request import config_after
    from tenuto.core.request import ChatRequest
    from tenuto.oneshot import encode

    entries = await store.read(session)
    kept = None
    for entry in entries:
        kept = config_after(kept, entry.payload)
        if isinstance(entry.payload, UnknownPayload):
            lose(
                Loss(
                    "later-version",
                    Location(path=f"entry {entry.seq}"),
                    entry.payload.kind,
                    "a later version of tenuto knows it",
                )
            )
    first = (SystemMessage(kept.system),) if kept is not None and kept.system else ()
    request = ChatRequest(model="", messages=(*first, *transcript_of(entries).messages))
    wire = encode("openai-chat", request)
    for loss in wire.losses:
        lose(Loss(loss.kind, loss.location, loss.detail, "an export as jsonl has it"))
    yield b'{"messages":' + bytes(jsonio.members(wire.body)["messages"]) + b"}\n"


FORMS = {form.__name__: form for form in (md, jsonl, openai)}
"""By the names that `--format` takes."""
