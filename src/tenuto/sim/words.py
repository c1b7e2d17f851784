"""What a text offers: its names, numbers, quotations, addresses, dates, and what stands next to which word."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from fractions import Fraction
from functools import cached_property, lru_cache

from tenuto.sim import sums

__all__ = ["STOP", "Words", "content", "parts", "quotation", "shortened", "stem"]

_COMMON = (
    "a about after all also am an and any are as at be been before both but by can could did do does each else every few "
    "first for from get give had has have he her here him his how i if in into is it its just know let like make many may "
    "me might more most much must my need no not now of on one only or other our out over own please same she should so "
    "some such take tell than that the their them then there these they this those through to too two under until up us "
    "use very want was we were what when where which while who whom whose why will with would yes yet you your "
    "s t d ll re ve m set run call using used show given return returns value values tool function parameter "
    "string number data thing things"
)
STOP = frozenset(_COMMON.split())
_WORD = re.compile(r"[^\W_]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[\s_\-./:]+")
_QUOTED = re.compile(
    r"\"([^\"\n]{1,300})\"|“([^”\n]{1,300})”|(?<!\w)'([^'\n]{1,300})'(?!\w)|`([^`\n]{1,300})`|«([^»\n]{1,300})»"
)
_URL = re.compile(r"\b(?:https?|ftp)://[^\s<>\"')\]]*[^\s<>\"')\].,;:!?]")
_EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)*\.[A-Za-z]{2,}\b")
_PATH = re.compile(
    r"(?<![\w:/])(?:~|\.{1,2})?/[\w.@+-]+(?:/[\w.@+-]+)*/?|(?<![\w./-])[\w-]+(?:/[\w-]+)*(?:\.[\w-]+)*\.[A-Za-z][A-Za-z0-9]{0,4}\b"
)
_DATE = re.compile(r"\b\d{4}-\d{2}-\d{2}\b")
_TIME = re.compile(r"\b(?:[01]?\d|2[0-3]):[0-5]\d(?::[0-5]\d)?\b")
_NUMBER = re.compile(
    r"(?<![\w.])-?\d+(?:,\d{3})*(?:\.\d+)?(?![\w]|\.\d)|(?<![\w.])-?\d+(?:\.\d+)?(?=[°%a-zA-Z€$])|(?<=[$€£])\d+(?:\.\d+)?"
)
_NAME = r"[A-ZÀ-ÞĀ-Ž][\w'\u2019-]*(?: (?:de |da |of the |of |la |el |van |von |den )?[A-ZÀ-ÞĀ-Ž][\w'\u2019-]*){0,5}"
_NAMES = re.compile(_NAME)
_AT = r"(?:(?:in|at|for|to|near|of) )?"
_GROUP = re.compile(rf"(?:{_NAME}, (?:and |or )?{_AT}){{0,20}}{_NAME},? (?:and|or|&|as well as) {_AT}{_NAME}")
_PLACED = re.compile(r"(?<!\w)(?:in|at|near|for|from|to|around|en|em|i|à|nach|в)\s(?:the )?$", re.IGNORECASE)
_PHRASE = re.compile(
    r"\b(?:in|at|near|for|about|of) (?:the |my |our |an? )?([a-z][\w'-]*(?: [a-z][\w'-]*){0,2}?)"
    r"(?= (?:in|at|on|with|and|or|to|for|as|is|are|today|tomorrow|now|right|please|using|from|by|light|lights)\b|[?.!,;]|$)"
)
_REPOSITORY = re.compile(r"(?<![\w/.:@-])(?:https?://[\w.-]+/)?([\w-]+)/([\w.-]*\w)(?![\w/])")
_SPELLED = r"[\w'-]+"
_BREAK = re.compile(r"(?:,? and (?:then |also )?|,? then |; |(?<=[.!?])\s+|, )", re.IGNORECASE)
_FIGURE = r"(?<![\d.,])-?\d{1,60}+(?:,\d{3})*+(?:\.\d{1,60}+)?+"
_SENTENCE_START = re.compile(r"(?:^|[.!?:\n]\s*|[\"'“(*#>¿¡-]\s*)$")
_FIRST_WORDS = (
    "what's i'm i'd i'll i've it's let's hello hi hey thanks thank ok okay find search look calculate compute check list "
    "write read create delete send book open close convert translate summarize summarise compare count say repeat answer "
    "reply respond explain describe add multiply divide remember fetch update start stop dear greetings return use "
    "monday tuesday wednesday thursday friday saturday sunday today tomorrow yesterday json url api id sql html csv "
    "name plan schedule remind generate draw think search lookup get put post which whats whos price weather temperature "
    "capital population turn roll email mail run wie que hva"
)
_NO_NAME = STOP | frozenset(_FIRST_WORDS.split())


@lru_cache(maxsize=20_000)
def stem(word: str) -> str:
    """Return a word without its inflection, so that `cities` and `city` are the same."""
    word = word.lower()
    if len(word) > 4 and word.endswith("ies"):
        word = word[:-3] + "y"
    elif len(word) > 4 and word.endswith(("sses", "shes", "ches", "xes", "zes")):
        word = word[:-2]
    elif len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending in (
        "ations",
        "ation",
        "ators",
        "ator",
        "ating",
        "ated",
        "ate",
        "ing",
        "edly",
        "ers",
        "ed",
        "er",
        "ors",
        "or",
        "ion",
        "ly",
        "ment",
    ):
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            word = word[: -len(ending)]
            break
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "aeiouls":
        word = word[:-1]
    return word[:-1] if len(word) > 4 and word.endswith("e") else word


def parts(name: str) -> list[str]:
    """Cut a name as programs write them (`get_weather`, `cityName`) into words."""
    return [part.lower() for part in _CAMEL.split(name) if part]


def content(text: str) -> list[str]:
    """Return the stems of the words that say something, in their order."""
    return [stem(word) for word in _WORD.findall(text) if word.lower() not in STOP]


def shortened(text: str, length: int) -> str:
    """Return a text on one line and not much longer than this, cut between words."""
    text = text.strip()
    near = text[: length * 8 + 200]  # the rest of a large text is not looked at
    flat = " ".join(near.split())
    if len(flat) <= length and len(near) == len(text):
        return flat
    cut = flat[:length].rsplit(" ", 1)[0] if " " in flat[:length] else flat[:length]
    return cut.rstrip(" ,;:.") + "..."


def quotation(text: str, length: int) -> str:
    """Return a text in quotation marks, with a full stop if it has none, so that a sentence can follow."""
    short = shortened(text, length)
    return f'"{short}"' if short.endswith((".", "!", "?", "\u3002", "\uff1f")) else f'"{short}".'


def _unique(found: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(found))


class Words:
    """A text with what can be taken from it. `answer` is what would be said to it, for a field that asks for that; `task`
    is the part of it that asks for something, all of it unless it is given; `known` are stems that say what is to be done
    and not with what.
    """

    def __init__(self, text: str, answer: str = "", task: str = "", known: frozenset[str] = frozenset()) -> None:
        self.text = text if len(text) <= 8000 else f"{text[:4000]}\n{text[-4000:]}"
        self.answer = answer
        self.task = task or self.text
        self.known = known

    @cached_property
    def lowered(self) -> str:
        """The text in small letters."""
        return self.text.lower()

    @cached_property
    def quoted(self) -> tuple[str, ...]:
        """What stands in quotation marks."""
        return _unique(next(filter(None, found)) for found in _QUOTED.findall(self.text))

    @cached_property
    def urls(self) -> tuple[str, ...]:
        """Web addresses."""
        return _unique(_URL.findall(self.text))

    @cached_property
    def emails(self) -> tuple[str, ...]:
        """Mail addresses."""
        return _unique(_EMAIL.findall(self.text))

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """Names of files and folders."""
        bare = _EMAIL.sub(" ", _URL.sub(" ", self.text))
        return _unique(found for found in _PATH.findall(bare) if not re.fullmatch(r"[eEiI]\.[gGeE]|\w\.\w", found))

    @cached_property
    def dates(self) -> tuple[str, ...]:
        """Dates, as in 2026-05-17."""
        return _unique(_DATE.findall(self.text))

    @cached_property
    def times(self) -> tuple[str, ...]:
        """Times of the day, as in 9:30."""
        return _unique(_TIME.findall(self.text))

    @cached_property
    def numbers(self) -> tuple[Fraction, ...]:
        """Numbers in figures, then those in words."""
        bare = _TIME.sub(" ", _DATE.sub(" ", _EMAIL.sub(" ", _URL.sub(" ", self.text))))
        figures = [sums.number(found) for found in _NUMBER.findall(bare)]
        spoken = [
            sums.number(word) for word in _WORD.findall(bare) if word.isalpha() and word.lower() not in ("one", "zero")
        ]
        return tuple(dict.fromkeys(found for found in (*figures, *spoken) if found is not None))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Capitalised words that are not merely the first of a sentence; those all in capitals may only be loud."""
        return _unique(sorted((name for name, _ in self._named()), key=str.isupper))

    @cached_property
    def places(self) -> tuple[str, ...]:
        """The names, in each line those first that stand behind an `in` or its like."""
        found = [
            (self.text.count("\n", 0, at), not _PLACED.search(self.text[max(0, at - 14) : at]), name)
            for name, at in self._named()
        ]
        return _unique([*(name for _, _, name in sorted(found, key=lambda one: one[:2])), *self.names])

    @cached_property
    def phrases(self) -> tuple[str, ...]:
        """What may be a name though nothing in it is a capital: `in san francisco`; then all that is not known already."""
        found = [found[1] for found in _PHRASE.finditer(self.task[-400:])]
        new = [word for word in found if not self.known.issuperset(content(word))]
        if new or not self.known:
            return _unique(reversed(new))
        runs: list[list[str]] = [[]]
        for word in re.findall(_SPELLED, self.task[-400:]):
            if word.lower() in _NO_NAME or stem(word) in self.known or not word.isalpha():
                runs.append([])
            else:
                runs[-1].append(word)
        longest: list[str] = max(runs, key=len)
        return (" ".join(longest),) if longest else ()

    @cached_property
    def repository(self) -> tuple[str, ...]:
        """Owner and name, as in `octocat/hello-world`; empty if there is none."""
        found = _REPOSITORY.search(self.text)
        return (found[1], found[2]) if found else ()

    @cached_property
    def stems(self) -> frozenset[str]:
        """The stems of the words that say something."""
        return frozenset(content(self.text))

    def _named(self) -> Iterator[tuple[str, int]]:
        bare = _EMAIL.sub(_blank, _URL.sub(_blank, self.text))
        for found in _NAMES.finditer(bare):
            name, at = found[0], found.start()
            while (
                name.partition(" ")[0].lower().rstrip("'\u2019s") in _NO_NAME
                or name.partition(" ")[0].lower() in _NO_NAME
            ):
                _, _, rest = name.partition(" ")
                rest = re.sub(r"^(?:of the|of|de|da|la|el|van|von|den) ", "", rest)
                if not rest or not rest[0].isupper():
                    name = rest = ""
                    break
                at += len(name) - len(rest)
                name = rest
            name = re.sub(r"['\u2019](?:s['\u2019]?)?$", "", name)
            starts = at == found.start() and _SENTENCE_START.search(bare[:at][-3:])
            if name and not (starts and " " not in name and self._is_common(name, at)):
                yield name, at

    def _is_common(self, name: str, at: int) -> bool:
        """A first word is a name only if something else says so: a comma, another name, the text being that alone."""
        rest = self.text[at + len(name) :].strip(" ?.!")
        return bool(rest) and not re.match(r",|and [A-Z]|'s\b|\?|is\b|has\b|was\b", rest)

    @property
    def group(self) -> tuple[str, ...]:
        """Names that stand side by side, as in `Oslo, Bergen and Rome`; empty if none do."""
        return _unique(self._group[2])

    @cached_property
    def _group(self) -> tuple[int, int, list[str]]:
        """Where the group stands, and its members."""
        names = set(self.names)
        for found in _GROUP.finditer(self.text):
            members = _members(found[0])
            start = found.start()
            while members[0] not in names and " " in members[0]:  # `Compare Paris, Rome and Berlin`
                cut = members[0].index(" ") + 1
                start, members[0] = start + cut, members[0][cut:]
            if names.issuperset(members):
                return start, found.end(), members
        return 0, 0, []

    def only(self, member: str) -> Words:
        """Return the text with one member of the group where the whole group stands."""
        start, end, _ = self._group
        if not end:
            return self
        text = self.text[:start] + member + self.text[end:]
        return Words(text, self.answer, text if self.task == self.text else self.task, self.known)

    def clauses(self) -> tuple[str, ...]:
        """Cut the text where one thing ends and the next begins; a group of names stays whole."""
        start, end, _ = self._group
        text = self.text[:start] + "_" * (end - start) + self.text[end:]
        cuts = [found.span() for found in _BREAK.finditer(text)]
        starts = [0, *(after for _, after in cuts)]
        ends = [*(before for before, _ in cuts), len(text)]
        found_clauses = (self.text[a:b].strip(" ,;") for a, b in zip(starts, ends, strict=True))
        return tuple(clause for clause in found_clauses if clause)

    def after(self, *words: str) -> str:
        """Return what is clearly given for one of these words: `city: Oslo`, `city is Oslo`, `city "Oslo"`, `city Oslo`."""
        near = self.lowered
        for word in words:
            if word.lower() not in near:
                continue
            found = re.search(
                rf"\b{re.escape(word)}d?\b(?:\s*+(?:is|are|=|:|named|called|as|of)\s*+[:=]?+\s*+(?=[^\s,;?!])|\s++(?=[\"'`\d]|(?-i:[A-Z])))"
                rf"(?:\"([^\"\n]+)\"|'([^'\n]+)'|`([^`\n]+)`|((?-i:{_NAME}))|([^\s,;?!\"']+))",
                self.text,
                re.IGNORECASE,
            )
            taken = next(filter(None, found.groups()), "").rstrip(".:") if found else ""
            if taken and taken.partition(" ")[0].lower() not in _NO_NAME:
                return taken
        return ""

    def number_near(self, *words: str) -> Fraction | None:
        """Return the number that stands right before or after one of these words."""
        near = self.lowered
        for word in words:
            if word.lower() not in near and word != "age":
                continue
            forms = rf"{re.escape(word)}(?:s|es)?" if word != "age" else r"(?:age|years?[ -](?:old|of age))"
            after = rf"\b{forms}\b\s*+(?:is|are|=|:|of|to|was|number)?+\s*+[$€£]?({_FIGURE}|\w+)"
            before = rf"({_FIGURE}|\b[a-z]+)[\s-]*(?:{forms})\b"
            for pattern in (before, after):
                found = map(sums.number, re.findall(pattern, self.text, re.IGNORECASE))
                if (value := next((value for value in found if value is not None), None)) is not None:
                    return value
        return None


def _blank(found: re.Match[str]) -> str:
    return " " * len(found[0])


def _members(group: str) -> list[str]:
    return [member for member in re.split(rf",? (?:and|or|&|as well as) {_AT}|, (?:and |or )?{_AT}", group) if member]
