"""Decode one reply: bytes in, events out.

`feed` takes the bytes of a stream, `feed_body` a whole body; `finish` ends the reply. Errors keep their position:
`feed` returns the events before an error, then an `ErrorEvent`, and stores the exception in `error`; `finish` raises
it.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable
from typing import ClassVar

import msgspec
from msgspec import Raw

from tenuto.core import jsonio
from tenuto.core.blocks import Reasoning
from tenuto.core.events import ContentDelta, ErrorEvent, MessageDone, MessageStart, StreamEvent
from tenuto.core.loss import Location, Loss
from tenuto.core.messages import AssistantMessage, Origin, Usage, summary_block
from tenuto.core.provider import Dialect, Target
from tenuto.core.response import ChatResponse, Choice
from tenuto.errors import IncompleteResponse, LLMError, ProtocolError, StreamAssemblyError
from tenuto.wire.assembler import ChoiceBuilder
from tenuto.wire.framing import FrameReader, Framing
from tenuto.wire.prefix_binding import prefix_of

_FAULTS = (ValueError, RecursionError, StreamAssemblyError)
"""Exceptions that malformed data raises: JSON errors are ValueErrors. Any other exception is a bug and not caught."""
_ERRORS = (LLMError, *_FAULTS)
MOST_CHOICES = 1_000  # choices that a reply may have beyond the requested ones: a server could send millions
_PACK_INTERVAL = 31
"""Frames between two calls of `BlockSlot.pack`: 600 pieces of 20 characters then take 13 KB instead of 53.

A prime, so that with several interleaved parts each one gets packed sooner or later.
"""


def new_id(seed: str, response_id: str, candidate: int, ordinal: int) -> str:
    """Make an id for a call without one. The same arguments give the same id."""
    key = "\x00".join((seed, response_id, str(candidate), str(ordinal)))
    return f"tnt_{hashlib.sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()[:24]}"


class MissingField(jsonio.JsonError):
    """A frame lacks a field that its dialect requires."""


class FrameFields(dict[str, Raw]):
    """The fields of a frame. Reading a field that is missing raises `MissingField`."""

    def __missing__(self, name: str) -> Raw:
        kind = self.get("type")
        named = kind is not None and bytes(kind)[:1] == b'"'
        raise MissingField(f"{jsonio.text_of(kind) if named else 'frame'} without {name}")


class Decoder(ABC):
    dialect: ClassVar[Dialect]
    framing: ClassVar[type[Framing]] = FrameReader

    def __init__(self, target: Target, *, seed: str = "", audio_format: str = "") -> None:
        self.target = target
        self.seed = seed
        """Part of generated ids. Pass the digest of the request, so that two replies never share an id."""
        self.request_body = b""
        """The body of the request. It is needed if the model binds its reasoning to the messages before it."""
        self.audio_format = audio_format  # the requested format, if the reply is speech
        self.most_choices = MOST_CHOICES
        self.id = ""
        self.model = ""
        self.ended = False  # whether the last event of the dialect was read: the client does not wait for more
        self.out: list[StreamEvent] = []
        self.losses: list[Loss] = []
        self.error: LLMError | None = None
        self.frame_count = 0  # frames so far, without comments: a sign of life
        self._reader = self.framing()
        self._closed = False
        self._started = False
        self._loss_keys: set[Hashable] = set()
        self._choices: dict[int, ChoiceBuilder] = {}
        self._packs_at = _PACK_INTERVAL

    @abstractmethod
    def frame(self, name: bytes, data: bytes) -> None:
        """Read one frame of a stream and append its events to `out`."""

    @abstractmethod
    def body(self, data: bytes) -> None:
        """Read a whole body like the frames of a stream."""

    @abstractmethod
    def response(self, *, partial: bool) -> ChatResponse:
        """Assemble the reply. `partial`: the blocks so far; open ones have no token."""

    def complete(self) -> bool:
        """Return whether the last event of the dialect has arrived; finish the parts that it leaves open."""
        return self.ended

    @property
    def only_usage_missing(self) -> bool:
        """Whether every choice has ended, and only the usage may still follow."""
        return self.ended

    def feed(self, chunk: bytes) -> list[StreamEvent]:
        """Read the next bytes and return the events that they complete. After an `ErrorEvent` nothing is read."""
        if self.error is None:
            data = chunk
            try:
                frames = self._reader.feed(chunk)
                self.frame_count += len(frames)
                for name, data in frames:
                    self.frame(name, data)
            except _ERRORS as exc:
                self._fault(exc, data)
        if self.frame_count >= self._packs_at:
            self._pack()
        events = self.out.copy()
        self.out.clear()  # otherwise a stream would hold 5 KB of events until the next chunk
        return events

    def feed_body(self, body: bytes) -> list[StreamEvent]:
        self._closed = True
        try:
            self.body(body)
        except _ERRORS as exc:
            self._fault(exc, body)
        return self.drain()

    def drain(self) -> list[StreamEvent]:
        """Return the events of the frame that was open when the bytes ended. Call it before `finish`."""
        if not self._closed and self.error is None:
            data = b""
            try:
                for name, data in self._reader.close():
                    if self._reader.whole:
                        self.body(data)
                    else:
                        self.frame(name, data)
            except _ERRORS as exc:
                if isinstance(exc, LLMError) or self._reader.whole:
                    self._fault(exc, data)
                else:
                    error = IncompleteResponse(f"the reply ended in the middle of an event ({self.dialect})")
                    error.__cause__ = exc
                    self._fail(error)
        self._closed = True
        events = self.out.copy()
        self.out.clear()
        return events

    def finish(self) -> list[StreamEvent]:
        """Return the last events, up to `MessageDone`. Raise the error of the stream, or `IncompleteResponse`."""
        events = self.drain()
        if self.error is None:
            try:
                if self.complete():
                    self.out.append(MessageDone(self.response(partial=False)))
                else:
                    self._fail(IncompleteResponse(f"the reply ended before its last event ({self.dialect})"))
            except _ERRORS as exc:
                self._fault(exc, b"")
        events += self.out
        self.out.clear()
        if self.error is not None:
            raise self.error
        return events

    def partial(self) -> ChatResponse:
        """Return the reply so far, with incomplete messages; an empty one with a `Loss` if it cannot be read."""
        nothing = (Choice(AssistantMessage((), incomplete=True)),)
        try:
            response = self.response(partial=True)
        except _FAULTS as exc:
            detail = jsonio.printable(f"the partial reply cannot be assembled: {exc!r}")
            losses = (*self.losses, Loss("unassembled", Location(path="reply"), detail))
            return ChatResponse("", self.target.provider.name, self.target.model, nothing, losses=losses)
        return response if response.choices else msgspec.structs.replace(response, choices=nothing)

    def fail(self, error: LLMError) -> None:
        """End the reply with a connection error, which gets the reply so far as `partial`."""
        self._fail(error)
        self.out.clear()

    def _pack(self) -> None:
        """Pack the pieces of the part that grew last: nearly always the only one that grows."""
        self._packs_at = self.frame_count + _PACK_INTERVAL
        last = self.out[-1] if self.out else None
        if type(last) is ContentDelta:
            self._choices[last.choice_index].assembler.slots[last.part_index].pack()

    def _fault(self, exc: Exception, data: bytes) -> None:
        """Fail with an exception from reading `data`: an `LLMError` as it is, any other one as a `ProtocolError`."""
        if isinstance(exc, LLMError):
            self._fail(exc)
            return
        message = str(exc)
        if not isinstance(exc, MissingField):
            received = data.decode("utf-8", "replace")[:200]
            message = f"unreadable frame: {message}" + (f"; received: {received}" if received else "")
        error = ProtocolError(jsonio.printable(message), frame=data)
        error.__cause__ = exc
        self._fail(error)

    def _fail(self, error: LLMError) -> None:
        if self.error is None:
            error.provider = error.provider or self.target.provider.name
            error.partial = self.partial()
            self.error = error
            self.out.append(ErrorEvent(error.message, error.raw))

    def parts(self, choice: int = 0) -> ChoiceBuilder:
        """Make the builder of a choice, in place of an earlier one. Raise `ProtocolError` for too many choices."""
        if len(self._choices) >= self.most_choices and choice not in self._choices:
            raise ProtocolError(f"the reply has more than {self.most_choices:,} choices")
        self._choices[choice] = builder = ChoiceBuilder(self.out, self.losses, choice)
        return builder

    def emit_start(self) -> None:
        """Emit `MessageStart`, unless it was emitted already."""
        if not self._started:
            self._started = True
            self.out.append(MessageStart(self.id, self.model))

    def record_loss(self, kind: str, place: str, detail: str, remedy: str = "") -> None:
        self.losses.append(Loss(kind, Location(path=place), detail, remedy))

    def record_once(self, key: Hashable, kind: str, place: str, detail: str) -> None:
        """Record the first loss with this key: a stream may repeat an unknown field in every frame."""
        if key not in self._loss_keys:
            self._loss_keys.add(key)
            self.record_loss(kind, place, detail)

    def record_change(self, name: str, old: str | None, new: str) -> None:
        """Record the first change of a field that has one value for the whole reply."""
        if old and new and new != old:
            self.record_once(("changed", name), "changed-field", name, f"{old} became {new} within one reply")

    def parse_object(self, data: bytes, *, ended: bool) -> FrameFields | None:
        """Read the object in a frame; None for an empty frame, and for `[DONE]`, which some hosts add to any dialect.

        An unreadable frame is an error, or a loss after the reply has `ended`.
        """
        if data.strip() in (b"", b"[DONE]"):
            return None
        try:
            return FrameFields(jsonio.members(data))
        except jsonio.JsonError as exc:
            if not ended:
                raise
            self.record_loss("after-the-end", "stream", f"a frame after the last event cannot be read: {exc}")
            return None

    def origin(self) -> Origin:
        """Return the issuer of the reply's tokens, with the digest of the messages it is bound to, if any."""
        target, prefix = self.target, ""
        if self.request_body and target.traits.prefix_bound:
            blocks = [slot.block for choice in self._choices.values() for slot in choice.assembler.slots]
            if any(isinstance(block, Reasoning) for block in blocks):
                prefix = prefix_of(self.request_body, target, summary_block(AssistantMessage((blocks[0],))))
        model = target.model or self.model
        return Origin(target.provider.name, self.dialect, model, target.account, target.platform, prefix)

    def make_response(
        self,
        choices: Iterable[Choice],
        usage: Usage | None,
        raw_usage: str,
        extra: str = "",
        losses: Iterable[Loss] = (),
    ) -> ChatResponse:
        name = self.target.provider.name
        losses = (*self.losses, *losses)
        return ChatResponse(self.id, name, self.model, tuple(choices), usage, raw_usage, extra, losses)


def decode_stream(decoder: Decoder, chunks: Iterable[bytes]) -> ChatResponse:
    """Decode a whole stream. Raise its error, if it has one."""
    for chunk in chunks:
        decoder.feed(chunk)
        if decoder.error is not None:
            break
    last = decoder.finish()[-1]
    assert isinstance(last, MessageDone)
    return last.response


def decode_body(decoder: Decoder, body: bytes) -> ChatResponse:
    decoder.feed_body(body)
    return decode_stream(decoder, ())
