"""The baseline reports changed behavior and ignores renamed names."""

from __future__ import annotations

import json
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor
from types import SimpleNamespace

import msgspec
import pytest

from baseline import command_lines, commands, comparison, files, renames, runs, suite_coverage, surface, traffic
from baseline.plain_form import Masker, Names, digest
from baseline.replies import DIALECTS, Call, Say, Think


def table(**changed):
    """Return the tables of `renames`, empty except those that are passed."""
    empty = {name: type(value)() for name, value in vars(renames).items() if name.isupper()}
    return SimpleNamespace(**{**empty, **changed})


# --- names ------------------------------------------------------------------------------------------------------------


def old_values():
    class Loss(msgspec.Struct):
        rule: str
        place: str

    class Said(msgspec.Struct, tag="said", tag_field="entry"):
        words: str
        ordinal: int = 0
        losses: tuple = ()

    return Said("hello", 2, (Loss("left-out", "messages[1]"),))


def new_values():
    class Loss(msgspec.Struct):
        kind: str
        location: dict

    class MessageAdded(msgspec.Struct, tag="message_added", tag_field="kind"):
        losses: tuple
        text: str
        session_id: str
        call_index: int = 0

    return MessageAdded((Loss("omitted", {"message": 1}),), "hello", "s", 2)


RENAMED = {
    "CLASSES": {"Said": "MessageAdded"},
    "TAG_FIELDS": {"entry": "kind"},
    "TAGS": {"entry.said": "message_added"},
    "FIELDS": {"Said.words": "text", "*.ordinal": "call_index", "Loss.rule": "kind", "Loss.place": "location"},
    "ADDED": {"*.session_id"},
    "WORDS": {"Loss.rule": {"left-out": "omitted"}},
    "VALUES": {"Loss.place": lambda location: f"messages[{location['message']}]"},
}


def test_digest_is_equal_with_rename_entries():
    recorded = Names(table()).plain(old_values())

    assert digest(recorded) == digest(Names(table(**RENAMED)).plain(new_values()))
    assert Names(table(**RENAMED)).tag(new_values()) == "said"


@pytest.mark.parametrize("missing", RENAMED)
def test_digest_differs_without_a_rename_entry(missing):
    entries = {name: value for name, value in RENAMED.items() if name != missing}

    assert digest(Names(table()).plain(old_values())) != digest(Names(table(**entries)).plain(new_values()))


def test_printed_json_has_the_recorded_names():
    names = Names(
        table(
            TAGS={"entry.said": "message_added"},
            DOCUMENTS={"kind place": {"rule": "kind"}, "entry=message_added": {"words": "text"}},
            ENTRY_KINDS="seq kind",
        )
    )
    printed = [
        {"seq": 1, "kind": "message_added", "body": {"entry": "message_added", "text": "hello"}},
        {"kind": "left-out", "place": "messages[1]"},
        {"kind": "message_added", "text": "hello"},
    ]

    assert names.document(printed) == [
        {"seq": 1, "kind": "said", "body": {"entry": "said", "words": "hello"}},
        {"rule": "left-out", "place": "messages[1]"},
        {"kind": "message_added", "text": "hello"},
    ]


def test_default_values_are_omitted():
    class Value(msgspec.Struct):
        name: str
        added: str = ""
        many: list = msgspec.field(default_factory=list)

    assert Names(table()).plain(Value("a")) == {"name": "a"}
    assert Names(table()).plain(Value("a", "b", [1])) == {"name": "a", "added": "b", "many": [1]}


def test_texts_and_arguments_are_renamed():
    names = Names(
        table(
            TEXTS={"goes on": "continues", "it goes on": "the session continues"},
            ARGUMENTS={("--take",): ("--takeover",), ("sessions", "gc"): ("store", "gc")},
        )
    )

    assert names.text("the session continues, and continues") == "it goes on, and goes on"
    assert names.arguments(("sessions", "gc", "--take")) == ("store", "gc", "--takeover")


def test_masker_numbers_ids_in_order():
    masker = Masker({"id": "id", "call": "id"}, ("pid",))

    assert masker.mask([{"id": "x", "pid": 7}, {"call": "y"}, {"call": "x"}, {"call": {"id": "y"}}]) == [
        {"id": "<id 1>", "pid": "<pid>"},
        {"call": "<id 2>"},
        {"call": "<id 1>"},
        {"call": {"id": "<id 2>"}},
    ]


# --- deliberate changes -----------------------------------------------------------------------------------------------


@pytest.fixture
def corpus(tmp_path):
    """Two exchanges of each dialect, the second one a reply to the first."""
    root = tmp_path / "corpus"
    for dialect in DIALECTS:
        replies = ([Think("Hm."), Call("add", '{"a": 1}')], [Say("Hello.")])
        for step, parts in enumerate(replies, 1):
            directory = root / dialect.name / "somebody" / f"case-{step}"
            directory.mkdir(parents=True)
            about = {"dialect": dialect.name, "provider": "somebody", "model": "m", "transport": "sse", "status": 200}
            about |= {"response_file": "response.sse", "conversation": dialect.name, "step": step}
            about |= {"parent_step": step - 1} if step > 1 else {}
            (directory / "exchange.json").write_text(json.dumps(about))
            (directory / "response.sse").write_bytes(dialect.reply(step, *parts))
    return root


def test_traffic_is_recorded_the_same_twice(corpus):
    events, requests, cases = traffic.record([corpus])

    assert (events, requests, cases) == traffic.record([corpus], jobs=2)
    assert sum(map(len, events.values())) == sum(map(len, requests.values())) == 8
    assert comparison.compare_events(events, events, cases) == []
    assert comparison.compare_requests(requests, requests, cases) == []


@pytest.mark.parametrize("dialect", [dialect.name for dialect in DIALECTS])
def test_changed_decoder_is_reported(corpus, monkeypatch, dialect):
    events, requests, cases = traffic.record([corpus])
    surface.change_decoder(monkeypatch, dialect, b"Hel", b"Hal")
    now, requests_now, _ = traffic.record([corpus])

    [found] = comparison.compare_events(events, now, cases)
    assert found.startswith(f"corpus/{dialect}/somebody/case-2: ")
    assert "the events before the last differ; the response differs" in found
    assert comparison.compare_requests(requests, requests_now, cases)[0].startswith(f"corpus/{dialect}/somebody/case-2")


def test_changed_encoder_is_reported(corpus, monkeypatch):
    events, requests, cases = traffic.record([corpus])
    surface.change_encoder(monkeypatch, "gemini", b'"role":"user"', b'"role":"person"')
    now, requests_now, _ = traffic.record([corpus])

    found = comparison.compare_requests(requests, requests_now, cases)
    assert comparison.compare_events(events, now, cases) == []
    assert len(found) == 8
    assert all("google/gemini-3.1-pro-preview (bytes), vertex/gemini-2.5-pro (bytes)" in one for one in found)
    assert comparison.count_targets(found) == "google/gemini-3.1-pro-preview 8, vertex/gemini-2.5-pro 8"


def test_missing_and_new_cases_are_reported(corpus):
    events, _, cases = traffic.record([corpus])
    fewer = {group: lines[1:] for group, lines in events.items()}

    assert len(comparison.compare_events(events, fewer, cases)) == 4
    assert all(one.endswith(": not recorded") for one in comparison.compare_events(fewer, events, cases))


def test_agent_run_is_the_same_in_another_process():
    name = "sub-agent / gemini"
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as workers:
        recorded = {name: workers.submit(runs.play, name).result()}

    assert comparison.compare_runs(recorded, {name: runs.play(name)}) == []


def test_changed_agent_is_reported(monkeypatch):
    name = "limits / anthropic-messages"
    recorded = {name: runs.play(name)}
    surface.change_agent(monkeypatch)

    [found] = comparison.compare_runs(recorded, {name: runs.play(name)})
    assert found.startswith(f"{name}: line ")
    assert '  recorded: event stopped {"detail":"turns","reason":"waiting"' in found
    assert "  now:      event turn.start {" in found


def test_changed_command_is_reported():
    name = "usage: tenuto rum hello"
    recorded = commands.run_scene("usage", only=name.__eq__)
    changed = [sys.executable, "-c", surface.CHANGED_COMMAND]
    now = commands.run_scene("usage", only=name.__eq__, command=lambda offset: changed)

    [found] = comparison.compare_commands(recorded, now)
    assert found.startswith(f"{name}:\n")
    assert "  -exit 2\n  +exit 3" in found
    assert comparison.compare_commands(recorded, now, exit_codes=True) == [
        f"{name}:\n  --- recorded\n  +++ now\n  @@ -1 +1 @@\n  -exit 2\n  +exit 3"
    ]


# --- files ------------------------------------------------------------------------------------------------------------


def test_file_is_read_as_written(tmp_path):
    sections = {"a / b": ["exit 0", "out", "out  two"], "c": []}
    path = files.write("part", sections, tmp_path)
    written = path.read_bytes()

    assert files.read("part", tmp_path) == sections
    assert files.write("part", sections, tmp_path).read_bytes() == written
    assert files.read("other", tmp_path) is None


def test_recorded_files_are_small_and_complete():
    assert len(runs.NAMES) == len(set(runs.NAMES)) == 60
    assert len(commands.NAMES) == len(set(commands.NAMES)) >= 120
    assert len(traffic.TARGETS) == 14
    assert tuple(files.read("runs") or ()) == runs.NAMES
    assert tuple(files.read("commands") or ()) == commands.NAMES
    assert sum(path.stat().st_size for path in files.DATA.iterdir()) < 1_500_000


def test_every_command_has_recorded_help():
    helped = {line.text.split()[0] for line in command_lines.SCENES["help"]}

    assert surface.command_names() <= helped


def test_coverage_is_unchanged_within_one_point():
    recorded = {"tenuto.core": ["90"], "tenuto.wire": ["90"], "tenuto.cli": ["90"]}
    now = {"tenuto.core": ["91"], "tenuto.wire": ["88"], "tenuto.cli": ["89"], "tenuto.new": ["50"]}

    merged = comparison.within_tolerance(recorded, now)
    assert merged == {"tenuto.core": ["90"], "tenuto.wire": ["88"], "tenuto.cli": ["90"], "tenuto.new": ["50"]}
    assert comparison.compare_coverage(recorded, now, {}) == ["tenuto.wire: 90 % recorded, now 88 %"]


def test_coverage_of_moved_package_is_compared():
    recorded, now = {"tenuto._rows": ["95"]}, {"tenuto.catalog": ["93"]}

    assert comparison.compare_coverage(recorded, now, {"tenuto._rows": "tenuto.catalog"}) == [
        "tenuto._rows: 95 % recorded, now 93 %"
    ]
    assert "there is no tenuto._rows" in comparison.compare_coverage(recorded, now, {})[0]


def test_coverage_is_summed_by_package():
    def lines(covered, count):
        return {"summary": {"covered_lines": covered, "num_statements": count}}

    measured = {
        "src/tenuto/errors.py": lines(1, 2),
        "src/tenuto/cli/main.py": lines(9, 10),
        "src/tenuto/cli/embedding/x.py": lines(0, 10),
    }
    assert suite_coverage._percentages(measured) == {"tenuto": ["50"], "tenuto.cli": ["45"]}
