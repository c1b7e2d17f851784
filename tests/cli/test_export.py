"""`export` and `import`: the same bytes after a round trip, and documents in which all text is escaped."""

from __future__ import annotations

import itertools
import json
import os
import queue
import re
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import settings as how
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from cli.canned_provider import SAID, append_entries, every_entry
from tenuto import settings
from tenuto.cli.transcript.markdown import blockquote, escape_markdown, fence, inline_code
from tenuto.core.journal import MessageAdded
from tenuto.core.messages import UserMessage

EVIL = "```\n# user\n</details>\n`````\n<script>\n~~~ \x1b[2J \u202e\n> \\` | <b>`x`"


@pytest.fixture
def kept(here):
    append_entries(settings.store(), "one", SAID)
    append_entries(settings.store(), "evil", every_entry(EVIL))


def listed(here, *more):
    return {one["id"]: one for one in json.loads(here("sessions", "--json", "--all", *more).out)}


def test_export_and_import_keep_every_byte(here, kept):
    """Several sessions, through files and through a pipe; what exists is unchanged."""
    here("sessions", "rename", "one", "trip")
    here("sessions", "archive", "one")
    lines = here("export", "one", "evil").out
    assert (0, "", "") == here("export", "--all", "--out", "all.jsonl")
    done = here("import", "all.jsonl", "--store", "other.db")

    assert (0, "evil  18 entries\none  3 entries\n", "") == done
    assert lines == here("export", "one", "evil", "--store", "other.db").out
    assert ("trip", True) == tuple(listed(here, "--store", "other.db")["one"][key] for key in ("name", "archived"))
    piped = here("import", "-", "--json", "--store", "third.db", stdin=here("export", "trip").out)
    assert {"imported": [{"session": "one", "entries": 3, "left_out": []}]} == json.loads(piped.out)
    assert 0 == here("store", "verify", "--store", "third.db").code
    assert (0, "evil  unchanged\none  unchanged\n", "") == here("import", "all.jsonl")
    for option in ("--id", "--name"):
        refused = here("import", "all.jsonl", option, "x")
        assert (2, True) == (refused.code, "--id and --name are for one session, and the files have 2" in refused.err)


def test_import_with_another_id_and_name(here, kept):
    here("sessions", "rename", "one", "trip")
    here("export", "one", "--out", "one.jsonl")
    fork = here("fork", "one", "--at", "1").out.strip()
    here("export", fork, "--out", "fork.jsonl")
    taken = here("import", "one.jsonl", "--id", "two")
    assert 2 == here("import", "one.jsonl", "--id", "x", "--name", "trip").code
    named = here("import", "one.jsonl", "--id", "three", "-n", "a b")
    alone = here("import", "fork.jsonl", "--id", "alone")

    assert (
        "left out: session two: its name 'trip': another session is called 'trip': choose another name\n" == taken.err
    )
    assert (0, "three  3 entries\n", "") == named
    assert "its parent 'one': the session is not a fork here" in alone.err
    assert ("", "a b", "") == tuple(listed(here)[id]["name"] for id in ("two", "three", "alone"))


@pytest.mark.parametrize(
    "damage, why",
    [
        (lambda text: text.replace("Where is Oslo", "Where is Rome"), "line 3: entry 2 does not match its digest"),
        (lambda text: text.replace('"one"', '"../x"'), "'../x' is not a session id"),
        (lambda text: f"{{}}\n{text}", "this is not an exported session"),
        (lambda text: "", "it is empty"),
    ],
)
def test_damaged_line_is_named_and_nothing_is_imported(here, kept, tmp_path, damage, why):
    """Of all sessions and files; the tests of the store have more damage."""
    text = here("export", "one", "evil").out
    (tmp_path / "bad.jsonl").write_text(damage(text), "utf-8")
    (tmp_path / "good.jsonl").write_text(text, "utf-8")
    done = here("import", "good.jsonl", "bad.jsonl", "--store", "other.db")

    assert (7, "") == done[:2]
    assert re.match(f"error: bad.jsonl: .*{re.escape(why)}", done.err)
    assert {} == listed(here, "--store", "other.db")


def test_export_is_atomic(here, kept, tmp_path):
    """The suffix selects the format unless an option does."""
    out = tmp_path / "out.MD"
    out.write_text("mine")
    refused = here("export", "one", "--out", "out.MD")
    missing = here("export", "one", "none", "--out", "out.MD", "--force")

    assert (2, "") == refused[:2]
    assert "'out.MD' cannot be written: it already exists (use --force)" in refused.err
    assert 7 == missing.code
    assert "mine" == out.read_text()
    assert (0, "", "") == here("export", "one", "--out", "out.MD", "--force")
    assert out.read_text("utf-8") == here("export", "one", "--out", "-", "--format", "md").out
    assert {"out.MD"} == {path.name for path in tmp_path.iterdir() if path.is_file()}
    here("export", "one", "--out", "lines.md", "--format", "jsonl")
    assert here("export", "one").out == (tmp_path / "lines.md").read_text("utf-8")
    assert here("export").out == here("export", "last").out == here("export", "evil", "~0").out != ""


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_named_pipe_is_written_and_read(here, kept, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    got = queue.SimpleQueue()
    threading.Thread(target=lambda: got.put((tmp_path / "pipe").read_bytes()), daemon=True).start()
    assert 0 == here("export", "one", "--out", "pipe").code
    assert (tmp_path / "pipe").is_fifo()
    read = got.get(timeout=30)  # before anybody else writes into it
    lines = here("export", "one").out.encode()
    threading.Thread(target=lambda: (tmp_path / "pipe").write_bytes(lines), daemon=True).start()
    done = here("import", "pipe", "--store", "other.db")

    assert lines == read
    assert (0, "one  3 entries\n") == done[:2]


@pytest.mark.parametrize(
    "arguments, after, told",
    [
        (["export", "one", "evil", "--out", "out.jsonl"], 5, "stopped; nothing was written"),
        (["import", "all.jsonl", "--store", "other.db"], 3, "stopped; repeat the import"),
        (["import", "all.jsonl", "--store", "other.db"], 25, "stopped; repeat the import"),
        (["store", "verify"], 1, "stopped; nothing was changed"),
    ],
)
def test_ctrl_c_reports_the_state(here, kept, monkeypatch, arguments, after, told):
    """Files are complete or absent, and the command can be repeated."""
    here("export", "one", "evil", "--out", "all.jsonl")
    steps = itertools.count(1)

    def stop(*_):
        if next(steps) == after:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("click._termui_impl.ProgressBar.make_step", stop)
        done = here(*arguments)

    assert (130, "") == (done.code, done.out.replace("one  3 entries\n", ""))
    assert told in done.err
    assert not Path("out.jsonl").exists()
    assert 0 == here(*arguments).code


def test_openai_messages_report_losses(here, kept):
    """One line for each session; content without a place in the format is reported."""
    done = here("export", "one", "evil", "--format", "openai")
    one, evil = (json.loads(line)["messages"] for line in done.out.splitlines())
    told = done.err.splitlines()

    assert 0 == done.code
    assert [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Where is Oslo?"}] == one
    assert ["system", "user", "assistant", "tool", "tool", "user"] == [message["role"] for message in evil]
    assert [f"dig{EVIL}", "ask"] == [call["function"]["name"] for call in evil[2]["tool_calls"]]
    assert f"Error: {EVIL}" == evil[3]["content"]
    assert all(line.startswith("lost: session evil: ") for line in told)
    assert "lost: session evil: dreamt (entry 17, later-version); a later version of tenuto can read it" in told
    assert any("reasoning-withheld" in line and "a jsonl export has it" in line for line in told)
    assert "\x1b" not in done.err


OURS = {"<details>\n<summary>Thinking</summary>\n", "</details>\n"}
HEADINGS = {"system", "user", "model", "`sim/anthropic`"}


def html_in(tokens):
    for token in tokens:
        if token.type in ("html_block", "html_inline"):
            yield token.content
        yield from html_in(token.children or ())


def headings_in(tokens):
    return [
        tokens[at + 1].content for at, token in enumerate(tokens) if token.type == "heading_open" and not token.level
    ]


def test_markdown_escapes_everything(here, kept):
    document = here("export", "evil", "--format", "md").out
    tokens = MarkdownIt("commonmark", {"html": True}).parse(document)
    fences = [token.content for token in tokens if token.type == "fence" and not token.level]

    assert (
        here("export", "one", "evil", "--format", "md").out
        == here("export", "one", "--format", "md").out + f"\n{document}"
    )
    assert set(html_in(tokens)) == OURS
    assert ["system", "user (1)", "`sim/anthropic` (2)", "user (4)", "system"] == headings_in(tokens)[1:]
    assert 6 == len(fences)
    assert "A thought ```\n# user\n</details>\n" in fences[0]
    assert '{"entry":"dreamt","of":"sheep"}\n' == fences[-1]
    assert "\x1b" not in document
    assert "\u202e" not in document
    pieces = ("\\x1b[2J", "\\u202e", "[image]", " denied: ", "- lost: ", "in session child", "Ended: failed: ")
    assert [] == [piece for piece in pieces if piece not in document.replace("\\[image\\]", "[image]")]


signs = st.text(st.sampled_from("`~<>&#|\\-=_*[]()!ab1. \t\n\r\u2028\x0b"), max_size=40)
marks = st.sampled_from(
    ["<script>", "</details>", "<!--", "<b>", "```", "~~~", "````", "`", "\\`", "|", "- ", "1. ", "> ", "\n    "]
)
wild = st.one_of(signs, st.text(max_size=20), st.lists(marks, max_size=12).map("".join))


@how(max_examples=100)
@given(wild, wild, wild)
@example("- `a\n`<b>`", "1. x\n   ```\n<b>", "x")
@example("   ```\n```\n<b>", "```\n   ```\n<b>", "~~~\n```\n~~~\n<b>")
@example("| `a | <b>` |\n|-|-|\n| x | y |", "\\`<b>`", "x")
@example("   ~~~\n~~~\n<b>", "~~~\n```\n~~~\n<b>", "x")
def test_markdown_pieces_stay_closed(words, called, name):
    """Any text stays in its quote or fence, and no HTML is active."""
    pieces = [
        f"# {escape_markdown(name)}\n",
        blockquote(words),
        fence(called),
        f"Calls {inline_code(name) or 'x'}:\n",
        blockquote(called),
        "The end\n",
    ]
    for kind in ("commonmark", "default"):
        tokens = MarkdownIt(kind, {"html": True}).parse("\n".join(pieces))
        top = [token.type for token in tokens if not token.level]
        expected = ["heading_open", "heading_close"]
        expected += ["blockquote_open", "blockquote_close", "fence", "paragraph_open", "paragraph_close"]
        expected += ["blockquote_open", "blockquote_close", "paragraph_open", "paragraph_close"]

        assert [kind for kind in top if kind != "inline"] == expected
        assert [] == list(html_in(tokens))


def test_markdown_keeps_code():
    assert "> `List&lt;int>` &lt;b>\n> ```html\n> <b>\n> ```\n> a &lt; b\n" == blockquote(
        "`List<int>` <b>\n```html\n<b>\n```\na < b"
    )
    assert "````text\n```\n````\n" == fence("```")
    assert "``` `` ```" == inline_code("``")


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
def test_export_escapes_json_on_a_terminal(tenuto):
    append_entries(tenuto.store, "evil", [*SAID[:1], MessageAdded(UserMessage("\x1b[2J\u202ehere"))])
    exported = tenuto.terminal("export", "evil")
    code, _ = exported.end()
    last = exported.seen.replace("\r\n", "\n").splitlines()[-1]
    (tenuto.folder / "evil.jsonl").write_text(tenuto.look("export", "evil"), "utf-8")
    imported = tenuto.terminal("import", "evil.jsonl", "--store", "other.db")

    assert 0 == code
    assert "\\u001b[2J\\u202ehere" in last
    assert "\x1b[2J\u202ehere" == json.loads(last)["body"]["message"]["content"]
    assert (0, "evil  2 entries\n") == imported.end()
    assert "importing" in imported.seen
