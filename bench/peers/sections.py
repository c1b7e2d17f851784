"""Measure over the socket: each section runs all libraries that support it, in turns, and adds rows to the board.

A turn runs one library after the other, including tenuto; a ratio compares both in the same turn. If the machine was
busy, a pair with a goal is measured again, up to `EXTRA_TURNS` times; the quietest turns count, whatever their figures are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from bench.peers.driver import CONCURRENT, TURNS
from bench.peers.driver_process import Driver, DriverError
from bench.peers.environments import PEERS, TENUTO, Environment
from bench.peers.streams import KINDS, MAKERS, REPLY_TEXT, join_content
from bench.results import NOISE_LIMIT, Board, Result, make_result

EXTRA_TURNS = 8
UNIT = "ms CPU per 1,000 events"
FEW_TURNS = 2
"""The number of turns without a goal."""
CHEAPEST = "cheapest that normalizes"
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
CONCURRENT_CPU, CONCURRENT_MEMORY = 1 / 10, 0.55
CONCURRENT_DIALECTS = {
    "anthropic": "anthropic",
    "openai": "responses",
    "google-genai": "gemini",
    "litellm": "responses",
    "pydantic-ai": "anthropic",
    "langchain": "anthropic",
    "any-llm": "anthropic",
    "openai-agents": "responses",
}
"""One dialect each; llm and the other dialects of litellm would take minutes."""


class Contender(NamedTuple):
    """One library that reads one kind of reply in one dialect."""

    peer: str
    dialect: str
    kind: str


Figures = dict[Contender, list[dict]]


def count_events(kind: str, dialect: str) -> int:
    """Return the number of events of a stream."""
    return MAKERS[dialect](KINDS[kind]).count(b"data: ")


class Comparison:
    """The environments and drivers of all libraries, and the number of events that each emits."""

    def __init__(self, environments: dict[str, Environment], port: int, board: Board) -> None:
        self.environments = environments
        self.port = port
        self.board = board
        self.drivers: dict[str, Driver] = {}
        self.delivered: dict[Contender, int] = {}
        self.failures: dict[Contender, str] = {}
        self.turns = 0
        for name, one in environments.items():
            if one.python is None:
                board.add(make_unmeasured(f"{name}: installation", one.reason))

    def driver(self, name: str) -> Driver:
        if name not in self.drivers:
            self.drivers[name] = Driver(name, self.environments[name].python, self.port)
        return self.drivers[name]

    def stop(self) -> None:
        for driver in self.drivers.values():
            driver.stop()

    def is_installed(self, name: str) -> bool:
        return name in self.environments and self.environments[name].python is not None

    def check(self) -> list[Contender]:
        """Run each library once; return those whose text and arguments are right. The others get a row without a figure."""
        working = []
        kinds = dict.fromkeys(
            (peer, dialect, kind) for peer, dialect, kind in iterate_contenders() if self.is_installed(peer)
        )
        for contender in (Contender(*one) for one in kinds):
            try:
                result = self.driver(contender.peer).run("check", **make_order(contender, "burst"))
                text, arguments = join_content(KINDS[contender.kind])
                # llm appends a space to the text of Anthropic models
                if (result["text"].rstrip(), result["arguments"]) != (text.rstrip(), arguments):
                    raise DriverError("the text or the arguments differ from those sent")
            except DriverError as exc:
                self.failures[contender] = str(exc)
                self.board.add(make_unmeasured(f"{contender.dialect}: {contender.peer}", str(exc)))
                continue
            self.delivered[contender] = result["events"]
            working.append(contender)
        return working

    def measure_turn(self, contenders: Iterable[Contender], figures: Figures, section: Section) -> None:
        """Run one library after the other; one that fails gets a row and is left out of further turns."""
        self.turns += 1
        for contender in contenders:
            if contender in self.failures:
                continue
            try:
                order = {**make_order(contender, section.shape), "repeat": section.repeat, "warm": section.warm}
                result = self.driver(contender.peer).run(section.action, **order)
                self._check_result(contender, section.action, result)
            except DriverError as exc:
                self.failures[contender] = str(exc)
                self.board.add(make_unmeasured(f"{section.name} {contender.dialect}: {contender.peer}", str(exc)))
                figures.pop(contender, None)
                continue
            figures.setdefault(contender, []).append({**result, "turn": self.turns})

    def _check_result(self, contender: Contender, action: str, result: dict) -> None:
        if action == "request_once":
            if result["text"] != REPLY_TEXT:
                raise DriverError("the text differs from the one sent")
            return
        expected = self.delivered.setdefault(contender, result["events"][0])
        if set(result["events"]) != {expected}:
            raise DriverError(f"{result['events']} events instead of {expected}")
        lowest = {"args": KINDS["args"].arguments, "long": 9 * KINDS["std"].text}.get(contender.kind, 1)
        if contender.dialect != "gemini" and expected < lowest:
            raise DriverError(f"only {expected} events")


def make_unmeasured(name: str, reason: str, goal: float | None = None) -> Result:
    """Make a row without a figure; its goal, if any, is not met."""
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


def make_order(contender: Contender, shape: str) -> dict:
    return {"dialect": contender.dialect, "shape": shape, "kind": contender.kind}


def iterate_contenders() -> Iterable[Contender]:
    """Yield each library, preceded by tenuto in the same dialect with the same reply."""
    for name, peer in PEERS.items():
        for dialect in peer.dialects:
            yield Contender(TENUTO, dialect, peer.kind)
            yield Contender(name, dialect, peer.kind)


def pair_turns(tenuto_turns: list[dict], other_turns: list[dict]) -> list[tuple[dict, dict]]:
    """Return the turns in which both took part."""
    by_number = {one["turn"]: one for one in tenuto_turns}
    return [(by_number[other["turn"]], other) for other in other_turns if other["turn"] in by_number]


def select_turns(tenuto_turns: list[dict], other_turns: list[dict]) -> tuple[list[tuple[dict, dict]], list[float]]:
    """Return the quietest turns of a pair, at most `TURNS`, and the spread of their calibrations."""
    pairs = pair_turns(tenuto_turns, other_turns)
    lowest_calibrations = [min(pair[at]["calibration"] for pair in pairs) for at in (0, 1)]
    spreads = [
        max(one["calibration"] / lowest_calibrations[0], other["calibration"] / lowest_calibrations[1])
        for one, other in pairs
    ]
    best = sorted(range(len(pairs)), key=spreads.__getitem__)[:TURNS]
    return [pairs[at] for at in best], [1.0, *(spreads[at] for at in best)]


def needs_turn(tenuto_turns: list[dict], other_turns: list[dict]) -> bool:
    """Return whether a pair with a goal needs another turn."""
    count = len(pair_turns(tenuto_turns, other_turns))
    return count < TURNS or (
        count < TURNS + EXTRA_TURNS and max(select_turns(tenuto_turns, other_turns)[1]) > 1 + NOISE_LIMIT
    )


class Section(NamedTuple):
    """A group of rows with the same order, and their goals by dialect and library."""

    name: str
    shape: str
    goals: dict[tuple[str, str], float]
    kind: str | None = None
    action: str = "measure_stream"
    turns: int = FEW_TURNS
    repeat: int = 1
    warm: bool = False
    unit: str = UNIT
    without: tuple[str, ...] = ()

    def run(self, comparison: Comparison, contenders: list[Contender]) -> None:
        selected = [self._set_kind(one) for one in contenders if one.peer not in self.without and self._supports(one)]
        selected = list(dict.fromkeys(selected))
        figures: Figures = {}
        for _ in range(self.turns):
            comparison.measure_turn(selected, figures, self)
        while pairs := [pair for pair in self._pairs(figures) if needs_turn(*map(figures.__getitem__, pair))]:
            comparison.measure_turn(dict.fromkeys(one for pair in pairs for one in pair), figures, self)
        self._rows(comparison, figures)

    def _pairs(self, figures: Figures) -> list[tuple[Contender, Contender]]:
        """Return the pairs of tenuto and a library that have a goal."""
        cheapest = self._cheapest(figures)
        with_goal = [one for one in figures if (one.dialect, one.peer) in self.goals or one in cheapest]
        return [(one._replace(peer=TENUTO), one) for one in with_goal if one._replace(peer=TENUTO) in figures]

    def _cheapest(self, figures: Figures) -> set[Contender]:
        """Return the cheapest library that normalizes events, for each dialect with a goal for it."""
        cheapest = set()
        for dialect in {dialect for dialect, peer in self.goals if peer == CHEAPEST}:
            candidates = [
                one for one in figures if one.dialect == dialect and one.peer != TENUTO and PEERS[one.peer].normalizes
            ]
            if candidates:
                cheapest.add(
                    min(
                        candidates,
                        key=lambda one: min(turn["cpu"] for turn in figures[one]) / self._events(one),
                    )
                )
        return cheapest

    def _supports(self, one: Contender) -> bool:
        return self.action != "request_once" or one.dialect in PEERS[one.peer].request_dialects

    def _set_kind(self, one: Contender) -> Contender:
        return one._replace(kind=self.kind) if self.kind else one

    def _rows(self, comparison: Comparison, figures: Figures) -> None:
        cheapest = self._cheapest(figures)
        done = set()
        for one in figures:
            if one.peer != TENUTO and one._replace(peer=TENUTO) in figures:
                done.add((one.dialect, one.peer))
                comparison.board.add(self._row(comparison, figures, one, one.peer))
                if one in cheapest:
                    done.add((one.dialect, CHEAPEST))
                    comparison.board.add(self._row(comparison, figures, one, CHEAPEST))
        for dialect, peer in sorted(self.goals.keys() - done):
            if peer not in comparison.environments and peer != CHEAPEST:
                continue  # not selected
            name = f"{self.name} {dialect}: tenuto / {peer}"
            comparison.board.add(make_unmeasured(name, "see above", self.goals[dialect, peer]))

    def _events(self, one: Contender) -> float:
        return 1.0 if self.action == "request_once" else count_events(one.kind, one.dialect) / 1_000

    def _row(self, comparison: Comparison, figures: Figures, one: Contender, name: str) -> Result:
        turns, calibrations = select_turns(figures[one._replace(peer=TENUTO)], figures[one])
        ratios = [tenuto["cpu"] / other["cpu"] for tenuto, other in turns]
        lowest = [min(pair[at]["cpu"] for pair in turns) * 1e3 / self._events(one) for at in (0, 1)]
        library = f"{one.peer} {comparison.environments[one.peer].version}"
        events = (
            ""
            if self.action == "request_once"
            else f"; {comparison.delivered[one]} of {count_events(one.kind, one.dialect)} events emitted"
        )
        return make_result(
            f"{self.name} {one.dialect}: tenuto / {name}",
            ratios,
            value=lowest[0],
            unit=self.unit,
            goal=self.goals.get((one.dialect, name)),
            run="peers",
            calibrations=calibrations,
            detail=f"{lowest[0]:.3g} vs {lowest[1]:.4g} ({library}){events}; {len(turns)} turns",
        )


SECTIONS = (
    Section("burst", "burst", BURST, turns=TURNS, repeat=2, warm=True),
    Section("one event per write", "each", {}, warm=True),
    Section("paced", "paced", PACED),
    Section("10,000 events", "burst", {}, kind="long", turns=1, without=("openai-agents",)),
    Section(
        "4,000 argument deltas", "burst", {}, kind="args", turns=1, without=("openai-agents", "llm", "google-genai")
    ),
    Section("non-streaming", "burst", ONCE, action="request_once", turns=TURNS, repeat=3, unit="ms CPU per request"),
)


def measure_concurrent(comparison: Comparison, contenders: list[Contender]) -> None:
    """Measure CPU and peak memory of 200 concurrent streams, each time in a new process."""
    names = [
        name
        for name, dialect in CONCURRENT_DIALECTS.items()
        if comparison.is_installed(name) and any(one[:2] == (name, dialect) for one in contenders)
    ]
    for name in names:
        dialect = CONCURRENT_DIALECTS[name]
        has_goal = name == "anthropic"
        tenuto_turns: list[dict] = []
        other_turns: list[dict] = []
        try:
            while needs_turn(tenuto_turns, other_turns) if has_goal else not tenuto_turns:
                for peer, results in ((TENUTO, tenuto_turns), (name, other_turns)):
                    driver = Driver(peer, comparison.environments[peer].python, comparison.port)
                    try:
                        result = driver.run("read_concurrent", dialect=dialect, shape="concurrent", kind="text")
                        results.append({**result, "turn": len(results)})
                    finally:
                        driver.stop()
        except DriverError as exc:
            comparison.board.add(
                make_unmeasured(
                    f"{CONCURRENT} streams {dialect}: {name}", str(exc), CONCURRENT_CPU if has_goal else None
                )
            )
            continue
        turns, calibrations = select_turns(tenuto_turns, other_turns)
        library = f"{name} {comparison.environments[name].version}"
        for what, unit, key, scale, goal in (
            ("CPU", UNIT, "cpu", 1e6 / (CONCURRENT * count_events("text", dialect)), CONCURRENT_CPU),
            ("peak memory", "MB", "peak", 1.0, CONCURRENT_MEMORY),
        ):
            lowest = [min(pair[at][key] for pair in turns) * scale for at in (0, 1)]
            comparison.board.add(
                make_result(
                    f"{CONCURRENT} streams, {what} {dialect}: tenuto / {name}",
                    [one[key] / other[key] for one, other in turns],
                    value=lowest[0],
                    unit=unit,
                    goal=goal if has_goal else None,
                    run="peers",
                    calibrations=calibrations if key == "cpu" else (),
                    detail=f"{lowest[0]:.3g} vs {lowest[1]:.4g} ({library}); {len(turns)} turns",
                )
            )
