"""Arithmetic as people write it: found in a sentence, read by a small parser, worked out exactly and within bounds."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from fractions import Fraction

import msgspec

__all__ = ["Sum", "find", "number", "told", "work_out"]

_MAX_BITS = 4096
_MAX_DIGITS = 60
_MAX_DEPTH = 40
_SMALL = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty"
)
_WORDS = {word: value for value, word in enumerate(_SMALL.split())} | {
    "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90, "hundred": 100,
    "dozen": 12,
}  # fmt: skip
_NUMBER_WORD = re.compile(rf"\b(?:{'|'.join(_WORDS)})\b", re.IGNORECASE)
_SPOKEN = [
    (re.compile(pattern, re.IGNORECASE), sign)
    for pattern, sign in (
        (r"(?<=\d),(?=\d{3}(?!\d))", ""),
        (r"\b(?:the )?sum of ([\d.]+) and ([\d.]+)", r"\1 + \2"),
        (r"\b(?:the )?product of ([\d.]+) and ([\d.]+)", r"\1 * \2"),
        (r"\b(?:the )?difference (?:of|between) ([\d.]+) and ([\d.]+)", r"\1 - \2"),
        (r"\badd ([\d.]+) (?:and|to) ([\d.]+)", r"\1 + \2"),
        (r"\bmultiply ([\d.]+) (?:by|and|with) ([\d.]+)", r"\1 * \2"),
        (r"\bdivide ([\d.]+) by ([\d.]+)", r"\1 / \2"),
        (r"\bsubtract ([\d.]+) from ([\d.]+)", r"\2 - \1"),
        (r"\b(?:the )?square root of\b", " √ "),
        (r"\bsqrt\b", " √ "),
        (r"(?:\bpercent|%) of\b", " / 100 * "),
        (r"\b(?:multiplied by|times)\b", " * "),
        (r"\b(?:divided by|over)\b", " / "),
        (r"\bplus\b", " + "),
        (r"\bminus\b", " - "),
        (r"\b(?:modulo|mod)\b", " % "),
        (r"\b(?:(?:raised )?to the power(?: of)?)\b", " ^ "),
        (r"\bsquared\b", " ^ 2 "),
        (r"\bcubed\b", " ^ 3 "),
        (r"(?<=\d)\s*[x\u00d7]\s*(?=[\d(])", " * "),
        (r"[·⋅\u00d7]", " * "),
        (r"÷", " / "),
        (r"[\u2212\u2013]", "-"),
        (r"\*\*", "^"),
    )
]
_NO_SUM = re.compile(
    r"\d{4}-\d{1,2}-\d{1,2}|\d{1,2}/\d{1,2}/\d{2,4}|https?://\S+|\b\d+\.\d+\.\d+\S*|\+?\d+(?:-\d+){2,}"
)
_CUE = re.compile(
    r"calculat|comput|evaluat|work out|solve|result|total|=|\bsum\b|divided by|minus|percent|modulo", re.IGNORECASE
)
_QUESTION = re.compile(r"(?:what(?:'s| is| are| does| do)|how much(?: is| are)?)\s*$", re.IGNORECASE)
_ENDED = re.compile(r"\s*(?:[?.!,;:)]|$|and\b|equal|make|give|please)", re.IGNORECASE)
_RUN = re.compile(r"[-√(\d.](?:[-+*/^%!√().\d\s]*[\d)!])?")
_TOKEN = re.compile(r"\s*(?:(\d+(?:\.\d+)?|\.\d+)|([-+*/^%!√()]))")
_STEPS: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "%": lambda a, b: a % b,
}


class Sum(msgspec.Struct, frozen=True):
    """A sum and what it comes to; `value` is None where there is no answer, and `why` says why not."""

    expression: str
    value: Fraction | None
    why: str = ""


class _Unreadable(ValueError):
    pass


class _TooMuch(ValueError):
    pass


def number(text: str) -> Fraction | None:
    """Return the number that a word or a numeral stands for."""
    plain = text.strip().lower().replace(",", "")
    if plain in _WORDS:
        return Fraction(_WORDS[plain])
    return Fraction(plain) if re.fullmatch(r"[-+]?\d{1,60}(?:\.\d{1,60})?", plain) else None


def told(value: Fraction) -> str:
    """Write a number as people do: whole if it is whole, else with up to ten digits after the point."""
    if value.denominator == 1:
        return str(value.numerator)
    rounded = round(value, 10)
    whole, rest = divmod(abs(rounded), 1)
    digits = f"{int(rest * 10**10):010d}".rstrip("0")
    return f"{'-' if rounded < 0 else ''}{whole}.{digits}" if digits else f"{float(value):.6g}"


def find(text: str) -> Sum | None:
    """Find the sum in a sentence, and work it out. A date, an address or a range is no sum."""
    text = text[-1000:]
    bare = _NO_SUM.sub(" ", text)
    spoken = _NUMBER_WORD.sub(lambda found: str(_WORDS[found[0].lower()]), bare)
    for pattern, sign in _SPOKEN:
        spoken = pattern.sub(sign, spoken)
    runs = sorted(_RUN.findall(spoken), key=len, reverse=True)
    for run in runs[:5]:
        expression = " ".join(run.strip(" .+*/^%").split())
        if _is_sum(expression) and _is_meant(expression, spoken, text):
            return work_out(expression)
    return None


def _is_sum(expression: str) -> bool:
    return bool(re.search(r"[\d)]\s*[-+*/^%]+\s*[-√(\d.]|√\s*[\d(]|\d!", expression))


def _is_meant(expression: str, spoken: str, text: str) -> bool:
    """`3-5` or `1/2` inside a sentence may be anything; in a question for a result, or alone, it is a sum."""
    if re.search(r"[*^√+]", expression) or _CUE.search(text):
        return True
    before, _, after = " ".join(spoken.split()).partition(expression)
    if _QUESTION.search(before) and _ENDED.match(after):  # not so `24/7 support`
        return True
    return len(expression) > len(spoken.strip(" ?.!")) * 0.7


def work_out(expression: str) -> Sum:
    """Work out an expression of numbers, `+ - * / % ^ !`, roots and brackets."""
    try:
        return Sum(expression, _Parser(expression).whole())
    except ZeroDivisionError:
        return Sum(expression, None, "it divides by zero")
    except _TooMuch:
        return Sum(expression, None, "the result is too large to write down")
    except _Unreadable:
        return Sum(expression, None, "I cannot read it as a sum")


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens: list[str] = []
        self._at = 0
        self._depth = 0
        at = 0
        while at < len(text.rstrip()):
            found = _TOKEN.match(text, at)
            if not found or len(found[0].strip()) > _MAX_DIGITS:
                raise _Unreadable
            self._tokens.append(found[0].strip())
            at = found.end()

    def whole(self) -> Fraction:
        value = self._terms()
        if self._at < len(self._tokens):
            raise _Unreadable
        return value

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _take(self, *signs: str) -> str:
        found = self._peek()
        if found not in signs:
            return ""
        self._at += 1
        return found

    def _terms(self) -> Fraction:
        value = self._factors()
        while sign := self._take("+", "-"):
            value = _bounded(_STEPS[sign](value, self._factors()))
        return value

    def _factors(self) -> Fraction:
        value = self._signed()
        while sign := self._take("*", "/", "%"):
            value = _bounded(_STEPS[sign](value, self._signed()))
        return value

    def _signed(self) -> Fraction:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise _TooMuch
        if self._take("-"):
            value = -self._signed()
        elif self._take("+"):
            value = self._signed()
        else:
            value = self._power()
        self._depth -= 1
        return value

    def _power(self) -> Fraction:
        base = self._atom()
        while self._take("!"):
            base = _factorial(base)
        return _raised(base, self._signed()) if self._take("^") else base

    def _atom(self) -> Fraction:
        if self._take("√"):
            return _root(self._atom())
        if self._take("("):
            self._depth += 1
            if self._depth > _MAX_DEPTH:
                raise _TooMuch
            value = self._terms()
            self._depth -= 1
            if not self._take(")"):
                raise _Unreadable
            return value
        token = self._peek()
        if not token or not (token[0].isdigit() or token[0] == "."):
            raise _Unreadable
        self._at += 1
        return Fraction(token)


def _bounded(value: Fraction) -> Fraction:
    if value.numerator.bit_length() + value.denominator.bit_length() > _MAX_BITS:
        raise _TooMuch
    return value


def _factorial(value: Fraction) -> Fraction:
    if value.denominator != 1 or value < 0:
        raise _Unreadable
    if value > 300:
        raise _TooMuch
    return _bounded(Fraction(math.factorial(int(value))))


def _root(value: Fraction) -> Fraction:
    if value < 0:
        raise _Unreadable
    exact = Fraction(math.isqrt(value.numerator), math.isqrt(value.denominator) or 1)
    return exact if exact * exact == value else _inexact(lambda: math.sqrt(value))


def _raised(base: Fraction, exponent: Fraction) -> Fraction:
    if exponent.denominator != 1:
        if base < 0:
            raise _Unreadable
        return _inexact(lambda: float(base) ** float(exponent))
    bits = max(base.numerator.bit_length(), base.denominator.bit_length())
    if abs(base) != 1 and abs(exponent) * bits > _MAX_BITS:
        raise _TooMuch
    if abs(base) == 1:
        return base if exponent % 2 else Fraction(1)
    return base ** int(exponent)


def _inexact(result: Callable[[], float]) -> Fraction:
    try:
        return Fraction(str(result()))
    except (OverflowError, ValueError):
        raise _TooMuch from None
