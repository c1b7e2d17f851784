"""What in a text is meant for a field: by the field's name and description, and by what the text has to offer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from fractions import Fraction

import msgspec

from tenuto.sim import sums
from tenuto.sim.words import STOP, Words, content, parts, shortened, stem

__all__ = ["Field", "asks_for", "is_mentioned", "is_wished", "numbers", "occurs", "strings", "wish"]

_KINDS: dict[str, frozenset[str]] = {
    kind: frozenset(words.split())
    for kind, words in {
        "url": "url uri link href website endpoint webpage page",
        "path": "path file filename filepath dir directory folder document",
        "email": "email mail recipient recipients cc bcc sender",
        "date": "date day deadline birthday checkin checkout when since until",
        "time": "time hour at",
        "sum": "expression formula calculation equation expr math arithmetic sum",
        "figure": "latitude longitude lat lon lng amount price quantity number digits",
        "origin": "origin from departure source start",
        "destination": "destination to arrival target end",
        "name": (
            "city cities town location place country region state person user username name author artist company entity "
            "player customer employee contact owner species product item symbol ticker station airport street team "
            "language currency who capital"
        ),
        "answer": (
            "answer reply response result summary explanation output conclusion analysis reasoning greeting translation "
            "rationale report outcome finding poem joke story haiku"
        ),
        "text": (
            "query question q search prompt text input message content body topic subject task instruction instructions "
            "description note notes title term terms keyword keywords request comment phrase sentence goal prose"
        ),
        "code": "code script program source sql command snippet",
    }.items()
}
_LEAD = re.compile(
    r"^\s*(?:(?:please|hey|hi|hello|ok|okay|now|then|so)[,!]?\s+|(?:can|could|would|will) you (?:please )?|i (?:want|need|would like)(?: you)?(?: to)? |i'd like(?: you)?(?: to)? "
    r"|(?:use|call|run|invoke) (?:the |your )?[\w-]+(?: tool| function)? (?:to|and|for|with) )+",
    re.IGNORECASE,
)
_ASKS = re.compile(
    r"^(?:(?:do )?(?:a )?(?:web )?(?:search|google|browse)(?: the (?:web|internet|docs|documentation|database))?(?: for| about| on)?"
    r"|look up|look for|find(?: out)?(?: me)?(?: about)?|tell me(?: more)?(?: about)?|show me|give me|what(?:'s| is| are| was| were)"
    r"|who(?:'s| is| was)|get(?: me)?|fetch|check)\b\s*(?:the |a |an |some )?(?:information |details )?(?:about |on |for )?",
    re.IGNORECASE,
)
_NO = re.compile(r"\b(?:no|not|don't|without|never|disable|off|isn't)\b", re.IGNORECASE)


class Field(msgspec.Struct, frozen=True):
    """A field to be filled: its name and what is said about it."""

    name: str = ""
    description: str = ""

    @property
    def spoken(self) -> list[str]:
        """The name as one would say it, then its parts, the last first."""
        words = parts(self.name)
        whole = " ".join(words)
        return [whole, *(word for word in reversed(words) if word != whole and len(word) > 1)]

    def kinds(self) -> list[str]:
        """Return what sort of thing it asks for, the likeliest first: its name counts before its description."""
        said = [*reversed(parts(self.name)), *re.findall(r"[a-z]+", self.description.lower())]
        singular = [word.rstrip("s") if len(word) > 3 else word for word in said]
        found = [
            kind for pair in zip(said, singular, strict=True) for kind, known in _KINDS.items() if known & set(pair)
        ]
        return list(dict.fromkeys(found))


def asks_for(field: Field, kind: str) -> bool:
    """Say whether the name of a field asks for this sort of thing."""
    return kind in Field(field.name).kinds()


def wish(text: str) -> str:
    """Return a request without its polite beginning and its question mark."""
    return _LEAD.sub("", text.strip()).rstrip(" ?.!") or text.strip()


def _query(text: str) -> str:
    bare = wish(text)
    return shortened(_ASKS.sub("", bare).strip(" :,;-") or bare, 400)


def _of_kind(kind: str, field: Field, words: Words) -> Iterable[str]:
    """Return what a text has of a sort."""
    if kind in ("url", "path", "email", "date", "time"):
        return {
            "url": words.urls,
            "path": words.paths,
            "email": words.emails,
            "date": words.dates,
            "time": words.times,
        }[kind]
    if kind == "sum":
        found = sums.find(words.text)
        return [found.expression] if found else []
    if kind == "figure":
        near = words.number_near(*field.spoken)
        return [sums.told(value) for value in ((near,) if near is not None else words.numbers)]
    if kind == "origin":
        return filter(None, [words.after("from")])
    if kind == "destination":
        return filter(None, [*words.emails, words.after("to", "into", "towards")])
    if kind == "name":
        return words.names
    if kind == "answer":
        return filter(None, [words.answer])
    if kind == "text":
        carried = asks_for(Field(parts(field.name)[-1] if field.name else ""), "text") and not _asks_back(field)
        quoted = () if {"subject", "title"} & set(parts(field.name)) else words.quoted
        return filter(None, [*quoted, *([words.answer] if carried else []), _query(words.task)])
    return words.quoted


def _asks_back(field: Field) -> bool:
    """A search or a question wants the user's words; a message or a note wants what is to be said."""
    return bool(
        set(parts(field.name))
        & {
            "query",
            "question",
            "q",
            "search",
            "prompt",
            "input",
            "topic",
            "term",
            "keyword",
            "keywords",
            "request",
            "task",
            "title",
            "subject",
        }
    )


def strings(field: Field, words: Words) -> Iterator[str]:
    """Yield what may be meant for a field that holds a text, the likeliest first."""
    if not words.text.strip() and not words.answer:
        return
    spoken = [name for name in field.spoken if name not in STOP and name]
    if spoken and (given := words.after(*spoken)):
        yield given
    for kind in field.kinds():
        yield from _of_kind(kind, field, words)
    yield from words.quoted
    yield from words.names
    if not {"url", "path", "email", "date", "time"} & set(Field(field.name).kinds()) and words.text.strip():
        yield _query(words.task)


def numbers(field: Field, words: Words) -> Iterator[Fraction]:
    """Yield what may be meant for a field that holds a number, the likeliest first."""
    spoken = [name for name in field.spoken if len(name) > 1]
    near = words.number_near(*spoken, *(stem(name) for name in spoken)) if spoken else None
    if near is not None:
        yield near
    if asks_for(field, "answer") or asks_for(field, "sum"):
        yield from reversed(Words(words.answer).numbers)
    yield from words.numbers


def is_wished(field: Field, words: Words) -> bool | None:
    """Say whether a text asks for a field that is true or false; None if it does not speak of it."""
    known = [
        stem(part) for part in parts(field.name) if part not in STOP and part not in ("include", "is", "enable", "with")
    ]
    for clause in words.clauses():
        if known and set(known) <= set(content(clause)):
            return not _NO.search(clause)
    return None


def is_mentioned(field: Field, schema: object, words: Words) -> bool:
    """Say whether a text gives something for a field that may also be left out."""
    spoken = [name for name in field.spoken if name not in STOP and name]
    if is_wished(field, words) is not None or (spoken and words.after(*spoken)):
        return True
    if spoken and words.number_near(*spoken) is not None:
        return True
    allowed = schema.get("enum") if isinstance(schema, dict) else None
    if isinstance(allowed, list):
        return any(isinstance(value, str) and occurs(value, words) for value in allowed)
    named = [kind for kind in Field(field.name).kinds() if kind not in ("text", "answer", "code", "name")]
    return any(True for kind in named for _ in _of_kind(kind, field, words))


def occurs(value: str, words: Words) -> bool:
    """Say whether a value, or the words it is made of, stands in a text."""
    spoken = " ".join(parts(value)) or value
    found = rf"(?<!\w)(?:{re.escape(value)}|{re.escape(spoken)})(?!\w)"
    return bool(value) and bool(re.search(found, words.text, re.IGNORECASE))
