"""Patterns that allow and deny tool calls."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tenuto import AsyncAgent, tool
from tenuto.agent import call_policy
from tenuto.agent.call_policy import CallPattern, CallPolicy, is_plain, suggest_pattern
from tenuto.agent.hooks import CallInfo
from tenuto.core.messages import ToolCallView
from tenuto.testing import call, turn


def allowed(pattern, name, **arguments):
    return CallPattern(pattern).allows(name, arguments)


def denied(pattern, name, **arguments):
    return CallPattern(pattern).denies(name, arguments)


# --- allowed commands ------------------------------------------------------------------------------------------------

JOINTS = (";", "&", "&&", "|", "||", "\n", "\r\n", ">", ">>", "<", "<<", "<<<", ">(", "<(", "$(", "`", "${", "$", "(")
PLAIN = """
git status
git log --oneline -n 3 HEAD~2..HEAD^
git commit -m 'it; was $(not) me & you > x'
git show origin/main:src/a_b.py
git add 'a*.py' naïve.txt""".strip().splitlines()
NOT_PLAIN = r"""
git log "$(rm x)"
git log "`rm x`"
git log "$HOME"
git log \; rm
git log ~/x
git add *.py
git add [a]
git add a?
git add {a,b}
git log # x
git log !x
git log 'x
git log "x
git
GIT status
X=1 git status
'git status' x
/usr/bin/git status""".strip().splitlines()


@pytest.mark.parametrize("command", [*PLAIN, "  git diff  ", 'git commit -m "one; two | three\nfour"'])
def test_plain_command_is_allowed(command):
    assert allowed("shell(git *)", "shell", command=command)
    assert allowed("sh*(git *)", "shell", command=command)
    assert allowed("shell", "shell", command=command)
    assert not allowed("shell(hg *)", "shell", command=command)
    assert not allowed("read_file(git *)", "shell", command=command)


@pytest.mark.parametrize("joint", JOINTS)
@pytest.mark.parametrize("form", ["git status{}rm -rf x", "git status {} rm -rf x", 'git "status{}rm x"', "git {}"])
def test_command_with_an_operator_is_not_allowed(joint, form):
    command = form.format(joint)

    assert not allowed("shell(git *)", "shell", command=command) or '"' in command


@pytest.mark.parametrize("command", [*NOT_PLAIN, "git log \x00x", "git log\x85rm x", "git\xa0log x"])
def test_command_that_is_not_plain_is_not_allowed(command):
    assert not allowed("shell(git *)", "shell", command=command)


def test_pattern_without_wildcards_equals_the_command():
    assert allowed("shell(make test && make lint)", "shell", command="make test && make lint\n")
    assert not allowed("shell(make test && make lint)", "shell", command="make test && make lint x")
    for pattern in ("shell(*)", "*", "*(*)"):
        assert allowed(pattern, "shell", command="anything at all")
        assert allowed(pattern, "shell", command="a; b") == (pattern == "*")


WORDS = st.sampled_from(["status", "-m", "a", "x.y", "--b=c", "HEAD~1", "é"])
SIGNS = st.sampled_from([*JOINTS, " ", " ", "'", '"', "\\", "*", "?", "[", "]", "~", "{", "}", ",", "#", "!", "=", ")"])


@pytest.fixture(scope="module")
def stub(tmp_path_factory):
    """A directory with a program `git` that prints its arguments."""
    directory = tmp_path_factory.mktemp("stub")
    (directory / "git").write_text('#!/bin/sh\nfor word; do printf "%s\\0" "$word"; done\n')
    (directory / "git").chmod(0o755)
    return directory


@given(st.lists(WORDS | SIGNS, max_size=8).map("".join), st.lists(WORDS, max_size=2).map(" ".join))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.filter_too_much])
@pytest.mark.skipif(sys.platform == "win32", reason="uses /bin/sh")
def test_real_shell_runs_an_allowed_command_once(stub, rest, tail):
    command = f"git {rest} {tail}"
    assume(allowed("shell(git *)", "shell", command=command))
    done = subprocess.run(
        ["/bin/sh", "-c", command], capture_output=True, cwd=stub, env={"PATH": str(stub)}, check=False
    )

    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode().split("\0")[:-1] == shlex.split(command, posix=True)[1:]
    assert list(stub.iterdir()) == [stub / "git"]


def test_windows_operators_are_not_plain():
    for command in ("git 'a & del x'", 'git "%X%"', "git a^&b", "git a & b", "git %X%", "git a\nb"):
        assert not is_plain(command, windows=True)
    assert is_plain(r'git add "C:\a dir\b" src\x', windows=True)


# --- denied commands -------------------------------------------------------------------------------------------------

UNCLEAR = r"""
\rm x
r'm' x
"rm" x
X=1 rm x
sudo -u root rm x
env -i X=1 rm x
xargs rm x
find . -name '*.o' -exec rm {} ;
sh -c 'rm x'
bash -lc "cd y && rm x"
busybox rm x
2>/dev/null rm x
if true; then rm x; fi
{ rm x; }
(rm x)
echo "`rm x`"
echo ${y:-$(rm x)}
cat <(rm x)
$RM x
$(which rm) x
r? x
{rm,x}
$'rm' x
trap 'rm -rf x' EXIT
unshare rm -rf x
tmux new -d 'rm -rf x'
printf 'rm -rf x' | sh
alias a=rm; a -rf x
make -f - <<< 'all:;rm -rf x'
python3 -c "import os; os.system('rm -rf x')"
git -c alias.z='!rm -rf x' z
ls victim | xargs rm
git rm x
echo a\; rm x""".strip().splitlines()
OTHER = ("rmdir x", "./rm.sh x", "[ -f x ] && ls", "ls 2>&1 | wc -l", "cat form")


@pytest.mark.parametrize("command", ["rm x", "rm", "/bin/rm x", "  rm -rf x"])
def test_plain_command_is_denied(command):
    assert denied("shell(rm *)", "shell", command=command) == "yes"


@pytest.mark.parametrize("command", [*UNCLEAR, "rm\tx", "cat <<END\nrm x\nEND", "r\\\nm x"])
def test_command_that_may_run_the_program_is_unclear(command):
    assert denied("shell(rm *)", "shell", command=command) == "unclear"


@pytest.mark.parametrize("command", OTHER)
def test_other_command_is_not_denied(command):
    assert denied("shell(rm *)", "shell", command=command) == "no"


def test_several_words_must_occur_in_order():
    assert denied("shell(git push *)", "shell", command="cd x && git -C y push origin") == "unclear"
    assert denied("shell(git push *)", "shell", command="echo push && git log") == "no"


@given(st.text(max_size=60) | st.lists(WORDS | SIGNS, max_size=20).map("".join))
def test_any_command_can_be_checked(command):
    assert denied("shell(rm *)", "shell", command=command) in ("yes", "unclear", "no")
    assert denied("shell(*)", "shell", command=command) == denied("shell", "shell", command=command) == "yes"


def test_windows_program_names_are_recognized(monkeypatch):
    monkeypatch.setattr(call_policy, "_WINDOWS", True)
    for command in ("del x", r"C:\bin\del x"):
        assert denied("shell(del *)", "shell", command=command) == "yes"
    for command in ("a & del x", r"C:\bin\del.exe x", "cmd /c del x", "d^el x", "%X% x"):
        assert denied("shell(del *)", "shell", command=command) == "unclear"


# --- paths and other tools --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "glob, path, expected",
    [
        ("src/*", "src/a.py", True),
        ("src/*", "./src//a.py", True),
        ("./src/*", "src/a.py", True),
        ("src/*", "src/deep/a.py", False),
        ("src/**", "src/deep/a.py", True),
        ("src/*", "src/../etc/a", False),
        ("src/**", "src/x/../a.py", False),
        ("*.md", "deep/a.md", False),
        ("**/*.md", "deep/a.md", True),
        ("a.md", "a.md", True),
        ("src/*", "SRC/a.py", False),
        ("src/*", "/src/a.py", False),
        ("/tmp/*", "//tmp/a", True),
    ],
)
def test_allowed_path_matches_as_a_whole(glob, path, expected):
    assert allowed(f"write_file({glob})", "write_file", path=path, content="x") == expected


@pytest.mark.parametrize(
    "glob, path",
    [
        ("*.env", ".env"),
        ("*.env", "./x/../.env"),
        ("*.env", "/root/deep/prod.env"),
        ("secrets", "secrets/key"),
        ("key", "secrets/key"),
        ("secrets/*", "secrets/deep/key"),
        ("secrets/*", "x/../secrets//key"),
        ("secrets/*", "/work/secrets/key"),
        ("/etc/*", "//etc/passwd"),
        ("/etc", "/etc/passwd"),
    ],
)
def test_path_is_denied_by_any_part(glob, path):
    assert denied(f"*_file({glob})", "read_file", path=path) == "yes"


def test_other_paths_are_not_denied():
    for path in ("a.envelope", "env", "notes/secret.txt"):
        assert denied("read_file(*.env)", "read_file", path=path) == "no"
        assert denied("read_file(secrets/*)", "read_file", path=path) == "no"


def test_case_is_ignored_where_the_file_system_ignores_it(monkeypatch):
    monkeypatch.setattr(call_policy, "_FOLDS", True)

    assert denied("read_file(*.ENV)", "read_file", path="prod.env") == "yes"
    assert denied("shell(rm *)", "shell", command="/bin/RM x") == "yes"
    assert denied("read_file(\u00e9.txt)", "read_file", path="e\u0301.txt") == "yes"
    assert not allowed("read_file(*.env)", "read_file", path="PROD.ENV")


def test_windows_slash_separates_paths(monkeypatch):
    monkeypatch.setattr(call_policy, "_WINDOWS", True)

    assert allowed("write_file(src/*)", "write_file", path=r"src\a.py")
    assert not allowed("write_file(src/*)", "write_file", path=r"src\..\a.py")
    assert denied("write_file(src/*)", "write_file", path=r"src\deep\a.py") == "yes"


@given(st.lists(st.sampled_from(["a", "b.env", "..", ".", "", "secrets", "é"]), min_size=1, max_size=6).map("/".join))
def test_no_path_leads_out_of_an_allowed_directory(path):
    real = os.path.normpath(f"/root/{path}")

    if allowed("write_file(a/**)", "write_file", path=path):
        assert real.startswith("/root/a/")
    if real.endswith("b.env"):
        assert denied("write_file(*.env)", "write_file", path=path) == "yes"


def test_missing_path_is_the_working_directory():
    assert not allowed("list_files(src/*)", "list_files")
    assert allowed("list_files(.)", "list_files", path=None)
    assert denied("list_files(.)", "list_files", hidden=True) == "yes"


def test_patterns_match_other_tools():
    assert allowed("deploy(staging*)", "deploy", target="staging-2", force=True)
    assert not allowed("deploy(staging*)", "deploy", target="staging", note="and production")
    assert not allowed("deploy(staging*)", "deploy", targets=["staging", "production"])
    assert not allowed("deploy(*)", "deploy", force=True)
    assert denied("deploy(prod*)", "deploy", target="staging", also={"x": ["production"]}) == "yes"
    assert denied("deploy(prod*)", "deploy", path=Path("production")) == "yes"
    assert denied("deploy(*)", "deploy", force=True) == "yes"
    assert not allowed("send(docs/*)", "send", file_path="docs/../key")
    assert denied("send(*.env)", "send", file="deep/.env") == "yes"
    for name in ("command", "cmd", "shell_command", "scripts"):
        assert allowed("bash(git *)", "bash", **{name: "git status"})
        assert not allowed("bash(git *)", "bash", **{name: "git status; rm x"})
        assert denied("bash(rm *)", "bash", **{name: "git status; rm x"}) == "unclear"


@pytest.mark.parametrize(
    "pattern", ["", "shell(git *", "shell git", "shell()", "shell:git *", "(git *)", "a b(c)", f"shell({'*a' * 200})"]
)
def test_invalid_pattern_is_an_error(pattern):
    with pytest.raises(ValueError, match=r"use NAME or NAME\(GLOB\)|at most 300 characters"):
        CallPolicy([pattern])


@pytest.mark.parametrize(
    "name, arguments, pattern, plain",
    [
        ("shell", {"command": "git rebase origin/main"}, "shell(git *)", "shell(git *)"),
        ("shell", {"command": "ls"}, "shell(ls)", "shell(ls)"),
        ("shell", {"command": "ls; rm x"}, "shell(ls; rm x)", ""),
        ("shell", {"command": "ls *"}, "", ""),
        ("shell", {"command": "ls\nrm x"}, "", ""),
        ("shell", {"command": "sudo ls x"}, "shell(sudo ls x)", "shell(sudo ls x)"),
        ("shell", {"command": f"echo {'x' * 300};"}, "", ""),
        ("edit_file", {"path": "a", "old": "b", "new": "c"}, "edit_file", "edit_file"),
        ("deploy", {"cmd": "git push x", "shell": "rm y"}, "", ""),
    ],
)
def test_suggested_pattern_allows_the_call(name, arguments, pattern, plain):
    view = ToolCallView("1", name, json.dumps(arguments))

    assert suggest_pattern(view) == pattern
    assert suggest_pattern(view, plain=True) == plain
    assert not pattern or allowed(pattern, name, **arguments)


# --- the policy -------------------------------------------------------------------------------------------------------


def permit(policy, name="shell", args="{}", *, needs_approval=True, kind="function"):
    view = ToolCallView("1", name, args, kind=kind)
    info = {"session_id": "s", "ordinal": 0, "attempt": 1, "key": "k", "fence": 0, "effect": "unknown"}
    return policy.permit(CallInfo(call=view, needs_approval=needs_approval, **info))


def test_denials_come_before_permissions():
    policy = CallPolicy(["shell(git *)", "write_file"], ["write_file(a)"])

    assert permit(policy, args='{"command": "git x"}') is True
    assert permit(policy, "write_file", '{"path": "a"}') == "denied by the pattern write_file(a)"
    assert permit(policy, "edit_file") is None


@pytest.mark.parametrize(
    "can_ask, needs_approval, expected", [(True, True, None), (True, False, "d"), (False, True, "d")]
)
def test_unclear_command_needs_approval_or_is_denied(can_ask, needs_approval, expected):
    """Also if another pattern allows it."""
    policy = CallPolicy(["shell"], ["shell(rm *)"], can_ask=can_ask)
    decision = permit(policy, args='{"command": "sudo rm x"}', needs_approval=needs_approval)

    assert decision == (expected and "denied by the pattern shell(rm *)")


def test_unreadable_arguments_allow_nothing():
    policy = CallPolicy(["shell(git *)"], ["x*"])
    for args, kind in (("[]", "function"), ("{", "function"), ("git status; rm x", "custom")):
        assert permit(policy, args=args, kind=kind) is None


@tool
def look(where: str = "here") -> str:
    """Look."""
    Path("looked").write_text(where)
    return "seen"


class Desk:
    """A dispatcher."""

    def __init__(self):
        self.run = []

    def definitions(self):
        return (look.definition,)

    async def dispatch(self, call):
        self.run.append(call.args)
        return call.answer("done")


def run(policy, tools, message="Go!", **options):
    """Run an agent; return the outcome and result of each call, and the arguments of the calls that wait."""

    async def play():
        agent = AsyncAgent("sim/anthropic", store=None, tools=tools, hooks=[policy], **options)
        async with agent, agent.session() as session:
            await session.send(message)
            acts = [entry.payload for entry in await session.entries() if hasattr(entry.payload, "outcome")]
            pending = [json.loads(one.call.args) for one in session.pending]
            return [(act.outcome, str(act.result.content)) for act in acts], pending

    return asyncio.run(play())


def test_policy_decides_calls_of_a_session(tenuto_sim, tmp_path, monkeypatch):
    """A denied call is not run, also of a tool that needs no approval; an allowed one needs none; others wait."""
    monkeypatch.chdir(tmp_path)
    careful = tool(approval=True)(look.__wrapped__)
    tenuto_sim.script(turn(*(call("look", {"where": where}) for where in ("unsure", "there", "home"))), turn("Well."))
    outcomes, pending = run(CallPolicy(["look(h*)"], ["look(t*)"]), [careful])

    assert sorted(outcomes) == [("denied", "look was not run: denied by the pattern look(t*)."), ("done", "seen")]
    assert pending == [{"where": "unsure"}]
    assert (tmp_path / "looked").read_text() == "home"
    tenuto_sim.script(turn(call("look", {"where": "there"})), turn("Then not."))
    assert run(CallPolicy((), ["look(t*)"]), [look])[0][0][0] == "denied"


def test_policy_decides_calls_of_a_dispatcher(tenuto_sim):
    desk = Desk()
    tenuto_sim.script(turn(call("look", {"where": "there"}), call("look", {"where": "here"})), turn("Well."))
    outcomes, _ = run(CallPolicy((), ["look(there)"]), [desk])

    assert [outcome for outcome, _ in outcomes] == ["denied", "done"]
    assert [json.loads(args) for args in desk.run] == [{"where": "here"}]


@pytest.mark.parametrize("own", [{}, {"approve": lambda _: True}], ids=["inherited", "own approval"])
def test_policy_decides_calls_of_a_sub_agent(tenuto_sim, tmp_path, monkeypatch, own):
    monkeypatch.chdir(tmp_path)
    tenuto_sim.script(turn(call("helper", {"prompt": "Look there!"})), turn("Then not."))
    tenuto_sim.script(turn(call("look", {"where": "there"})), turn("I may not."), when="Look there!")
    helper = AsyncAgent("sim/anthropic", tools=[look], **own).as_tool("helper")
    outcomes, _ = run(CallPolicy(["helper"], ["look(t*)"]), [helper])

    assert outcomes == [("done", "I may not.")]
    assert "denied by the pattern look(t*)" in json.dumps([request.body for request in tenuto_sim.requests])
    assert not (tmp_path / "looked").exists()


def test_sub_agent_can_be_denied(tenuto_sim):
    tenuto_sim.script(turn(call("helper", {"prompt": "Look there!"})), turn("Then not."))
    helper = AsyncAgent("sim/anthropic", tools=[look]).as_tool("helper")
    outcomes, _ = run(CallPolicy((), ["helper(*there*)"]), [helper])

    assert outcomes == [("denied", "helper was not run: denied by the pattern helper(*there*).")]
