"""What in a text is meant for a field: by the field's name and description, and by what the text has to offer."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction

import msgspec

from tenuto.sim import sums
from tenuto.sim.schemas import types
from tenuto.sim.words import STOP, Words, content, parts, shortened, stem

__all__ = ["Field", "asks_for", "is_named", "is_wished", "numbers", "occurs", "offers", "strings", "wish"]

_KINDS: dict[str, frozenset[str]] = {
    kind: frozenset(words.split())
    for kind, words in {
        "url": "url uri link href website endpoint webpage page",
        "path": "path file filename filepath dir directory folder document",
        "email": "email mail recipient recipients cc bcc sender attendee attendees participant guest invitee",
        "date": "date day deadline birthday checkin checkout when since until",
        "time": "time hour at",
        "sum": "expression formula calculation equation expr math arithmetic sum",
        "figure": "latitude longitude lat lon lng amount price quantity number digits",
        "repository": "owner org organization repo repository",
        "origin": "origin from departure source start",
        "destination": "destination to arrival target end",
        "name": (
            "city cities town location place country region state person user username name author artist company entity "
            "player customer employee contact owner species product item symbol ticker station airport street team "
            "language currency who capital room device"
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
_PLACES = {"city", "cities", "town", "location", "place", "country", "region", "state", "station", "airport", "street"}
_HERE = re.compile(r"\b(?:current|this|working) (?:directory|folder)\b", re.IGNORECASE)
_SWITCH = re.compile(
    r"\b(?:turn|switch|power|put)(?:ed|s)?\b[^.!?]{0,40}?\b(on|off)\b|\b(enable|activate|start)\b|\b(?:disable|deactivate|stop)\b",
    re.IGNORECASE,
)
_SWITCHED = frozenset({"on", "enabled", "enable", "active", "power"})
_SECONDS = {
    "millisecond": Fraction(1, 1000), "ms": Fraction(1, 1000), "second": Fraction(1), "sec": Fraction(1),
    "minute": Fraction(60), "min": Fraction(60), "hour": Fraction(3600), "day": Fraction(86_400), "week": Fraction(604_800),
}  # fmt: skip
_SPAN = re.compile(rf"(?<![\w.])(\d{{1,9}}(?:\.\d{{1,9}})?|[a-z]{{1,9}})[ -]?({'|'.join(_SECONDS)})s?\b", re.IGNORECASE)
_RUN = re.compile(r"^(?:run|execute)(?: the)?(?: (?:command|query|statement|script))?\s*:?\s*", re.IGNORECASE)
_DAY = re.compile(
    r"\b(?:today|tomorrow|yesterday|(?:next |last |this )?(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day|week|month))\b",
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
    return filter(None, _OFFERS[kind](field, words))


def _sums(_: Field, words: Words) -> Iterable[str]:
    found = sums.find(words.text)
    return [found.expression] if found else []


def _figures(field: Field, words: Words) -> Iterable[str]:
    near = words.number_near(*field.spoken)
    return [sums.told(value) for value in ((near,) if near is not None else words.numbers)]


def _repository(field: Field, words: Words) -> Iterable[str]:
    is_owner = {"owner", "org", "organization"} & set(parts(field.name))
    return words.repository[:1] if is_owner else words.repository[1:]


def _names(field: Field, words: Words) -> Iterable[str]:
    return [*(words.places if _PLACES & set(parts(field.name)) else words.names), *words.quoted, *words.phrases]


def _texts(field: Field, words: Words) -> Iterable[str]:
    carried = asks_for(Field(parts(field.name)[-1] if field.name else ""), "text") and not _asks_back(field)
    quoted = () if {"subject", "title"} & set(parts(field.name)) else words.quoted
    return [*quoted, *([words.answer] if carried else []), _query(words.task)]


_OFFERS: dict[str, Callable[[Field, Words], Iterable[str]]] = {
    "url": lambda _, words: words.urls,
    "path": lambda _, words: words.paths or (["."] if _HERE.search(words.task) else []),
    "email": lambda _, words: words.emails,
    "date": lambda _, words: [*words.dates, *(day.lower() for day in _DAY.findall(words.text))],
    "time": lambda _, words: words.times,
    "sum": _sums,
    "figure": _figures,
    "repository": _repository,
    "origin": lambda _, words: [words.after("from")],
    "destination": lambda _, words: [*words.emails, words.after("to", "into", "towards")],
    "name": _names,
    "answer": lambda _, words: [words.answer],
    "text": _texts,
    "code": lambda _, words: [*words.quoted, _RUN.sub("", wish(words.task))],
}


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
    asked = set(Field(field.name).kinds())
    if asked & {"url", "path", "email", "date", "time"}:
        return
    yield from words.quoted
    yield from words.names
    if words.known and "name" in asked:  # a tool's: a whole request is no name
        return
    if words.text.strip():
        yield _query(words.task)


def numbers(field: Field, words: Words) -> Iterator[Fraction]:
    """Yield what may be meant for a field that holds a number, the likeliest first."""
    spoken = [name for name in field.spoken if len(name) > 1]
    yield from _span(field, words)
    near = words.number_near(*spoken, *(stem(name) for name in spoken)) if spoken else None
    if near is not None:
        yield near
    if asks_for(field, "answer") or asks_for(field, "sum"):
        yield from reversed(Words(words.answer).numbers)
    yield from words.numbers


def _span(field: Field, words: Words) -> Iterator[Fraction]:
    """Yield how long something lasts, in the unit that the field is named after."""
    named = [part if part == "ms" else part.removesuffix("s") for part in parts(field.name)]
    unit = next((_SECONDS[part] for part in named if part in _SECONDS and part not in ("min", "sec")), None)
    if unit is None:
        return
    for amount, measure in _SPAN.findall(words.text):
        value = Fraction(1) if amount.lower() in ("a", "an") else sums.number(amount)
        if value is not None:
            yield value * _SECONDS[measure.lower()] / unit


def is_wished(field: Field, words: Words) -> bool | None:
    """Say whether a text asks for a field that is true or false; None if it does not speak of it."""
    known = [
        stem(part) for part in parts(field.name) if part not in STOP and part not in ("include", "is", "enable", "with")
    ]
    switch = _SWITCH.search(words.task) if _SWITCHED & set(parts(field.name)) else None
    if switch:
        return (switch[1] or "").lower() == "on" or bool(switch[2])
    for clause in words.clauses():
        if known and set(known) <= set(content(clause)):
            return not _NO.search(clause)
    return None


def is_named(field: Field, schema: object, words: Words) -> bool:
    """Say whether a text speaks by name of a field that may also be left out, or of one of the values it may have."""
    spoken = [name for name in field.spoken if name not in STOP and name]
    told = schema if isinstance(schema, dict) else {}
    if types(told) <= {"boolean", "null"} and is_wished(field, words) is not None:
        return True
    if spoken and (words.after(*spoken) or words.number_near(*spoken) is not None):
        return True
    if types(told) & {"integer", "number"} and words.numbers and is_wished(field, words) is not None:
        return True
    allowed = told.get("enum")
    return isinstance(allowed, list) and any(isinstance(value, str) and occurs(value, words) for value in allowed)


def offers(field: Field, words: Words) -> list[str]:
    """Return what a text has of the sort that a field's name asks for; any text would do for some, which says nothing."""
    named = [kind for kind in Field(field.name).kinds() if kind not in ("text", "answer", "code", "name")]
    return list(dict.fromkeys(text for kind in named for text in _of_kind(kind, field, words)))


def occurs(value: str, words: Words) -> bool:
    """Say whether a value, or the words it is made of, stands in a text."""
    spoken = " ".join(parts(value)) or value
    if value.lower() not in words.lowered and spoken not in words.lowered:
        return False
    found = rf"(?<!\w)(?:{re.escape(value)}|{re.escape(spoken)})(?!\w)"
    return bool(value) and bool(re.search(found, words.text, re.IGNORECASE))
