"""What is measured over the socket: each section asks all that can do it, in turns, and hands rows to the board.

A turn asks one after the other, ours among them; a ratio is ours to theirs in the same turn. Where the machine was not
still in a turn, a goal's pair is measured again, up to `EXTRA` times; the stillest turns count, whatever they say.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from bench.peers.driver import CROWD, TURNS
from bench.peers.driving import Driver, Failed
from bench.peers.environments import OURS, PEERS, Environment
from bench.peers.streams import KINDS, MAKERS, SAID, spoken
from bench.results import STILL, Board, Result, judged

EXTRA = 8
PER = "ms CPU per 1,000 events"
FEW = 2
"""Turns where no goal is judged."""
CHEAPEST = "cheapest that normalises"
BURST = {
    ("anthropic", "anthropic"): 1 / 12,
    ("anthropic", CHEAPEST): 1 / 25,
    ("chat", "openai"): 1 / 20,
    ("responses", "openai"): 1 / 20,
    ("gemini", "google-genai"): 1 / 20,
    ("responses", "litellm"): 1 / 6,
}
PACED = {("anthropic", "anthropic"): 0.42}
ONCE = {("anthropic", "anthropic"): 1 / 3}
CROWD_CPU, CROWD_MEMORY = 1 / 10, 0.55
CROWDED = {
    "anthropic": "anthropic",
    "openai": "responses",
    "google-genai": "gemini",
    "litellm": "responses",
    "pydantic-ai": "anthropic",
    "langchain": "anthropic",
    "any-llm": "anthropic",
    "openai-agents": "responses",
}
"""One dialect each; llm, and litellm's other dialects, would take minutes."""


class Contender(NamedTuple):
    """One peer in one dialect, reading one kind of reply."""

    peer: str
    dialect: str
    kind: str


Figures = dict[Contender, list[dict]]


def wire(kind: str, dialect: str) -> int:
    """How many events there are on the wire."""
    return MAKERS[dialect](KINDS[kind]).count(b"data: ")


class Field:
    """Everybody who takes part: environments, drivers, and what each was seen to deliver."""

    def __init__(self, environments: dict[str, Environment], port: int, board: Board) -> None:
        self.environments = environments
        self.port = port
        self.board = board
        self.drivers: dict[str, Driver] = {}
        self.delivered: dict[Contender, int] = {}
        self.silent: dict[Contender, str] = {}
        self.turns = 0
        for name, one in environments.items():
            if one.python is None:
                board.add(unmeasured(f"{name}: installation", one.reason))

    def driver(self, name: str) -> Driver:
        if name not in self.drivers:
            self.drivers[name] = Driver(name, self.environments[name].python, self.port)
        return self.drivers[name]

    def stop(self) -> None:
        for driver in self.drivers.values():
            driver.stop()

    def there(self, name: str) -> bool:
        return name in self.environments and self.environments[name].python is not None

    def check(self) -> list[Contender]:
        """Have everybody read once; who does not deliver what was sent is told, and takes no part."""
        found = []
        kinds = dict.fromkeys((peer, dialect, kind) for peer, dialect, kind in _entries() if self.there(peer))
        for contender in (Contender(*one) for one in kinds):
            try:
                came = self.driver(contender.peer).ask("check", **_order(contender, "burst"))
                text, arguments = spoken(KINDS[contender.kind])
                # llm ends what a model of Anthropic says with a blank: what stands before it is compared
                if (came["text"].rstrip(), came["arguments"]) != (text.rstrip(), arguments):
                    raise Failed("the text or the arguments are not those that were sent")
            except Failed as exc:
                self.silent[contender] = str(exc)
                self.board.add(unmeasured(f"{contender.dialect}: {contender.peer}", str(exc)))
                continue
            self.delivered[contender] = came["events"]
            found.append(contender)
        return found

    def turn(self, contenders: Iterable[Contender], figures: Figures, section: Section) -> None:
        """Ask one after the other; who fails is told once, and is left out from there on."""
        self.turns += 1
        for contender in contenders:
            if contender in self.silent:
                continue
            try:
                order = {**_order(contender, section.shape), "repeat": section.repeat, "warm": section.warm}
                asked = self.driver(contender.peer).ask(section.act, **order)
                self._same(contender, section.act, asked)
            except Failed as exc:
                self.silent[contender] = str(exc)
                self.board.add(unmeasured(f"{section.name} {contender.dialect}: {contender.peer}", str(exc)))
                figures.pop(contender, None)
                continue
            figures.setdefault(contender, []).append({**asked, "turn": self.turns})

    def _same(self, contender: Contender, act: str, asked: dict) -> None:
        if act == "once":
            if asked["text"] != SAID:
                raise Failed("the text is not the one that was sent")
            return
        wanted = self.delivered.setdefault(contender, asked["events"][0])
        if set(asked["events"]) != {wanted}:
            raise Failed(f"{asked['events']} events came instead of {wanted}")
        least = {"args": KINDS["args"].arguments, "long": 9 * KINDS["std"].text}.get(contender.kind, 1)
        if contender.dialect != "gemini" and wanted < least:
            raise Failed(f"only {wanted} events came")


def unmeasured(name: str, reason: str, goal: float | None = None) -> Result:
    """A row that says why there is no figure; a goal that was not measured was not met."""
    passed = None if goal is None else False
    return Result(
        name=name,
        value=0.0,
        unit="not measured",
        goal=goal,
        passed=passed,
        run="peers",
        detail=f"not measured: {reason}",
    )


def _order(contender: Contender, shape: str) -> dict:
    return {"dialect": contender.dialect, "shape": shape, "kind": contender.kind}


def _entries() -> Iterable[Contender]:
    """Who takes part, and ours beside each in the same dialect with the same reply."""
    for name, peer in PEERS.items():
        for dialect in peer.dialects:
            yield Contender(OURS, dialect, peer.kind)
            yield Contender(name, dialect, peer.kind)


def together(ours: list[dict], theirs: list[dict]) -> list[tuple[dict, dict]]:
    """The turns in which both took part: ours takes part in those of every pair."""
    found = {one["turn"]: one for one in ours}
    return [(found[other["turn"]], other) for other in theirs if other["turn"] in found]


def still(ours: list[dict], theirs: list[dict]) -> tuple[list[tuple[dict, dict]], list[float]]:
    """The stillest turns of a pair, at most `TURNS`, and how far the calibrations of both processes were from their best."""
    pairs = together(ours, theirs)
    floors = [min(pair[at]["beside"] for pair in pairs) for at in (0, 1)]
    moved = [max(one["beside"] / floors[0], other["beside"] / floors[1]) for one, other in pairs]
    best = sorted(range(len(pairs)), key=moved.__getitem__)[:TURNS]
    return [pairs[at] for at in best], [1.0, *(moved[at] for at in best)]


def wanting(ours: list[dict], theirs: list[dict]) -> bool:
    """Whether a pair that has a goal is to be measured once more."""
    count = len(together(ours, theirs))
    return count < TURNS or (count < TURNS + EXTRA and max(still(ours, theirs)[1]) > 1 + STILL)


class Section(NamedTuple):
    """One table: what is asked for, how it is named, and its goals by dialect and peer."""

    name: str
    shape: str
    goals: dict[tuple[str, str], float]
    kind: str | None = None
    act: str = "stream"
    turns: int = FEW
    repeat: int = 1
    warm: bool = False
    unit: str = PER
    without: tuple[str, ...] = ()

    def run(self, field: Field, contenders: list[Contender]) -> None:
        asked = [self._of(one) for one in contenders if one.peer not in self.without and self._speaks(one)]
        asked = list(dict.fromkeys(asked))
        figures: Figures = {}
        for _ in range(self.turns):
            field.turn(asked, figures, self)
        while pairs := [pair for pair in self._pairs(figures) if wanting(*map(figures.__getitem__, pair))]:
            field.turn(dict.fromkeys(one for pair in pairs for one in pair), figures, self)
        self._rows(field, figures)

    def _pairs(self, figures: Figures) -> list[tuple[Contender, Contender]]:
        """Ours and theirs, wherever there is a goal."""
        cheapest = self._cheapest(figures)
        named = [one for one in figures if (one.dialect, one.peer) in self.goals or one in cheapest]
        return [(one._replace(peer=OURS), one) for one in named if one._replace(peer=OURS) in figures]

    def _cheapest(self, figures: Figures) -> set[Contender]:
        """Of those that normalise, the one that costs least, in each dialect where that is a goal."""
        found = set()
        for dialect in {dialect for dialect, peer in self.goals if peer == CHEAPEST}:
            able = [
                one for one in figures if one.dialect == dialect and one.peer != OURS and PEERS[one.peer].normalises
            ]
            if able:
                found.add(min(able, key=lambda one: min(turn["cpu"] for turn in figures[one]) / self._events(one)))
        return found

    def _speaks(self, one: Contender) -> bool:
        return self.act != "once" or one.dialect in PEERS[one.peer].whole

    def _of(self, one: Contender) -> Contender:
        return one._replace(kind=self.kind) if self.kind else one

    def _rows(self, field: Field, figures: Figures) -> None:
        cheapest = self._cheapest(figures)
        told = set()
        for one in figures:
            if one.peer != OURS and one._replace(peer=OURS) in figures:
                told.add((one.dialect, one.peer))
                field.board.add(self._row(field, figures, one, one.peer))
                if one in cheapest:
                    told.add((one.dialect, CHEAPEST))
                    field.board.add(self._row(field, figures, one, CHEAPEST))
        for dialect, peer in sorted(self.goals.keys() - told):
            if peer not in field.environments and peer != CHEAPEST:
                continue  # it was not asked for
            name = f"{self.name} {dialect}: ours / {peer}"
            field.board.add(unmeasured(name, "see above", self.goals[dialect, peer]))

    def _events(self, one: Contender) -> float:
        return 1.0 if self.act == "once" else wire(one.kind, one.dialect) / 1_000

    def _row(self, field: Field, figures: Figures, one: Contender, named: str) -> Result:
        turns, calibrations = still(figures[one._replace(peer=OURS)], figures[one])
        ratios = [ours["cpu"] / theirs["cpu"] for ours, theirs in turns]
        least = [min(pair[at]["cpu"] for pair in turns) * 1e3 / self._events(one) for at in (0, 1)]
        who = f"{one.peer} {field.environments[one.peer].version}"
        came = (
            "" if self.act == "once" else f"; {field.delivered[one]} of {wire(one.kind, one.dialect)} events given out"
        )
        return judged(
            f"{self.name} {one.dialect}: ours / {named}",
            ratios,
            value=least[0],
            unit=self.unit,
            goal=self.goals.get((one.dialect, named)),
            run="peers",
            calibrations=calibrations,
            detail=f"{least[0]:.3g} against {least[1]:.4g} of {who}{came}; {len(turns)} turns",
        )


SECTIONS = (
    Section("burst", "burst", BURST, turns=TURNS, repeat=2, warm=True),
    Section("one event a write", "each", {}, warm=True),
    Section("paced", "paced", PACED),
    Section("10,000 events", "burst", {}, kind="long", turns=1, without=("openai-agents",)),
    Section(
        "4,000 argument deltas", "burst", {}, kind="args", turns=1, without=("openai-agents", "llm", "google-genai")
    ),
    Section("non-streaming", "burst", ONCE, act="once", turns=TURNS, repeat=3, unit="ms CPU per request"),
)


def crowd(field: Field, contenders: list[Contender]) -> None:
    """200 streams at once, each measurement in a process that did nothing else: CPU, and the most memory."""
    who = [
        name
        for name, dialect in CROWDED.items()
        if field.there(name) and any(one[:2] == (name, dialect) for one in contenders)
    ]
    for name in who:
        dialect = CROWDED[name]
        judged_one = name == "anthropic"
        ours: list[dict] = []
        theirs: list[dict] = []
        try:
            while wanting(ours, theirs) if judged_one else not ours:
                for peer, found in ((OURS, ours), (name, theirs)):
                    driver = Driver(peer, field.environments[peer].python, field.port)
                    try:
                        came = driver.ask("crowd", dialect=dialect, shape="crowd", kind="text")
                        found.append({**came, "turn": len(found)})
                    finally:
                        driver.stop()
        except Failed as exc:
            field.board.add(
                unmeasured(f"{CROWD} streams {dialect}: {name}", str(exc), CROWD_CPU if judged_one else None)
            )
            continue
        turns, calibrations = still(ours, theirs)
        whose = f"{name} {field.environments[name].version}"
        for what, unit, key, scale, goal in (
            ("CPU", PER, "cpu", 1e6 / (CROWD * wire("text", dialect)), CROWD_CPU),
            ("peak memory", "MB", "peak", 1.0, CROWD_MEMORY),
        ):
            least = [min(pair[at][key] for pair in turns) * scale for at in (0, 1)]
            field.board.add(
                judged(
                    f"{CROWD} streams, {what} {dialect}: ours / {name}",
                    [one[key] / other[key] for one, other in turns],
                    value=least[0],
                    unit=unit,
                    goal=goal if judged_one else None,
                    run="peers",
                    calibrations=calibrations if key == "cpu" else (),
                    detail=f"{least[0]:.3g} against {least[1]:.4g} of {whose}; {len(turns)} turns",
                )
            )
