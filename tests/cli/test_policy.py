"""`--allow` and `--deny`: which calls a pattern means, and that what is denied is not run, whoever calls it."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tenuto import AsyncAgent, tool
from tenuto.agent.session import AsyncSession
from tenuto.cli.session import approval, call_patterns
from tenuto.cli.session.approval import ApprovalUnavailable
from tenuto.cli.session.policy import Policy
from tenuto.cli.session.shell_words import is_plain, simple_commands
from tenuto.cli.terminal.display import Display
from tenuto.cli.terminal.output import detect_terminal
from tenuto.core.messages import ToolCallView
from tenuto.testing import call, turn
from tenuto.tools import web_fetch, web_search
from tenuto.tools.toolbox import Toolbox


def played(test):
    """Have a test that awaits something run."""

    @functools.wraps(test)
    def run(*args, **kwargs):
        asyncio.run(test(*args, **kwargs))

    return run


def allowed(pattern, name, **arguments):
    return Policy([pattern]).decide(name, arguments) is True


def denied(pattern, name, **arguments):
    return isinstance(Policy((), [pattern]).decide(name, arguments), str)


# --- commands that are allowed ----------------------------------------------------------------------------------------

PLAIN = (
    "git status",
    "git log --oneline -n 3 HEAD~2..HEAD^",
    "git commit -m 'it; was $(not) me & you > x'",
    'git commit -m "one; two | three\nfour"',
    "git show origin/main:src/a_b.py",
    "  git diff  ",
    "git add 'a*.py' naïve.txt",
)
JOINTS = (";", "&", "&&", "|", "||", "\n", "\r\n", ">", ">>", "<", "<<", "<<<", ">(", "<(", "$(", "`", "${", "$", "(")


@pytest.mark.parametrize("command", PLAIN)
def test_a_plain_command_is_allowed(command):
    assert allowed("shell(git *)", "shell", command=command)
    assert allowed("sh*(git *)", "shell", command=command)
    assert allowed("shell", "shell", command=command)
    assert not allowed("shell(hg *)", "shell", command=command)
    assert not allowed("read_file(git *)", "shell", command=command)


@pytest.mark.parametrize("joint", JOINTS)
@pytest.mark.parametrize("around", ["git status{}rm -rf x", "git status {} rm -rf x", 'git "status{}rm x"', "git {}"])
def test_a_command_that_a_shell_does_more_with_is_not(joint, around):
    """Whoever allowed one program is asked before another runs, something is expanded, or a file is written."""
    command = around.format(joint)

    assert not allowed("shell(git *)", "shell", command=command) or '"' in command


@pytest.mark.parametrize(
    "command",
    [
        'git log "$(rm x)"',
        'git log "`rm x`"',
        'git log "$HOME"',
        r"git log \; rm",
        "git log ~/x",
        "git add *.py",
        "git add [a]",
        "git add a?",
        "git add {a,b}",
        "git log # x",
        "git log !x",
        "git log 'x",
        'git log "x',
        "git log \x00x",
        "git log\x85rm x",
        "git\xa0log x",
        "git",
        "GIT status",
        "X=1 git status",
        "'git status' x",
        "/usr/bin/git status",
    ],
)
def test_where_there_is_a_doubt_somebody_is_asked(command):
    assert not allowed("shell(git *)", "shell", command=command)


def test_without_a_wildcard_a_command_is_meant_to_the_letter():
    """What somebody wrote out is allowed with all that it does."""
    assert allowed("shell(make test && make lint)", "shell", command="make test && make lint\n")
    assert not allowed("shell(make test && make lint)", "shell", command="make test && make lint x")


@pytest.mark.parametrize("pattern", ["shell(*)", "*", "*(*)"])
def test_everything_is_still_one_plain_command_if_there_is_a_glob(pattern):
    assert allowed(pattern, "shell", command="anything at all")
    assert allowed(pattern, "shell", command="a; b") == (pattern == "*")


WORDS = st.sampled_from(["status", "-m", "a", "x.y", "--b=c", "HEAD~1", "é"])
SIGNS = st.sampled_from([*JOINTS, " ", " ", "'", '"', "\\", "*", "?", "[", "]", "~", "{", "}", ",", "#", "!", "=", ")"])


@pytest.fixture(scope="module")
def stub(tmp_path_factory):
    """A folder with nothing in it but a program that says how it was called."""
    folder = tmp_path_factory.mktemp("stub")
    (folder / "git").write_text('#!/bin/sh\nfor word; do printf "%s\\0" "$word"; done\n')
    (folder / "git").chmod(0o755)
    return folder


@given(st.lists(WORDS | SIGNS, max_size=8).map("".join), st.lists(WORDS, max_size=2).map(" ".join))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.filter_too_much])
@pytest.mark.skipif(sys.platform == "win32", reason="asks /bin/sh")
def test_what_is_allowed_is_one_call_of_that_program(stub, rest, tail):
    """A real shell, given anything that `git *` allows, calls `git` once with the words that stand there."""
    command = f"git {rest} {tail}"
    assume(allowed("shell(git *)", "shell", command=command))
    done = subprocess.run(
        ["/bin/sh", "-c", command], capture_output=True, cwd=stub, env={"PATH": str(stub)}, check=False
    )

    assert (0, b"") == (done.returncode, done.stderr)
    assert shlex.split(command, posix=True)[1:] == done.stdout.decode().split("\0")[:-1]
    assert [stub / "git"] == list(stub.iterdir())


@pytest.mark.parametrize("command", ["git 'a & del x'", 'git "%X%"', "git a^&b", "git a & b", "git %X%", "git a\nb"])
def test_the_shell_of_windows_quotes_otherwise(command):
    assert not is_plain(command, windows=True)
    assert is_plain(r'git add "C:\a dir\b" src\x', windows=True)


# --- commands that are denied -----------------------------------------------------------------------------------------

CARRIED = (
    "rm x",
    "/bin/rm x",
    r"\rm x",
    "r'm' x",
    '"rm" x',
    "rm\tx",
    "X=1 rm x",
    "sudo rm x",
    "sudo -u root rm x",
    "env -i X=1 rm x",
    "nohup nice -n 3 rm x",
    "xargs rm x",
    "find . -name '*.o' -exec rm {} ;",
    "sh -c 'rm x'",
    'bash -lc "cd y && rm x"',
    "sudo sh -c 'rm x'",
    "eval 'rm x'",
    "busybox rm x",
    "2>/dev/null rm x",
    "> f rm x",
    ">&2 rm x",
    "if true; then rm x; fi",
    "for i in a; do rm x; done",
    "{ rm x; }",
    "! rm x",
    "(rm x)",
    "echo $(rm x)",
    'echo "$(rm x)"',
    'echo "`rm x`"',
    "echo ${y:-$(rm x)}",
    "y=$(rm x)",
    "cat <(rm x)",
    "cat <<END\nrm x\nEND",
    "r\\\nm x",
    "$RM x",
    "$(which rm) x",
    "r? x",
    "{rm,x}",
    "$'rm' x",
)
SPARED = (
    "git rm x",
    "echo rm x",
    "git commit -m 'then; rm x'",
    'git commit -m "a & rm x"',
    "rmdir x",
    "./rm.sh x",
    "$VENV/bin/pytest -q",
    "[ -f x ] && ls",
    "ls 2>&1 | wc -l",
    "cat rm x",
    "echo a\\; rm x",
)


@pytest.mark.parametrize("command", CARRIED)
def test_a_command_is_denied_wherever_it_stands(command):
    assert denied("shell(rm *)", "shell", command=command)


@pytest.mark.parametrize("command", SPARED)
def test_a_command_that_only_looks_alike_is_not_denied(command):
    assert not denied("shell(rm *)", "shell", command=command)


@given(
    st.sampled_from(PLAIN),
    st.sampled_from([";", "&", "&&", "|", "||", "\n", " ; (", "; $(", "; `", "; if ", " >x; "]),
    st.sampled_from(["", "X=1 ", "sudo ", "sudo -u root ", "env A=b ", "/bin/", "time ", "! "]),
)
def test_a_command_behind_another_is_denied(before, joint, prefix):
    assert denied("shell(rm *)", "shell", command=f"{before}{joint}{prefix}rm -rf x")


@given(st.text(max_size=60) | st.lists(WORDS | SIGNS, max_size=20).map("".join))
def test_anything_can_be_taken_apart(command):
    """Whatever a model writes; and what is denied as a whole is denied."""
    for windows in (False, True):
        list(simple_commands(command, windows=windows))
        is_plain(command, windows=windows)

    assert denied("shell(*)", "shell", command=command)
    assert denied("shell", "shell", command=command)


@pytest.mark.parametrize(
    "command", ["del x", "a & del x", r"C:\bin\del.exe x", "cmd /c del x", 'cmd /c "a & del x"', "%X% x"]
)
def test_a_command_is_denied_on_windows(command):
    found = list(simple_commands(command, windows=True))

    assert "del x" in found or None in found


def test_a_shell_in_a_shell_in_a_shell_is_not_followed_for_ever():
    command = "echo x"
    for _ in range(6):
        command = f"sh -c {shlex.quote(command)}"

    assert denied("shell(rm *)", "shell", command=command)


# --- paths ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "glob, path, expected",
    [
        ("src/*", "src/a.py", True),
        ("src/*", "./src//a.py", True),
        ("./src/*", "src/a.py", True),
        ("src/*", "src/deep/a.py", False),
        ("src/**", "src/deep/a.py", True),
        ("src/*", "src/../etc/a", False),
        ("src/*", "src/..", False),
        ("src/**", "src/x/../a.py", False),
        ("*.md", "a.md", True),
        ("*.md", "deep/a.md", False),
        ("**/*.md", "deep/a.md", True),
        ("a.md", "a.md", True),
        ("a.md", "deep/a.md", False),
        ("src/*", "SRC/a.py", False),
        ("src/*", "/src/a.py", False),
        ("/tmp/*", "/tmp/a", True),
        ("/tmp/*", "//tmp/a", True),
    ],
)
def test_a_path_is_allowed_as_a_whole(glob, path, expected):
    assert expected == allowed(f"write_file({glob})", "write_file", path=path, content="x")


@pytest.mark.parametrize(
    "glob, path",
    [
        ("*.env", ".env"),
        ("*.env", "deep/prod.env"),
        ("*.env", "./x/../.env"),
        ("*.env", "/root/.env"),
        ("secrets", "secrets/key"),
        ("key", "secrets/key"),
        ("id_*", "deep/id_rsa"),
        ("secrets/*", "secrets/deep/key"),
        ("secrets/*", "x/../secrets/key"),
        ("secrets/*", "/work/secrets/key"),
        ("secrets/*", "secrets//key"),
        ("/etc/*", "//etc/passwd"),
        ("/etc", "/etc/passwd"),
    ],
)
def test_a_path_is_denied_by_any_part_of_it(glob, path):
    assert denied(f"*_file({glob})", "read_file", path=path)


def test_a_path_that_has_nothing_of_it_is_not_denied():
    for path in ("a.envelope", "env", "notes/secret.txt"):
        assert not denied("read_file(*.env)", "read_file", path=path)
        assert not denied("read_file(secrets/*)", "read_file", path=path)


def test_case_and_spelling_do_not_matter_where_the_system_does_not_mind(monkeypatch):
    monkeypatch.setattr(call_patterns, "_FOLDS", True)

    assert denied("read_file(*.env)", "read_file", path="PROD.ENV")
    assert denied("read_file(*.ENV)", "read_file", path="prod.env")
    assert denied("shell(rm *)", "shell", command="/bin/RM x")
    assert denied("read_file(\u00e9.txt)", "read_file", path="e\u0301.txt")
    assert not allowed("read_file(*.env)", "read_file", path="PROD.ENV")


def test_windows_has_another_slash(monkeypatch):
    monkeypatch.setattr(call_patterns, "_WINDOWS", True)

    assert allowed("write_file(src/*)", "write_file", path=r"src\a.py")
    assert not allowed("write_file(src/*)", "write_file", path=r"src\..\a.py")
    assert denied("write_file(src/*)", "write_file", path=r"src\deep\a.py")


PIECES = st.sampled_from(["a", "b.env", "..", ".", "", "secrets", "é"])


@given(st.lists(PIECES, min_size=1, max_size=6).map("/".join))
def test_no_path_leads_out_of_what_is_allowed(path):
    """What is allowed below `a/` is there, also for who follows every `..`, and a denial is not talked out of."""
    real = os.path.normpath(f"/root/{path}")

    if allowed("write_file(a/**)", "write_file", path=path):
        assert real.startswith("/root/a/")
    if real.endswith("b.env"):
        assert denied("write_file(*.env)", "write_file", path=path)


def test_a_tool_that_is_told_no_path_works_on_the_whole_folder():
    assert not allowed("list_files(src/*)", "list_files")
    assert allowed("list_files(.)", "list_files", path=None)
    assert denied("list_files(.)", "list_files", hidden=True)


# --- other tools ------------------------------------------------------------------------------------------------------


def test_another_tool_is_allowed_if_all_its_strings_match_and_denied_if_one_does():
    assert allowed("deploy(staging*)", "deploy", target="staging-2", force=True)
    assert not allowed("deploy(staging*)", "deploy", target="staging", note="and production")
    assert not allowed("deploy(staging*)", "deploy", targets=["staging", "production"])
    assert not allowed("deploy(*)", "deploy", force=True)
    assert denied("deploy(prod*)", "deploy", target="staging", also={"x": ["production"]})
    assert denied("deploy(*)", "deploy", force=True)


@pytest.mark.parametrize("name", ["command", "cmd", "shell_command", "scripts"])
def test_a_command_is_one_in_any_tool(name):
    assert allowed("bash(git *)", "bash", **{name: "git status"})
    assert not allowed("bash(git *)", "bash", **{name: "git status; rm x"})
    assert denied("bash(rm *)", "bash", **{name: "git status; rm x"})


def test_a_path_is_one_in_any_tool():
    assert not allowed("send(docs/*)", "send", file_path="docs/../key")
    assert denied("send(*.env)", "send", file="deep/.env")


@played
async def test_arguments_that_cannot_be_read_allow_nothing():
    asked = Policy(["shell(git *)"], ["x*"]).wrap_approver(None)
    for view in (
        ToolCallView("1", "shell", "[]"),
        ToolCallView("1", "shell", "{", broken="no"),
        ToolCallView("1", "shell", "git status; rm x", kind="custom"),
    ):
        with pytest.raises(ApprovalUnavailable):
            await asked(view)


# --- patterns ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "pattern", ["", "shell(git *", "shell git", "shell()", "shell:git *", "(git *)", "a b(c)", f"shell({'*a' * 200})"]
)
def test_a_pattern_that_is_none_shows_what_one_is(pattern):
    for policy in ({"allow": [pattern]}, {"deny": [pattern]}):
        with pytest.raises(click.UsageError, match=r"NAME\(GLOB\), as in|at most 300 characters"):
            Policy(**policy)


@tool
def look(where: str = "here") -> str:
    """Look."""
    Path("looked").write_text(where)
    return "seen"


def test_a_pattern_for_a_tool_that_is_not_there_says_which_are():
    """A denial that was misspelt would otherwise deny nothing."""
    with pytest.raises(click.UsageError, match=r"--deny loook\(x\): there is no tool 'loook': did you mean look"):
        Policy((), ["loook(x)"]).wrap_tools([look])
    with pytest.raises(click.UsageError, match="there are edit_file, list_files, look, read_file"):
        Policy(["bash"]).wrap_tools([look])
    assert [look] == Policy(["shell(git *)"]).wrap_tools([look])
    assert [look] == Policy(["bash"], ["loook(x)"], typed=()).wrap_tools([look])


def test_what_a_provider_runs_cannot_be_denied():
    served = web_search()
    with pytest.raises(click.UsageError, match="the provider runs web_search by itself"):
        Policy((), ["web_*"]).wrap_tools([served])
    with pytest.raises(click.UsageError, match="the provider runs web_search by itself"):
        Policy((), ["web_*"]).wrap_tools([AsyncAgent("sim/anthropic", tools=[served]).as_tool("helper")])
    assert [served] == Policy(["web_search"]).wrap_tools([served])


# --- tools that are governed ------------------------------------------------------------------------------------------


class Desk:
    """Somebody's own dispatcher."""

    def __init__(self):
        self.run = []

    def definitions(self):
        return look.definition, web_search()

    async def dispatch(self, call):
        self.run.append(call.args)
        return call.answer("done")


class Desk2(Desk):
    """Another one."""

    def definitions(self):
        return tool(name="other")(look.__wrapped__).definition, web_fetch()


def test_nothing_is_changed_that_no_pattern_is_about():
    def plain(x: str) -> str:
        """Plain."""
        return x

    tools = [look, plain, web_search(), Toolbox([look.__wrapped__]), Desk()]

    for policy in (Policy(), Policy(["shell"], ["read_file(*)"])):
        assert all(one is other for one, other in zip(tools, policy.wrap_tools(tools), strict=True))


@pytest.mark.parametrize("wrapped", [lambda: look, lambda: look.__wrapped__, lambda: Toolbox([look])])
def test_what_is_denied_needs_a_word_and_what_is_allowed_none(wrapped):
    """Of a tool that needs none otherwise, too; and the tool that was given stays as it was."""
    given = wrapped()
    [made] = Policy(["look(h*)"], ["look(there)"]).wrap_tools([given])
    box = Toolbox([made])
    needs = [box.prepare(ToolCallView("1", "look", json.dumps(each))).needs_approval for each in _WHERES]

    assert [True, False, False, False] == needs
    assert not look.needs_approval({"where": "there"})
    assert look.definition == box.definitions()[0]


_WHERES = ({"where": "there"}, {"where": "home"}, {}, {"where": "off"})


def test_a_toolbox_keeps_its_order():
    """What a model is told stays the same, to the byte."""
    box = Toolbox([tool(name="one")(look.__wrapped__), web_search(), look, Desk2()])
    [made] = Policy((), ["look(x)", "other(x)"]).wrap_tools([box])

    assert box is not made
    assert box.definitions() == made.definitions()


def test_a_tool_that_needs_a_word_needs_none_if_it_is_allowed():
    [made] = Policy(["look(h*)"]).wrap_tools([tool(approval=lambda where: where != "off")(look.__wrapped__)])

    assert [True, False, False, False] == [made.needs_approval(each) for each in _WHERES]


def test_an_argument_that_cannot_be_spelt_is_asked_about():
    class Odd:
        pass

    [made] = Policy((), ["look(x)"]).wrap_tools([look])

    assert made.needs_approval({"where": Odd()})
    assert not made.needs_approval({"where": Path("y")})
    assert made.needs_approval({"where": Path("x")})


@played
async def test_a_dispatcher_answers_what_is_denied_itself():
    desk = Desk()
    box = Toolbox(Policy((), ["look(there)"]).wrap_tools([desk]))
    answers = [await box.dispatch(ToolCallView("1", "look", f'{{"x": "{x}"}}')) for x in ("there", "here")]

    assert ["look was not run: denied by --deny look(there).", "done"] == [answer.content for answer in answers]
    assert ['{"x": "here"}'] == desk.run
    assert desk.definitions() == box.definitions()


# --- who decides ------------------------------------------------------------------------------------------------------


@pytest.fixture
def screen():
    return Display(detect_terminal("never"))


async def words(approver, *names):
    said = []
    for name in names:
        try:
            said.append(await approver(ToolCallView("1", name, '{"command": "git x", "path": "a"}')))
        except ApprovalUnavailable:
            said.append(None)
    return said


@pytest.mark.parametrize(
    "way, other", [("auto", True), ("never", "denied by --approve never"), ("ask", None)], ids=["auto", "never", "ask"]
)
@played
async def test_denials_come_first_then_what_is_allowed_then_approve(screen, way, other):
    """Where nobody can be asked, a call that no pattern is about waits."""
    policy = Policy(["shell(git *)", "write_file"], ["write_file(a)"])

    assert [True, "denied by --deny write_file(a)", other] == await words(
        policy.approver(way, screen), "shell", "write_file", "edit_file"
    )


def test_without_patterns_there_is_nobody_who_decides_where_nobody_can_be_asked(screen):
    assert Policy().approver("ask", screen) is None


@played
async def test_all_does_not_go_over_a_denial(screen, monkeypatch):
    """Somebody who says `a` allows what he would be asked about, and no more."""
    read, write = os.pipe()
    monkeypatch.setattr(approval, "_open_terminal", lambda: read)
    os.write(write, b"a\n")
    decide = Policy((), ["shell(rm *)"]).approver("ask", screen)
    views = [ToolCallView("1", "shell", json.dumps({"command": each})) for each in ("ls", "rm x", "ls -l")]

    assert [True, "denied by --deny shell(rm *)", True] == [await decide(view) for view in views]
    os.close(write)
    with pytest.raises(ApprovalUnavailable):
        await decide(ToolCallView("1", "edit_file", "{}"))
    os.close(read)


# --- in a session -----------------------------------------------------------------------------------------------------


def outcomes(session: AsyncSession, entries):
    return [
        (entry.payload.outcome, str(entry.payload.result.content))
        for entry in entries
        if hasattr(entry.payload, "outcome")
    ]


@pytest.fixture
def agent(tenuto_sim, screen, tmp_path, monkeypatch):
    """Make an agent, as `run` does."""
    monkeypatch.chdir(tmp_path)

    def make(policy, tools, way="ask"):
        return AsyncAgent(
            "sim/anthropic", store=None, tools=policy.wrap_tools(tools), approve=policy.approver(way, screen)
        )

    return make


@played
async def test_what_is_denied_is_not_run_and_the_model_reads_why(agent, tenuto_sim, tmp_path):
    tenuto_sim.script(turn(call("look", {"where": "there"})), turn("Then not."))
    async with agent(Policy((), ["look(t*)"]), [look], "auto") as made, made.session() as session:
        await session.send("Look!")
        entries = await session.entries()

    assert [("denied", "look was not run: denied by --deny look(t*).")] == outcomes(session, entries)
    assert not (tmp_path / "looked").exists()


@played
async def test_what_is_allowed_does_not_wait_for_what_is_not(agent, tenuto_sim, tmp_path):
    """The call that nobody can be asked about waits; the others are run, and denied, all the same."""
    careful = tool(approval=True)(look.__wrapped__)
    calls = [call("look", {"where": where}) for where in ("unsure", "there", "home")]
    tenuto_sim.script(turn(*calls), turn("Well."))
    async with agent(Policy(["look(h*)"], ["look(t*)"]), [careful]) as made, made.session() as session:
        await session.send("Look!")
        waiting = [each.call.args for each in session.pending]
        entries = await session.entries()

    assert ('{"where": "unsure"}',) == tuple(waiting)
    assert "waiting" == session.status
    assert {("done", "seen"), ("denied", "look was not run: denied by --deny look(t*).")} == set(
        outcomes(session, entries)
    )
    assert "home" == (tmp_path / "looked").read_text()


@pytest.mark.parametrize("own", [False, True], ids=["inherited", "of its own"])
@played
async def test_patterns_hold_for_the_tools_of_a_sub_agent(agent, tenuto_sim, tmp_path, own):
    """Also for tools of its own that need no word, and before an approval of its own."""
    tenuto_sim.script(turn(call("helper", {"prompt": "Look there!"})), turn("Then not."))
    tenuto_sim.script(turn(call("look", {"where": "there"})), turn("I may not."), when="Look there!")
    options = {"approve": lambda _: True} if own else {}
    helper = AsyncAgent("sim/anthropic", tools=[look], **options).as_tool("helper")
    policy = Policy(["helper"], ["look(t*)"])
    async with agent(policy, [helper], "auto") as made, made.session() as session:
        reply = await session.send("Go!")
        entries = await session.entries()

    assert "Then not." == reply.text
    assert [("done", "I may not.")] == outcomes(session, entries)
    assert "denied by --deny look(t*)" in json.dumps([request.body for request in tenuto_sim.requests])
    assert not (tmp_path / "looked").exists()


@played
async def test_a_sub_agent_that_waits_does_not_stop_what_runs_beside_it(agent, tenuto_sim, tmp_path):
    careful = tool(name="careful", approval=True)(look.__wrapped__)
    tenuto_sim.script(turn(call("helper", {"prompt": "Be careful!"}), call("look", {})), turn("Well."))
    tenuto_sim.script(turn(call("careful", {})), turn("Yes."), when="Be careful!")
    helper = AsyncAgent("sim/anthropic", tools=[careful]).as_tool("helper")
    async with agent(Policy(["shell"]), [helper, look]) as made, made.session() as session:
        await session.send("Go!")
        entries = await session.entries()

    assert [("done", "seen")] == outcomes(session, entries)
    assert ["careful"] == [each.call.name for each in session.pending]
    assert "waiting" == session.status


@played
async def test_a_sub_agent_itself_can_be_denied(agent, tenuto_sim):
    tenuto_sim.script(turn(call("helper", {"prompt": "Look there!"})), turn("Then not."))
    helper = AsyncAgent("sim/anthropic", tools=[look]).as_tool("helper")
    async with agent(Policy((), ["helper(*there*)", "look(never)"]), [helper], "auto") as made:
        session = made.session()
        await session.send("Go!")
        assert [("denied", "helper was not run: denied by --deny helper(*there*).")] == outcomes(
            session, await session.entries()
        )


def test_an_agent_that_has_itself_among_its_tools_is_looked_into_once():
    one = AsyncAgent("sim/anthropic", tools=[look])
    inner = one.as_tool("one")
    inner.agent = SimpleNamespace(toolbox=Toolbox([inner, look]))

    Policy((), ["look(x)"]).wrap_tools([inner])
    with pytest.raises(click.UsageError, match="did you mean look"):
        Policy((), ["lokk(x)"]).wrap_tools([inner])


# --- through the command ----------------------------------------------------------------------------------------------


def test_the_patterns_of_the_command_hold(here, tenuto_sim, tmp_path):
    """One call is denied, one allowed, and one waits, because nobody can be asked."""
    commands = [call("shell", {"command": command}) for command in ("echo a > a", "rm a", "echo done")]
    tenuto_sim.script(turn(*commands), turn("Well."))
    done = here("run", "Go!", "-T", "shell", "--allow", "shell(echo *)", "--deny", "shell(rm *)")

    assert (6, "") == done[:2]
    assert "shell was not run: denied by --deny shell(rm *)" in done.err
    assert "< shell: done" in done.err
    assert ['waits for approval: shell command="echo a > a"'] == re.findall("waits for approval.*", done.err)
    done = here("resume", "--deny", "shell(*> a)")
    assert (6, "Well.\n") == done[:2]
    assert "denied by --deny shell(*> a)" in done.err
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    "option, message",
    [
        (
            ("--allow", "shell(git *"),
            r"error: --allow 'shell\(git \*' is no pattern: write NAME or NAME\(GLOB\), as in",
        ),
        (("--deny", "shel"), r"error: --deny shel: there is no tool 'shel': did you mean shell\?\n  see: "),
    ],
)
def test_a_pattern_that_is_wrong_is_a_matter_of_usage(here, tenuto_sim, option, message):
    done = here("run", "Go!", "-T", "shell", *option)

    assert (2, "") == done[:2]
    assert re.match(message, done.err)
    assert () == tuple(tenuto_sim.requests)


def test_what_is_configured_may_be_about_a_tool_that_is_not_there(here, tenuto_sim):
    tenuto_sim.script(turn("Hi."))
    assert 0 == here("config", "set", "deny", "deploy(prod*)", "shell(rm *)").code

    assert (0, "Hi.\n") == here("run", "Hi!")[:2]
