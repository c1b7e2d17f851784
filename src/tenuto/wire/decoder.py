"""What the four dialects share: the shape of a decoder, the door where foreign exceptions become ours, minted ids.

A decoder reads one reply. Bytes go in (`feed`, or `whole` for a body that did not stream), events come out, and
`finish` says that no more bytes come. A body that did not stream takes the same path as the frames of a stream.

Faults are told in order: `feed` returns the events that came before a fault, then a `ErrorEvent`, and keeps the exception
in `error`; `finish` raises it. So no event is lost to an error that came in the same piece.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import ClassVar

import msgspec
from msgspec import Raw

from tenuto.core import jsonio
from tenuto.core.blocks import Block, ToolUse
from tenuto.core.events import ContentDelta, ContentDone, ContentStart, Delta, ErrorEvent, MessageDone, StreamEvent
from tenuto.core.loss import Loss
from tenuto.core.messages import AssistantMessage, Origin
from tenuto.core.provider import Dialect, Target
from tenuto.core.response import ChatResponse, Choice
from tenuto.errors import IncompleteResponse, LLMError, ProtocolError, StreamAssemblyError
from tenuto.wire.assembler import BlockAssembler, BlockSlot
from tenuto.wire.framing import FrameReader, Framing

__all__ = ["ChoiceBuilder", "Decoder", "decode_body", "decode_stream", "new_id"]

_FAULTS = (ValueError, RecursionError, StreamAssemblyError)
"""What malformed data raises: JSON errors are ValueErrors. Any other exception is a bug of ours, and is not caught."""
_RAISED = (LLMError, *_FAULTS)
_SHOWN = 200
"""How many characters of an unreadable frame its error shows."""
MOST_CHOICES = 1_000
"""How many choices a reply may have beyond those asked for: a server could send millions."""
_PACKED = 31
"""How many frames go by before pieces are packed: 600 of 20 letters take 13 KB then, and 53 where each stays alone.

A prime: of parts that grow in turns, each is met.
"""


def new_id(seed: str, response_id: str, candidate: int, ordinal: int) -> str:
    """Make the id for a call that came without one: the same bytes always give the same id."""
    named = "\x00".join((seed, response_id, str(candidate), str(ordinal)))
    return f"tnt_{hashlib.sha256(named.encode('utf-8', 'surrogatepass')).hexdigest()[:24]}"


class MissingField(jsonio.JsonError):
    """A frame lacks a field that its dialect requires."""


class FrameFields(dict[str, Raw]):
    """The fields of a frame. Reading a field that is missing raises `MissingField`."""

    def __missing__(self, name: str) -> Raw:
        kind = self.get("type")
        named = kind is not None and bytes(kind)[:1] == b'"'
        raise MissingField(f"{jsonio.text_of(kind) if named else 'frame'} without {name}")


class ChoiceBuilder:
    """One choice on its way: assembles its blocks and tells of them, in step."""

    __slots__ = ("assembler", "choice", "losses", "out")

    def __init__(self, out: list[StreamEvent], losses: list[Loss], choice: int = 0) -> None:
        self.out = out
        self.losses = losses
        self.choice = choice
        self.assembler = BlockAssembler()

    def start(self, block: Block) -> BlockSlot:
        """Begin a part."""
        slot = self.assembler.begin(block)
        self.out.append(ContentStart(self.choice, slot.index, block))
        return slot

    def append(self, slot: BlockSlot, piece: str, delta: Delta) -> None:
        """Add a piece to a part, and tell of it as `delta`."""
        slot.pieces.append(piece)
        self.out.append(ContentDelta(self.choice, slot.index, delta))

    def emit(self, slot: BlockSlot, delta: Delta) -> None:
        """Tell of something about an open part that is not a piece of it."""
        self.out.append(ContentDelta(self.choice, slot.index, delta))

    def finish(self, slot: BlockSlot, block: Block | None = None) -> Block:
        """Finish a part; arguments that are not JSON are kept, with the reason and a `Loss`."""
        whole = block if block is not None else slot.joined()
        if isinstance(whole, ToolUse) and whole.kind == "function" and whole.args and not whole.args_error:
            whole = self._checked(whole, slot.index)
        self.assembler.finish(slot, whole)
        self.out.append(ContentDone(self.choice, slot.index, whole))
        return whole

    def add(self, block: Block, delta: Delta | None = None, bare: Block | None = None) -> Block:
        """Tell of a part that came whole and is no call: start (as `bare`, if given), at most one delta, done."""
        slot = self.assembler.begin(block)
        slot.done = True
        choice, index, out = self.choice, slot.index, self.out
        out.append(ContentStart(choice, index, bare or block))
        if delta is not None:
            out.append(ContentDelta(choice, index, delta))
        out.append(ContentDone(choice, index, block))
        return block

    def _checked(self, block: ToolUse, index: int) -> ToolUse:
        reason = jsonio.problem(block.args)
        if not reason:
            return block
        place = f"choices[{self.choice}].blocks[{index}].args"
        self.losses.append(Loss("broken-arguments", place, f"{block.name}: {reason}", "answer the call with an error"))
        return msgspec.structs.replace(block, args_error=reason)


class Decoder(ABC):
    """Bytes in, events out. One decoder reads one reply in one dialect.

    `seed` goes into minted ids: give the digest of the request, so that two replies never share one. `heard` counts the
    frames that came, comments aside: a sign of life. `audio_format` is what was asked for, if speech was. `prefix` is to be
    set to the digest of what the reply's tokens are bound to, if they are.
    """

    dialect: ClassVar[Dialect]
    framing: ClassVar[type[Framing]] = FrameReader

    def __init__(self, target: Target, *, seed: str = "", audio_format: str = "") -> None:
        self.target = target
        self.seed = seed
        self.prefix = ""
        self.audio_format = audio_format
        self.most_choices = MOST_CHOICES
        self.out: list[StreamEvent] = []
        self.losses: list[Loss] = []
        self.error: LLMError | None = None
        self.frame_count = 0
        self._reader = self.framing()
        self._ended = False
        self._choices: dict[int, ChoiceBuilder] = {}
        self._packs_at = _PACKED

    # --- what a dialect writes ----------------------------------------------------------------------------------------

    @abstractmethod
    def frame(self, name: bytes, data: bytes) -> None:
        """Read one frame of a stream; append the events it gives rise to to `out`."""

    @abstractmethod
    def body(self, data: bytes) -> None:
        """Read a body that did not stream, as the frames that a stream would have carried."""

    @abstractmethod
    def complete(self) -> bool:
        """Tell whether the dialect's last word has come; close what it leaves open."""

    @abstractmethod
    def response(self, *, partial: bool) -> ChatResponse:
        """Assemble the reply; `partial` takes what has come so far, with open blocks stripped of their tokens."""

    @property
    def ended(self) -> bool:
        """Whether the dialect's last word was read: what may still come is not waited for."""
        return False

    @property
    def only_usage_missing(self) -> bool:
        """Whether every answer has ended, and only what is told of it (its usage) may still come."""
        return self.ended

    # --- the door -----------------------------------------------------------------------------------------------------

    def feed(self, piece: bytes) -> list[StreamEvent]:
        """Take the next bytes; return the events they complete. After a `ErrorEvent`, nothing more is read."""
        if self.error is None:
            data = piece
            try:
                frames = self._reader.feed(piece)
                self.frame_count += len(frames)
                for name, data in frames:
                    self.frame(name, data)
            except _RAISED as exc:
                self._fault(exc, data)
        if self.frame_count >= self._packs_at:
            self._pack()
        events = self.out.copy()
        self.out.clear()  # or a stream would hold its last events until the next come: with 32 of them, 5 KB
        return events

    def feed_body(self, body: bytes) -> list[StreamEvent]:
        """Take a body that did not stream, and so all the bytes; return its events."""
        self._ended = True
        self._body(body)
        events = self.out.copy()
        self.out.clear()
        return events

    def drain(self) -> list[StreamEvent]:
        """The bytes have ended: read the frame that was still open, and return its events.

        Call it before `finish`, which raises if the reply is incomplete, and then returns no events.
        """
        if not self._ended and self.error is None:
            self._drain()
        self._ended = True
        events = self.out.copy()
        self.out.clear()
        return events

    def finish(self) -> list[StreamEvent]:
        """The bytes have ended: return the last events, of which the last is `MessageDone`.

        Raise what was wrong with the stream, or `IncompleteResponse` if the dialect's last word never came.
        """
        events = self.drain()
        if self.error is None:
            try:
                if self.complete():
                    self.out.append(MessageDone(self.response(partial=False)))
                else:
                    message = f"the reply ended before its last event ({self.dialect})"
                    self._fail(IncompleteResponse(message, provider=self.target.provider.name))
            except _RAISED as exc:
                self._fault(exc, b"")
        events += self.out
        self.out.clear()
        if self.error is not None:
            raise self.error
        return events

    def partial(self) -> ChatResponse:
        """Return what has come so far, whatever that was: at least one message, and each of them incomplete.

        If it cannot be put together, the reply is empty, and a `Loss` says why.
        """
        nothing = (Choice(AssistantMessage((), incomplete=True)),)
        try:
            response = self.response(partial=True)
        except _FAULTS as exc:
            what = jsonio.printable(f"what had come could not be put together: {exc!r}")
            losses = (*self.losses, Loss("unassembled", "reply", what))
            return ChatResponse("", self.target.provider.name, self.target.model, nothing, losses=losses)
        return response if response.choices else msgspec.structs.replace(response, choices=nothing)

    def fail(self, error: LLMError) -> None:
        """The bytes have ended with a fault of the line: what came goes on the error as `partial`."""
        self._fail(error)
        self.out.clear()

    def _pack(self) -> None:
        """Pack the pieces of the part that grew last: it is nearly always the one that grows."""
        self._packs_at = self.frame_count + _PACKED
        last = self.out[-1] if self.out else None
        if type(last) is ContentDelta:
            self._choices[last.choice_index].assembler.slot(last.part_index).pack()

    def _drain(self) -> None:
        try:
            frames = self._reader.close()
        except _RAISED as exc:
            self._fault(exc, b"")
            return
        for name, data in frames:
            if self._reader.whole:
                self._body(data)
            else:
                self._last_frame(name, data)

    def _body(self, data: bytes) -> None:
        try:
            self.body(data)
        except _RAISED as exc:
            self._fault(exc, data)

    def _last_frame(self, name: bytes, data: bytes) -> None:
        """Read the frame that was still open when the bytes ended; one that cannot be read was cut off."""
        try:
            self.frame(name, data)
        except LLMError as exc:
            self._fail(exc)
        except _FAULTS as exc:
            message = f"the reply ended in the middle of an event ({self.dialect})"
            error = IncompleteResponse(message, provider=self.target.provider.name)
            error.__cause__ = exc
            self._fail(error)

    def _fault(self, exc: Exception, data: bytes) -> None:
        """Fail with what was raised while `data` was read: an error of ours as it is, any other as an unreadable frame."""
        if isinstance(exc, LLMError):
            self._fail(exc)
            return
        message = str(exc)
        if not isinstance(exc, MissingField):
            received = data.decode("utf-8", "replace")[:_SHOWN]
            message = f"unreadable frame: {message}" + (f"; received: {received}" if received else "")
        error = ProtocolError(jsonio.printable(message), provider=self.target.provider.name, frame=data)
        error.__cause__ = exc
        self._fail(error)

    def _fail(self, error: LLMError) -> None:
        if self.error is None:
            error.provider = error.provider or self.target.provider.name
            error.partial = self.partial()
            self.error = error
            self.out.append(ErrorEvent(str(error), error.raw))

    # --- what dialects share ------------------------------------------------------------------------------------------

    def parts(self, choice: int = 0) -> ChoiceBuilder:
        """Make the assembler of one choice; one that was made for it before is void.

        Raise `ProtocolError` for more than `most_choices`.
        """
        if len(self._choices) >= self.most_choices and choice not in self._choices:
            raise ProtocolError(f"the reply has more than {self.most_choices:,} choices")
        self._choices[choice] = parts = ChoiceBuilder(self.out, self.losses, choice)
        return parts

    def record_loss(self, rule: str, place: str, what: str, remedy: str = "") -> None:
        """Record something that could not be kept."""
        self.losses.append(Loss(rule, place, what, remedy))

    def parse_object(self, data: bytes, *, ended: bool) -> FrameFields | None:
        """Read the object in a frame. One that cannot be read is a fault, or a loss if the last word has `ended` it."""
        try:
            return FrameFields(jsonio.members(data))
        except jsonio.JsonError as exc:
            if not ended:
                raise
            self.record_loss("after-the-end", "stream", f"a frame behind the last word cannot be read: {exc}")
            return None

    def origin(self, model: str) -> Origin:
        """Say who issued this reply's tokens: the model asked for, or the one that answered where none is known."""
        to = self.target
        return Origin(to.provider.name, self.dialect, to.model or model, to.account, to.platform, self.prefix)


def decode_stream(decoder: Decoder, pieces: Iterable[bytes]) -> ChatResponse:
    """Drain a stream: feed every piece, return the assembled reply, raise what went wrong."""
    for piece in pieces:
        decoder.feed(piece)
        if decoder.error is not None:
            break
    return _last(decoder)


def decode_body(decoder: Decoder, body: bytes) -> ChatResponse:
    """Read a body that did not stream."""
    decoder.feed_body(body)
    return _last(decoder)


def _last(decoder: Decoder) -> ChatResponse:
    last = decoder.finish()[-1]
    assert isinstance(last, MessageDone)
    return last.response
