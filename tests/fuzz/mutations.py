"""Mutations of a recorded reply: of its JSON, its frames and its bytes. Each returns a short description.

All randomness comes from the `random.Random` given, so that the same seed gives the same mutation.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, TypeAlias

from fuzz.document import Literal, Members, Slot, copied, slots, write
from fuzz.stream import Stream

__all__ = ["BYTE_OPERATIONS", "FRAME_OPERATIONS", "VALUE_OPERATIONS", "mutate"]

ValueOperation: TypeAlias = Callable[[random.Random, Slot, list[Slot]], str]
FrameOperation: TypeAlias = Callable[[random.Random, Stream, Stream], str]
ByteOperation: TypeAlias = Callable[[random.Random, bytes, bytes], tuple[bytes, str]]

_VALUES: tuple[Any, ...] = (
    None, True, False, "", "x", "0", "null", "[DONE]", "{", '{"a":1}', "\x00", "\ud800", "\udc00", "a\ud83d", "\ude00b",
    "\u00e9\U0001f600", " ", "\r\n", "data: x\n\n", "<think>", "</think>",
    *map(Literal, ("0", "1", "-1", "7", "1.10", "-0", "1e400", "1E5", "NaN", "1000000", "18446744073709551616")),
    Literal("9" * 400), Literal("9" * 5000), Literal("1." + "3" * 5000), Literal("[" * 150 + "]" * 150),
    Literal("[" * 250 + "]" * 250), Literal('{"a":' * 250 + "1" + "}" * 250), Literal("[" * 5000 + "]" * 5000),
)  # fmt: skip
_KEYS = ("", "\ud800", "index", "id", "type", "text", "content", "error", "extra", "__class__", "raw", "role")
_BYTES = (
    b"\x00", b"\xff", b"\xed\xa0\x80", b"\xf0\x9f", b"\xef\xbb\xbf", b"\n", b"\r", b"\n\n", b"\r\n\r\n", b'"', b"\\", b"\\u",
    b"\\ud800", b"{", b"}", b"[", b"]", b",", b":", b"data:", b"data: [DONE]\n\n", b"event: error\n", b"event:", b": c\n",
    b"null", b"1e999",
)  # fmt: skip


# --- one value --------------------------------------------------------------------------------------------------------


def _any_value(rng: random.Random) -> Any:
    kind = rng.randrange(8)
    if kind == 0:
        return Members([[rng.choice(_KEYS), rng.choice(_VALUES)] for _ in range(rng.randrange(3))])
    if kind == 1:
        return [rng.choice(_VALUES) for _ in range(rng.randrange(3))]
    return rng.choice(_VALUES)


def _replace(rng: random.Random, slot: Slot, donor: list[Slot]) -> str:
    slot.put(_any_value(rng))
    return "replace"


def _borrow(rng: random.Random, slot: Slot, donor: list[Slot]) -> str:
    """Take the value that another reply has under the same key: another `type`, another `index`."""
    same = [other for other in donor if other.key == slot.key]
    slot.put(copied(rng.choice(same or donor).value))
    return "borrow"


def _delete(rng: random.Random, slot: Slot, donor: list[Slot]) -> str:
    if slot.path:
        del slot.holder[slot.at]
    return "delete"


def _duplicate(rng: random.Random, slot: Slot, donor: list[Slot]) -> str:
    if slot.path:
        item = copied(slot.value)
        item = [slot.key, item] if isinstance(slot.holder, Members) else item
        slot.holder.insert(rng.randrange(len(slot.holder) + 1), item)
    return "duplicate"


def _rename(rng: random.Random, slot: Slot, donor: list[Slot]) -> str:
    if isinstance(slot.holder, Members):
        keys = [other.key for other in donor if other.key]
        slot.holder[slot.at][0] = rng.choice(keys if keys and rng.random() < 0.7 else _KEYS)
    return "rename"


def _add(rng: random.Random, slot: Slot, donor: list[Slot]) -> str:
    """Add a member or an element, most often one that another reply has."""
    other = rng.choice(donor)
    value = copied(other.value) if rng.random() < 0.7 else _any_value(rng)
    holder = slot.value if isinstance(slot.value, list) else slot.holder
    item = [other.key or rng.choice(_KEYS), value] if isinstance(holder, Members) else value
    if holder is not slot.holder or slot.path:
        holder.insert(rng.randrange(len(holder) + 1), item)
    return "add"


def _reorder(rng: random.Random, slot: Slot, donor: list[Slot]) -> str:
    rng.shuffle(slot.value if isinstance(slot.value, list) else slot.holder)
    return "reorder"


def _wrap(rng: random.Random, slot: Slot, donor: list[Slot]) -> str:
    slot.put([slot.value] if rng.random() < 0.5 else Members([[slot.key or "text", slot.value]]))
    return "wrap"


def _number(rng: random.Random, slot: Slot, donor: list[Slot]) -> str:
    slot.put(Literal(rng.choice(("-1", "0", "1", "2", "3", "5", "1000000", "1.0", "0.5", "1e2"))))
    return "number"


def _edit(rng: random.Random, slot: Slot, donor: list[Slot]) -> str:
    """Change the characters of a string: half a character at either end, a part missing, something in between."""
    if not isinstance(slot.value, str) or isinstance(slot.value, Literal):
        return _replace(rng, slot, donor)
    text, at = slot.value, rng.randrange(len(slot.value) + 1)
    end = min(len(text), at + rng.randrange(1, 9))
    slot.put(rng.choice((
        text + "\ud83d", "\ude00" + text, text[:at] + text[end:], text[:at],
        text[:at] + str(rng.choice([value for value in _VALUES if type(value) is str])) + text[at:], text * 2, text.upper(),
    )))  # fmt: skip
    return "edit"


VALUE_OPERATIONS: tuple[ValueOperation, ...] = (
    _replace, _borrow, _delete, _duplicate, _rename, _add, _reorder, _wrap, _number, _edit,
)  # fmt: skip


def _slots_of(stream: Stream, rng: random.Random) -> list[Slot]:
    """Return the values of one frame of another reply; at least one."""
    try:
        return list(slots([stream.document(rng.randrange(len(stream.frames)))]))
    except (ValueError, IndexError):
        return list(slots([""]))


def _pick(rng: random.Random, found: list[Slot]) -> Slot:
    """Choose a value; those that structure a reply, its keys `index`, `type`, `id` and the like, more often."""
    structural = [
        slot for slot in found if slot.key.endswith(("index", "type", "id", "name", "role", "status", "object"))
    ]
    return rng.choice(structural) if structural and rng.random() < 0.3 else rng.choice(found)


def _change_value(rng: random.Random, stream: Stream, donor: Stream) -> str:
    at = rng.randrange(len(stream.frames))
    try:
        root = [stream.document(at)]
    except ValueError:
        return _change_frame_bytes(rng, stream, donor)
    slot = _pick(rng, list(slots(root)))
    was = write(slot.value)
    what = rng.choice(VALUE_OPERATIONS)(rng, slot, _slots_of(donor, rng))
    stream.put(at, root[0])
    return f"frame {at}: {what} {slot.path!a}, was {was[:60]}"


def _change_index(rng: random.Random, stream: Stream, donor: Stream) -> str:
    """Give another number to an index of one frame."""
    at = rng.randrange(len(stream.frames))
    try:
        root = [stream.document(at)]
    except ValueError:
        return _change_frame_bytes(rng, stream, donor)
    found = [slot for slot in slots(root) if slot.key.lower().endswith("index")]
    if not found:
        return _change_value(rng, stream, donor)
    slot = rng.choice(found)
    what = _number(rng, slot, [])
    stream.put(at, root[0])
    return f"frame {at}: {what} {slot.path!a}, now {slot.value}"


def _change_everywhere(rng: random.Random, stream: Stream, donor: Stream) -> str:
    """Delete a key in every frame, or give it one value in all of them."""
    at = rng.randrange(len(stream.frames))
    try:
        keys = sorted({slot.key for slot in slots([stream.document(at)]) if slot.key})
    except ValueError:
        keys = []
    if not keys:
        return _change_value(rng, stream, donor)
    key, value, delete = rng.choice(keys), _any_value(rng), rng.random() < 0.4
    for index in range(len(stream.frames)):
        try:
            root = [stream.document(index)]
        except ValueError:
            continue
        same = [slot for slot in slots(root) if slot.key == key]
        for slot in reversed(same):
            if delete:
                slot.holder[:] = [pair for pair in slot.holder if pair[0] != key]
            else:
                slot.put(copied(value))
        stream.put(index, root[0])
    return f"every frame: {'delete' if delete else 'replace'} key {key!r}"


# --- frames -----------------------------------------------------------------------------------------------------------


def _change_frame_bytes(rng: random.Random, stream: Stream, donor: Stream) -> str:
    at = rng.randrange(len(stream.frames))
    stream.frames[at], what = rng.choice(BYTE_OPERATIONS)(rng, stream.frames[at], donor.body)
    return f"frame {at}: {what}"


def _drop_frame(rng: random.Random, stream: Stream, donor: Stream) -> str:
    at = rng.randrange(len(stream.frames))
    if len(stream.frames) > 1:
        del stream.frames[at]
    return f"drop frame {at}"


def _repeat_frame(rng: random.Random, stream: Stream, donor: Stream) -> str:
    at, to = rng.randrange(len(stream.frames)), rng.randrange(len(stream.frames) + 1)
    stream.frames.insert(to, stream.frames[at])
    return f"repeat frame {at} at {to}"


def _move_frame(rng: random.Random, stream: Stream, donor: Stream) -> str:
    at, to = rng.randrange(len(stream.frames)), rng.randrange(len(stream.frames))
    stream.frames.insert(to, stream.frames.pop(at))
    return f"move frame {at} to {to}"


def _shuffle_frames(rng: random.Random, stream: Stream, donor: Stream) -> str:
    rng.shuffle(stream.frames)
    return "shuffle frames"


def _insert_frame(rng: random.Random, stream: Stream, donor: Stream) -> str:
    at, to = rng.randrange(len(donor.frames)), rng.randrange(len(stream.frames) + 1)
    stream.frames.insert(to, donor.frames[at])
    return f"insert frame {at} of the other reply at {to}"


def _interleave(rng: random.Random, stream: Stream, donor: Stream) -> str:
    one, two, mixed = stream.frames[::-1], donor.frames[::-1], []
    while one or two:
        mixed.append((one if one and (not two or rng.random() < 0.5) else two).pop())
    stream.frames[:] = mixed
    return "interleave with the other reply"


def _splice(rng: random.Random, stream: Stream, donor: Stream) -> str:
    at, to = rng.randrange(len(stream.frames) + 1), rng.randrange(len(donor.frames))
    stream.frames[at:] = donor.frames[to:]
    return f"first {at} frames, then the other reply from frame {to}"


def _rename_event(rng: random.Random, stream: Stream, donor: Stream) -> str:
    at, other = rng.randrange(len(stream.frames)), rng.choice(donor.frames)
    head, mark, rest = stream.frames[at].partition(b"data:")
    if stream.transport != "sse" or not mark:
        return _repeat_frame(rng, stream, donor)
    names = (b"", b": comment\n", b"event: ping\n", b"event: error\n", b"event:\n", other.partition(b"data:")[0])
    stream.frames[at] = rng.choice(names) + mark + rest
    return f"frame {at}: other event line, was {head[:60]!r}"


FRAME_OPERATIONS: tuple[FrameOperation, ...] = (
    _drop_frame, _repeat_frame, _move_frame, _shuffle_frames, _insert_frame, _interleave, _splice, _rename_event,
    _change_frame_bytes,
)  # fmt: skip


# --- bytes ------------------------------------------------------------------------------------------------------------


def _slice(rng: random.Random, data: bytes) -> tuple[int, int]:
    at = rng.randrange(len(data) + 1)
    return at, min(len(data), at + rng.choice((1, 2, 5, 20, 100)))


def _flip(rng: random.Random, data: bytes, donor: bytes) -> tuple[bytes, str]:
    if not data:
        return data, "flip nothing"
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :], f"flip a bit of byte {at}"


def _cut(rng: random.Random, data: bytes, donor: bytes) -> tuple[bytes, str]:
    at, end = _slice(rng, data)
    return data[:at] + data[end:], f"delete bytes {at} to {end}"


def _insert(rng: random.Random, data: bytes, donor: bytes) -> tuple[bytes, str]:
    at, piece = rng.randrange(len(data) + 1), rng.choice((*_BYTES, rng.randbytes(3)))
    return data[:at] + piece + data[at:], f"insert {piece!r} at byte {at}"


def _repeat(rng: random.Random, data: bytes, donor: bytes) -> tuple[bytes, str]:
    at, end = _slice(rng, data)
    return data[:end] + data[at:end] + data[end:], f"repeat bytes {at} to {end}"


def _truncate(rng: random.Random, data: bytes, donor: bytes) -> tuple[bytes, str]:
    at = rng.randrange(len(data) + 1)
    return data[:at], f"truncate at byte {at}"


def _overwrite(rng: random.Random, data: bytes, donor: bytes) -> tuple[bytes, str]:
    (at, end), (other, stop) = _slice(rng, data), _slice(rng, donor)
    return data[:at] + donor[other:stop] + data[end:], f"bytes {at} to {end} from the other reply"


def _line_ends(rng: random.Random, data: bytes, donor: bytes) -> tuple[bytes, str]:
    end = rng.choice((b"\r\n", b"\r"))
    return data.replace(b"\n", end), f"line ends {end!r}"


BYTE_OPERATIONS: tuple[ByteOperation, ...] = (_flip, _cut, _insert, _repeat, _truncate, _overwrite, _line_ends)


# --- all of it --------------------------------------------------------------------------------------------------------


def mutate(rng: random.Random, stream: Stream, donor: Stream) -> tuple[bytes, list[str]]:
    """Mutate a reply one to four times; return its bytes and a description of each mutation."""
    done: list[str] = []
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4))):
        if not stream.frames:
            break
        chance = rng.random()
        if chance < 0.2 and stream.transport != "json" and donor.transport == stream.transport:
            done.append(rng.choice(FRAME_OPERATIONS)(rng, stream, donor))
        elif chance < 0.3:
            done.append(_change_everywhere(rng, stream, donor))
        elif chance < 0.38:
            done.append(_change_index(rng, stream, donor))
        else:
            done.append(_change_value(rng, stream, donor))
    body = stream.body
    if rng.random() < 0.2:
        body, what = rng.choice(BYTE_OPERATIONS)(rng, body, donor.body)
        done.append(what)
    return body, done
