"""What the simulated model says when nobody wants a tool: sums, greetings, memory, lists, and else that it is a simulator."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import cycle

import msgspec

from tenuto.sim import sums
from tenuto.sim.mint import Mint
from tenuto.sim.words import quotation, shortened, stem

__all__ = ["Talk", "answer", "is_greeting", "is_smalltalk"]

_MANY = {
    "colour": "red orange yellow green blue violet brown black white grey",
    "fruit": "apple pear plum cherry banana orange grape fig melon quince",
    "animal": "otter fox heron badger whale hedgehog lynx owl seal hare",
    "city": "Oslo Lisbon Nairobi Lima Kyoto Quito Hanoi Dakar Riga Cork",
    "country": "Norway Portugal Kenya Peru Japan Ecuador Vietnam Senegal Latvia Ireland",
    "name": "Ada Grace Alan Edsger Barbara Donald Radia Ken Margaret Dennis",
    "language": "Python Rust Go Haskell C Lisp Erlang Ruby Kotlin Prolog",
    "planet": "Mercury Venus Earth Mars Jupiter Saturn Uranus Neptune",
    "prime": "2 3 5 7 11 13 17 19 23 29",
    "tree": "oak ash birch beech elm pine larch willow alder rowan",
    "vegetable": "carrot leek kale beet turnip onion pea spinach radish fennel",
}
_LISTS = {stem(name): words.split() for name, words in _MANY.items()} | {stem("color"): _MANY["colour"].split()}
_CITIES = (
    "france:Paris,germany:Berlin,italy:Rome,spain:Madrid,portugal:Lisbon,norway:Oslo,sweden:Stockholm,denmark:Copenhagen,"
    "finland:Helsinki,poland:Warsaw,austria:Vienna,switzerland:Bern,belgium:Brussels,netherlands:Amsterdam,ireland:Dublin,"
    "england:London,uk:London,united kingdom:London,usa:Washington,united states:Washington,canada:Ottawa,mexico:Mexico City,"
    "brazil:Brasilia,japan:Tokyo,china:Beijing,india:New Delhi,australia:Canberra,egypt:Cairo,kenya:Nairobi,greece:Athens"
)
_CAPITALS = dict(pair.split(":") for pair in _CITIES.split(","))
_HAIKUS = (
    "Rain on the tin roof,\na kettle begins to sing:\nnothing else to do.",
    "Old bridge in the fog;\na heron folds up its legs\nand the river waits.",
    "The last train has left.\nOn the bench, a single glove\nholds the morning frost.",
)
_PROSE = (
    "There is more to say about {topic} than fits on a page.",
    "Those who know {topic} well begin with what can be seen, and only then ask why it is so.",
    "A first look at {topic} shows the large shapes; the details come later, and they matter.",
    "It helps to compare {topic} with what is already known.",
    "Some of it has changed over the years, and some of it has stayed just as it was.",
    "Two people may disagree about {topic} and both have good reasons.",
    "In the end, it takes time to understand {topic}.",
)
_FILLER = "What is written here is filler, made by a simulator, but it has the length that was asked for."
_GREETING = re.compile(
    r"(?:hello|hi|hey|howdy|greetings|good (?:morning|afternoon|evening|day))\b[\w ,']{0,30}[!.?]*", re.IGNORECASE
)
_THANKS = re.compile(r"(?:thanks|thank you|cheers)\b.{0,40}", re.IGNORECASE)
_SAY = re.compile(
    r"^(?:please )?(?:(?:just |simply |only )?(?:say|repeat|echo|(?:output|print|type)(?=:|(?: \w+){0,2}:? [\"'`“]))"
    r"(?: after me| back| this| the words?| exactly| only| just)*"
    r"|(?:reply|respond|answer)(?: only| just| exactly| simply)* with(?: only| just| exactly| the words?| the text| the single word)*"
    r"(?!:? (?:an?|the|your|my|some|one|two|three|yes or|either|valid|\d+|json|only|just)\b))\s*[:,]?\s+(.+)",
    re.IGNORECASE | re.DOTALL,
)
_TOLD = re.compile(
    r"\b(?:my|the|our) ([a-z][\w ]{0,40}?) (?:is|are|was|will be) (?!the\b|a\b|my\b|not\b)([^\n.!?,;]+(?:\.\d+)?)",
    re.IGNORECASE,
)
_CALLED = re.compile(r"\b(?i:i am|i'm|call me|this is|name's) ([A-ZÀ-Þ][\w'-]*(?: [A-ZÀ-Þ][\w'-]*)*)")
_LIVES = re.compile(r"\bi (?:live|work|am) (?:in|at|for|from) ([A-ZÀ-Þ][\w'-]*(?: [A-ZÀ-Þ][\w'-]*)*)", re.IGNORECASE)
_RECALL = re.compile(
    r"\b(?:what(?:'s| is| was| are| were)|who(?:'s| is)|tell me|remember|recall|do you (?:still )?know|remind me(?: of| what)?) (?:my|the|our) ([a-z][\w ]{0,40}?)"
    r"(?: is| was| are| again| i (?:told|gave|said|mentioned).*| we .*)?\s*[?.!]*$",
    re.IGNORECASE,
)
_HOW_FAR = r"(\d[\d,]*|\w+(?: (?:hundred|thousand|million)){0,2})"
_COUNT = re.compile(
    rf"\b(?:count(?: up| down)?|numbers)(?: from)?(?: {_HOW_FAR})?(?: up| down)? (?:to|until) {_HOW_FAR}", re.IGNORECASE
)
_COUNTDOWN = re.compile(rf"\bcount(?:ing)? ?down from {_HOW_FAR}(?: to {_HOW_FAR})?", re.IGNORECASE)
_SOME = re.compile(
    r"\b(?:list|name|give me|tell me|suggest|write|enumerate|what are|generate)(?: me)?(?: a list of)?(?: the| any| some| at least| exactly| first)* "
    r"(\d+|two|three|four|five|six|seven|eight|nine|ten|twelve|twenty)(?:(?: [a-z-]+)?? ([a-z]+s)\b| ([a-z]+)(?=[ .?!]|$))",
    re.IGNORECASE,
)
_LONG = re.compile(
    r"\b(\d{2,5}|hundred|long)[ -]?words?\b|\blong (?:story|essay|text|article|answer)\b|\b(?:essay|article|story)\b",
    re.IGNORECASE,
)
_LANGUAGE = re.compile(
    r"\bin (?:french|german|spanish|italian|norwegian|japanese|chinese|latin)\b\s*[?.!]*$", re.IGNORECASE
)
_ABOUT = re.compile(r"\b(?:about|on|of|regarding) ((?:the |a |an )?[\w' -]{2,50})", re.IGNORECASE)
_SELF = re.compile(
    r"\b(?:who|what|how) are you\b|\byour name\b|\b(?:which|what) (?:ai |language )?model\b|\bwhat can you do\b|\bwho (?:made|built|trained|created) you\b"
    r"|\bare you (?:an? |the |really |actually )*(?:claude|gpt|chatgpt|gemini|llama|grok|mistral|deepseek|qwen|real|human|ai|bot|model|robot)\b|^help[.!?]*$",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"[^.!?\n]+(?:[.!?]+|\n|$)")


class Talk(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation up to what is asked now."""

    task: str
    before: tuple[str, ...] = ()
    """What the user said before, oldest first."""
    said: tuple[str, ...] = ()
    """What the assistant said before, oldest first."""
    named: str = ""
    max_tokens: int | None = None


def is_greeting(task: str) -> bool:
    """Say whether nothing but a greeting, or thanks, was said."""
    return bool(_GREETING.fullmatch(task.strip()) or _THANKS.fullmatch(task.strip()))


def is_smalltalk(task: str) -> bool:
    """Say whether a request is answered without a tool, whatever tools there are."""
    return (
        is_greeting(task)
        or bool(_SAY.match(task.strip()))
        or bool(re.search(r"\bwho are you\b|\bhaiku\b|\bjoke\b", task, re.IGNORECASE))
    )


def answer(talk: Talk, mint: Mint) -> str:
    """Return what the assistant says."""
    for rule in _RULES:
        found = rule(talk, mint)
        if found:
            return found
    return _honest(talk, mint)


def _say(talk: Talk, _: Mint) -> str:
    found = _SAY.match(talk.task.strip())
    if not found:
        return ""
    words = found[1].strip()
    if re.fullmatch(r"(?:that|it|this|yourself)(?: again)?(?: please)?[.!?]*", words, re.IGNORECASE):
        return talk.said[-1] if talk.said else "I have not said anything yet."
    if _LANGUAGE.search(words):
        return ""
    words = re.sub(r" in (?:one|a single|\w+) words?[.!]?$", "", words)
    quoted = re.match(r"^[\"'“`](.+?)[\"'”`](?:[.!]?$| and nothing| only)", words, re.DOTALL)
    if quoted:
        return quoted[1]
    words = re.split(r"(?:,| and) (?:and )?(?:nothing else|then stop|no more)", words)[0]
    return words if re.search(r"[!?]$", words) else words.rstrip(".")


def _greeting(talk: Talk, mint: Mint) -> str:
    if not is_greeting(talk.task):
        return ""
    if _THANKS.fullmatch(talk.task.strip()):
        return mint.random.choice(("You're welcome!", "Any time. Is there anything else?"))
    return mint.random.choice(
        ("Hello! How can I help you today?", "Hi there! What can I do for you?", "Hello! What would you like to do?")
    )


def _memory(talk: Talk, _: Mint) -> str:
    """Answer what was told before: `my name is Ada`, then `what is my name?`."""
    found = _RECALL.search(talk.task.strip())
    place = re.search(r"\bwhere do i (?:live|work)\b", talk.task, re.IGNORECASE)
    told = dict(_facts((*talk.before, talk.task[: found.start()] if found else ""))) if found or place else {}
    if found:
        wanted = found[1].lower().strip()
        if wanted in told:
            return f"You told me: {wanted} is {told[wanted]}." if wanted != "name" else f"Your name is {told[wanted]}."
        if re.search(r"\bmy\b", found[0], re.IGNORECASE):
            return f"You have not told me your {wanted} in this conversation."
    if place and "place" in told:
        return f"You told me: {told['place']}."
    if talk.before and re.search(
        r"\bwhat (?:did|have) i (?:just )?(?:say|said|ask|asked|tell|told)", talk.task, re.IGNORECASE
    ):
        which = talk.before[0] if re.search(r"\bfirst\b", talk.task, re.IGNORECASE) else talk.before[-1]
        return f'You said: "{shortened(which, 300)}"'
    if talk.said and re.search(r"\bwhat did you (?:just )?(?:say|answer|tell)", talk.task, re.IGNORECASE):
        return f'I said: "{shortened(talk.said[-1], 300)}"'
    return ""


def _facts(texts: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for text in texts:
        for found in _CALLED.finditer(text):
            yield "name", found[1]
        for found in _LIVES.finditer(text):
            yield "place", found[1]
        for found in _TOLD.finditer(text):
            yield found[1].lower().strip(), re.split(r"(?i) and (?:i|my|the)\b", found[2].strip())[0]
        for found in re.finditer(r"\bi am (\d{1,3})\b|\bi'm (\d{1,3})\b", text, re.IGNORECASE):
            yield "age", found[1] or found[2]


def _sum(talk: Talk, mint: Mint) -> str:
    found = sums.find(talk.task)
    if not found:
        return ""
    shown = re.sub(r"√\s*", "√", found.expression)
    if found.value is None:
        return f"I cannot work out {shown}: {found.why}."
    value = sums.told(found.value)
    return mint.random.choice((f"{shown} = {value}", f"{shown} is {value}.", f"The result of {shown} is {value}."))


def _self(talk: Talk, _: Mint) -> str:
    if not _SELF.search(talk.task):
        return ""
    part = f" that plays {talk.named}" if talk.named else ""
    return f"I am a simulated model{part}: a small set of rules on your own machine, made for testing. I call the tools that a request speaks of, do sums, and know little else."


def _capital(talk: Talk, _: Mint) -> str:
    found = re.search(r"\bcapital(?: city)? of (?:the )?([A-Za-z ]+?)\s*(?:[?.!,]|$)", talk.task, re.IGNORECASE)
    city = _CAPITALS.get(found[1].lower().strip()) if found else None
    return f"The capital of {found[1].strip()} is {city}." if found and city else ""


def _count(talk: Talk, _: Mint) -> str:
    down = _COUNTDOWN.search(talk.task)
    found = down or _COUNT.search(talk.task)
    if not found:
        return ""
    first, last = (_how_far(part) if part else None for part in found.groups())
    if any(part and number is None for part, number in zip(found.groups(), (first, last), strict=True)):
        return ""
    start = int(first) if first is not None else 1
    end = int(last) if last is not None else 1
    most = min(10_000, (talk.max_tokens or 10_000) * 2 + 20)
    step = -1 if end < start else 1
    return ", ".join(
        map(str, list(range(start, end + step, step))[:most] if abs(end - start) < 10**6 else [start, end])
    )


def _how_far(text: str) -> Fraction | None:
    """Return the number that one to three words stand for."""
    product: Fraction | None = Fraction(1)
    for word in text.split():
        value = {"thousand": Fraction(1000), "million": Fraction(10**6)}.get(word.lower()) or sums.number(word)
        product = None if value is None or product is None else product * value
    return product


def _list(talk: Talk, mint: Mint) -> str:
    found = _SOME.search(talk.task)
    count = sums.number(found[1]) if found else None
    if not found or count is None or _LONG.search(talk.task):
        return ""
    many = min(int(count), 200, (talk.max_tokens or 10_000) + 5)
    thing = (found[2] or found[3]).lower()
    words = next(
        (known for part in talk.task[found.start(1) :].split() if (known := _LISTS.get(stem(part.strip(".,?!:"))))), []
    )
    first = mint.random.randrange(len(words)) if words else 0
    chosen = [
        words[(first + at) % len(words)] if at < len(words) else f"{thing.removesuffix('s')} {at + 1}"
        for at in range(many)
    ]
    return "\n".join(f"{at}. {word}" for at, word in enumerate(chosen, 1))


def _verse(talk: Talk, mint: Mint) -> str:
    if re.search(r"\b(?:haiku|poem|verse)s?\b", talk.task, re.IGNORECASE):
        return mint.random.choice(_HAIKUS)
    if re.search(r"\bjokes?\b", talk.task, re.IGNORECASE):
        return "A simulator walks into a bar. The barkeeper asks: the usual? It says: always, given the same seed."
    return ""


def _prose(talk: Talk, mint: Mint) -> str:
    found = _LONG.search(talk.task)
    if not found or not re.search(r"\b(?:write|tell|compose|generate|give|produce|make)\b", talk.task, re.IGNORECASE):
        return ""
    count = sums.number(found[1]) if found[1] else None
    many = min(int(count) if count is not None else 150, 5000, (talk.max_tokens or 10_000) + 20)
    about = _ABOUT.search(talk.task)
    topic = about[1].strip() if about else "this"
    words = _FILLER.split() if many > 40 else []
    first = mint.random.randrange(len(_PROSE))
    for sentence in cycle([*_PROSE[first:], *_PROSE[:first]]):
        told = sentence.format(topic=topic).split()
        if len(words) + len(told) > many:
            break
        words += told
    return " ".join([*words, *_padding(many - len(words))])


def _padding(many: int) -> list[str]:
    """Return a sentence of so many words."""
    if many < 5:
        return ["", "Indeed.", "Quite so.", "So it goes.", "And so it goes."][many].split()
    start = "And so it goes on" if many % 2 else "And so it all goes on"
    return (start + " and on" * ((many - len(start.split())) // 2) + ".").split()


def _told(talk: Talk, _: Mint) -> str:
    """Nothing is asked where something is only told."""
    facts = dict(_facts((talk.task,))) if "?" not in talk.task and len(talk.task) < 200 else {}
    if not re.match(
        r"(?:(?:hi|hello|hey|ok|please|remember|note)[,!:.]? (?:that )?)*(?:my|i'm|i am|i live|call me|the)\b",
        talk.task,
        re.IGNORECASE,
    ):
        return ""
    return f"Noted. You said: {quotation(talk.task, 200)}" if facts else ""


def _summary(talk: Talk, _: Mint) -> str:
    if not re.search(r"\bsummar|\btl;?dr\b|\bin short\b|\bshorten\b", talk.task, re.IGNORECASE):
        return ""
    head, _sign, rest = talk.task.partition("\n") if "\n" in talk.task.strip() else talk.task.partition(":")
    text = rest.strip() or (talk.said[-1] if talk.said else "") or (talk.before[-1] if talk.before else "")
    if not text:
        return f"There is nothing to summarise yet. You asked: {shortened(head, 200)}"
    first = [found.strip() for found in _SENTENCE.findall(text) if found.strip()][:2]
    return "In short: " + shortened(" ".join(first), 400)


def _translation(talk: Talk, _: Mint) -> str:
    if not re.search(r"\btranslat", talk.task, re.IGNORECASE) and not _LANGUAGE.search(talk.task):
        return ""
    return "I cannot translate: I am a simulated model, and know no languages. The text stays as it is: " + shortened(
        talk.task, 200
    )


def _honest(talk: Talk, mint: Mint) -> str:
    request = quotation(talk.task, 200)
    if not talk.task.strip():
        return "I am a simulated model. Nothing was asked; what would you like to know?"
    return mint.random.choice(
        (
            f"I am a simulated model and know next to nothing, so I can only repeat what you said: {request}",
            f"You said: {request} I am a simulated model, and this is where a real one would answer.",
            f"This is a simulated answer to {request} A real model would know more.",
        )
    )


_RULES: tuple[Callable[[Talk, Mint], str], ...] = (
    _say, _greeting, _memory, _sum, _self, _capital, _count, _verse, _prose, _list, _summary, _translation, _told,
)  # fmt: skip
