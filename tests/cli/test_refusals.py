"""Command lines that are refused: the exit code, one clear message, and nothing is sent, stored or written."""

from __future__ import annotations

import re
import shlex
import sys

import pytest

from cli.canned_provider import CALLED, append_entries
from tenuto import settings

CONFIG = """
[profiles.work]
effort = "low"
[providers.minerva]
base_url = "http://localhost:1"
"""
TYPES = '''
import msgspec

class Odd:
    """JSON has no such value."""
'''
FILES = {
    "notes.md": b"Notes.",
    "words.json": b"City",
    "list.json": b"[]",
    "broken.json": b'{"$ref": "#/nowhere"}',
    "type.json": b'{"properties": {"type": {"enum": [{"type": 1}], "items": {"type": ["null", "strin"]}}}}',
    "object.json": b'{"type": "object"}',
    "broken.jsonl": b"no json\n",
    "kinds.py": TYPES.encode(),
    "quits.py": b"import sys\nsys.exit(0)\n",
}
SECRET = "sk-secret-1234567890"

REFUSED = {
    "commands": [
        ("rnu Hi", 2, r"unknown command 'rnu'; did you mean run\?\n  see: tenuto --help"),
        ("store verfy", 2, "verfy.*verify"),
        ("completion tcsh", 2, "tcsh.*bash"),
        ("show one two", 2, "two"),
        ("handover last", 2, "Missing argument 'MODEL'"),
        ("config set model", 2, r"Missing argument 'VALUE...'"),
        ("resume 'and 2+2?'", 7, r"did you mean: tenuto run -c 'and 2\+2\?'"),
        ("--profile wrok run Hi", 2, r"has no profile 'wrok': did you mean work\?"),
        ("config show --profile wrok", 2, r"has no profile 'wrok': did you mean work\?"),
    ],
    "options": [
        ("run", 2, "no prompt: pass one"),
        ("run Hi --modle x", 2, "No such option '--modle'.*--model"),
        ("run '-5 + 3?'", 2, "put -- before a prompt that starts with -"),
        ("run Hi --max-turns 0", 2, "'--max-turns': 0"),
        ("run Hi --max-usd much", 2, "'--max-usd': 'much' is not a valid number"),
        ("run Hi --max-usd 0", 2, "'--max-usd': 0.0 is not in the range"),
        ("run Hi --timeout 0", 2, "'--timeout': 0.0 is not in the range"),
        ("run Hi --approve maybe", 2, "'maybe'"),
        ("run Hi --allow 'shell(git *'", 2, r"NAME\(GLOB\)"),
        ("run Hi --session ''", 2, "--session is empty"),
        ("run Hi -n ''", 2, "--name is empty"),
        ("resume ''", 2, "SESSION is empty"),
        ("chat ''", 2, "SESSION is empty"),
        ("run Hi --takeover", 2, "--takeover needs a session"),
    ],
    "contradictions": [
        ("run Hi -c --session x", 2, "use either --continue or --session"),
        ("run Hi -c --ephemeral", 2, "use either --continue or --ephemeral"),
        ("run Hi --session x --ephemeral", 2, "use either --session or --ephemeral"),
        ("run Hi --ephemeral -n x", 2, "use either --ephemeral or --name"),
        ("run Hi --ephemeral --store x.db", 2, "use either --ephemeral or --store"),
        ("run Hi --json --jsonl", 2, "use either --json or --jsonl"),
        ("run Hi --jsonl --out x", 2, "use either --out or --jsonl"),
        ("run Hi --schema object.json -o response_format=json_object", 2, "use either"),
        ("run Hi -m sim/anthropic:low --effort high", 2, "use either -m ...:"),
        ("chat last -c", 2, ""),
        ("chat last --ephemeral", 2, ""),
        ("run Hi -c -s 'Be brief.'", 2, "--system only applies to new sessions"),
        ("run Hi -c --effort low", 2, "--effort only applies to new sessions"),
        ("resume last -o seed=1", 2, "--option only applies to new sessions"),
        ("resume last --max-tokens 100", 2, "--max-tokens only applies to new sessions"),
        ("resume last More --allow-unverified", 2, "--allow-unverified only applies to new sessions"),
        ("resume last -m sim/openai:high", 2, "effort cannot change on resume"),
        ("compact last --plan --undo", 2, "--plan"),
    ],
    "parameters": [
        ("run Hi -o temperature", 2, "-o expects KEY=VALUE"),
        ("run Hi -o temprature=1", 2, r"did you mean temperature\?"),
        ("run Hi -o zzz=1", 2, "use one of tool_choice, parallel_tool_calls"),
        ("run Hi -o effort=low", 2, "use --effort"),
        ("run Hi -o max-tokens=5", 2, "use --max-tokens"),
        ("run Hi -o seed=many", 2, "-o seed=many: should be a whole number"),
        ("run Hi -o temperature=NaN", 2, "should be a number"),
        ("run Hi -o n=2", 2, "unknown parameter"),
    ],
    "models": [
        ("run Hi -m simm/anthropic", 2, "unknown provider 'simm'; did you mean 'sim'"),
        ("run Hi -m anthropic", 2, "no provider in 'anthropic': use anthropic/claude-sonnet-5-5"),
        ("run Hi -m gpt-oss-20b", 2, "no provider in .gpt-oss-20b.: use ollama/gpt-oss-20b"),
        ("run Hi -m gpt5", 2, "openai/gpt-5"),
        ("run Hi -m sim/antropic", 2, "sim/anthropic"),
        ("run Hi -m /x", 2, "provider/model"),
        ("run Hi -m x/", 2, "provider/model|unknown provider"),
        ("chat -m anthropc/claude-opus-4-6", 2, "anthropic", "Hi\n"),
        ("run Hi -m sim/anthropic:huge", 2, r"unknown effort 'huge' \(none, minimal, low, medium, high, xhigh, max\)"),
        ("resume last -m grok", 2, "'grok' is not a model name: use provider/model, such as xai/"),
        ("run Hi --fallback sim/openai,grok", 2, "'grok' is not a model name: use provider/model"),
        ("models --provider antropic", 2, "did you mean 'anthropic'"),
        ("models -p lmstudio", 1, "the catalog has none of lmstudio; use --online"),
        *(
            (f"{command} {model}", 2, message)
            for command in ("audit last -m", "handover last")
            for model, message in (
                ("nobody/x", "unknown provider 'nobody'"),
                ("grok", "'grok' is not a model name: use provider/model, such as xai/grok-"),
                ("''", "'' is not a model name: use provider/model, such as sim/anthropic"),
                (
                    "gpt-oss-120b",
                    "no provider in 'gpt-oss-120b': use cerebras/gpt-oss-120b or sambanova/gpt-oss-120b or",
                ),
                ("sim/openai:high", "effort cannot change on resume; drop :high"),
            )
        ),
        ("handover last openai-chat/gpt-5.2", 2, ""),
        ("embed --text x -m anthropic/claude-opus-5-5", 2, "cannot embed"),
    ],
    "tools": [
        ("run Hi -T shel", 2, r"did you mean shell\?"),
        ("run Hi -T no_such_module:f", 2, "'no_such_module' cannot be imported"),
        ("run Hi -T json:dumpz", 2, "json has no 'dumpz'; did you mean dump"),
        ("run Hi -T string:digits", 2, "is not a tool"),
        ("run Hi -T quits:f", 2, "'quits' cannot be imported: SystemExit"),
        ("run Hi -T shell --root nowhere", 2, "--root 'nowhere' cannot be used"),
    ],
    "sessions": [
        ("run Hi -n last", 2, "'last' is not a name"),
        ("run Hi -n ' x'", 2, "is not a name"),
        ("run Hi -n taken", 2, "another session is called 'taken': open"),
        ("sessions rename dig taken", 2, "another session is called 'taken'"),
        ("sessions rename dig last", 2, "means a session by its position"),
        ("sessions rename dig 'x\ny'", 2, "is not a name"),
        ("sessions archive dig nothere", 7, "no session is called 'nothere'"),
        ("sessions archive dig --undo", 2, "session dig is not archived"),
        ("sessions archive last --undo", 2, "no session is archived"),
        ("sessions rm dig", 2, "pass --yes", ""),
        ("fork dig --at 2", 2, "a tool call would lose its result; choose 1 or 3"),
        ("fork open", 2, "a tool call would lose its result; choose 1"),
        ("fork dig --at 0", 2, "0"),
        ("fork dig --name ~1", 2, "means a session by its position"),
        ("fork dig --name taken", 2, "another session is called 'taken'"),
        ("config forget 'shell(git *)'", 2, r"not remembered for this directory: 'shell\(git \*\)'"),
        ("keys rm anthropic", 2, "no key for anthropic in .*; list keys with tenuto keys"),
    ],
    "files": [
        ("run Hi -s @nowhere.md", 2, "-s @nowhere.md: the file cannot be read: No such file"),
        ("run Hi --store ftp://x", 2, "a store cannot be at ftp://"),
        ("run Hi --store /nowhere/x.db", 2, "--store: directory '/nowhere' does not exist"),
        ("run Hi --store /", 2, "--store: '/' is a directory: use the name of a file"),
        ("run Hi --out sub/", 2, "it is a directory"),
        ("run Hi --out nowhere/answer.txt", 2, "does not exist"),
        ("run Hi --out ~no-such-user/x", 2, "cannot be written"),
        ("run Hi --out 'a\0b'", 2, "cannot be written"),
        ("run Hi -a nowhere.png", 2, r"-a nowhere\.png: file not found"),
        ("run - -a -", 2, "-a - and the prompt cannot both be stdin", "x"),
        ("run 'Sum up:'", 2, "not UTF-8 text", b"\x89PN\xff"),
        ("import nowhere.jsonl", 2, r"'nowhere\.jsonl' cannot be read: No such file"),
        ("import .", 2, r"'\.' cannot be read: "),
        ("import broken.jsonl", 7, r"broken\.jsonl"),
        ("import notes.md --id ../x", 2, r"--id: '\.\./x' is not a session id"),
        ("import notes.md --id x --name last", 2, "means a session by its position"),
        ("import notes.md --id x --name taken", 7, ""),
        ("export last --out .", 2, "is a directory"),
        ("export last --out nowhere/x.jsonl", 2, "nowhere.* does not exist"),
        ("export last --out 'a\0b'", 2, "cannot be written"),
        ("export last --out notes.jsonl --format md nothere", 7, "nothere"),
        ("export last --out x.html", 2, "no format for .html: use .md or .jsonl"),
        ("store backup nowhere/x.db", 7, "nowhere"),
        ("store backup x.db --store none.db", 7, ""),
        ("store restore notes.md", 2, "--yes"),
        ("store restore nowhere.db --yes", 7, ""),
        ("embed", 2, "pass one of: files"),
        ("embed notes.md --text x", 2, "pass one of: files"),
        ("embed --text x --into v.db", 2, "--text stores nothing: omit --into"),
        ("embed nowhere.txt", 2, "not a file or directory: 'nowhere.txt'"),
        ("embed --text ' '", 2, "--text is empty"),
        ("embed notes.md --into nowhere/v.db", 2, "not a file in an existing directory"),
        ("sim --script nowhere.json", 2, "nowhere.json: No such file"),
        ("sim --pace late", 2, "invalid pause 'late'"),
        ("sim --port 99999", 2, "99999 is not in the range"),
        ("sim --burst 0", 2, "0 is not in the range"),
    ],
    "schemas": [
        ("run Hi --schema nowhere.json", 2, "cannot be read: No such file or directory; it is a file, or MODULE:TYPE"),
        ("run Hi --schema words.json", 2, "is not JSON: "),
        ("run Hi --schema list.json", 2, "it must be an object"),
        ("run Hi --schema broken.json", 2, "refers to nothing in it"),
        ("run Hi --schema type.json", 2, "unknown type 'strin'; use one of object, array, string"),
        ("run Hi --schema no_such_module_x:City", 2, "'no_such_module_x' cannot be imported"),
        ("run Hi --schema kinds:Town", 2, "has no 'Town'"),
        ("run Hi --schema kinds:Odd", 2, "output type Odd is not supported"),
        ("run Hi --schema quits:T", 2, "'quits' cannot be imported: SystemExit"),
    ],
    "settings": [
        ("config set modle x", 2, r"unknown setting 'modle': did you mean model\?"),
        ("config set system Be brief.", 2, "system should be text, not a list"),
        ("config set effort hihg", 2, r"did you mean high or xhigh\?"),
        ("config set profile home", 2, r"there is no \[profiles.home\].*; nothing was changed"),
        ("config set profiles.work x", 2, r"profiles.work should be a table, \[profiles.work\], not text"),
        ("config set options '{seed = 1}'", 2, r"options should be a table, \[options\], not text"),
        (f"config set providers.mine.api_key {SECRET}", 2, "use tenuto keys set PROVIDER instead"),
        (f"config set providers.mine.key_env {SECRET}", 2, "should be the name of an environment variable, not text"),
        ("config set providers.a/b.base_url http://x", 2, "is not empty and has no slash"),
        ("config set system '\udcff'", 2, "the value is not UTF-8 text"),
        ("config unset model", 2, "model is not set in"),
        ("config unset a.b.c", 2, "a.b.c is not set in"),
    ],
    "keys": [
        ("keys set anthropic", 2, "no key: the input is empty", ""),
        ("keys set anthropic", 2, "invalid key: it is too long, or has a space", f"{SECRET} x"),
        ("keys set anthropic", 2, "invalid key", f"{SECRET}\n{SECRET}\n"),
        ("keys set anthropic", 2, "invalid key", f"{SECRET}\x07"),
        ("keys set anthropic", 2, "invalid key", f"{SECRET}\u00e9"),
        ("keys set anthropic", 2, "invalid key: it is too long, or has a space", "k" * 20_000),
        ("keys set anthropic", 2, "invalid key: it is too long, or has a space", SECRET.encode("utf-16")),
        (f"keys set anthropic {SECRET}", 2, "keys are not accepted as arguments", "other"),
        ("keys set anthropc", 2, "did you mean 'anthropic'", SECRET),
        ("keys set minrva", 2, "did you mean 'minerva'", SECRET),
        ("keys set zzz", 2, "unknown provider 'zzz'; list them with tenuto providers", SECRET),
        (f"keys set {SECRET}{SECRET}", 2, r"unknown provider \(not shown\); list them with tenuto providers", SECRET),
    ],
}
"""By subject: command line, exit code, a pattern of the message, and the input if there is one."""
CASES = [
    (line, code, message, *(stdin or [None])) for cases in REFUSED.values() for line, code, message, *stdin in cases
]


@pytest.fixture
def stored(here, tmp_path, config, monkeypatch):
    """Two sessions, settings, and the files of the table."""
    config(CONFIG)
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "sub").mkdir()
    monkeypatch.setattr("sys.path", [*sys.path])
    append_entries(settings.store(), "open", CALLED[:5])
    here("sessions", "rename", "open", "taken")
    append_entries(settings.store(), "dig", CALLED)


def state(here, folder):
    """Return all that a command could have written."""
    files = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != "stdin"}
    files = {
        path: content for path, content in files.items() if not path.match("__pycache__/*") and path.suffix != ".lock"
    }
    return files, here("sessions", "--json", "--all").out


@pytest.mark.parametrize("line, code, message, stdin", CASES, ids=[f"{case[0][:50]!r}" for case in CASES])
def test_refused_command_has_one_message(here, stored, tenuto_sim, tmp_path, line, code, message, stdin):
    before = state(here, tmp_path)
    done = here(*shlex.split(line), stdin=stdin)

    assert (code, "") == (done.code, done.out)
    assert re.search(message, done.err), done.err
    assert not re.search(r"Traceback|\[Errno|sk-secret", done.err)
    assert len(done.err.splitlines()) <= 2
    assert [] == tenuto_sim.requests
    assert before == state(here, tmp_path)


def test_file_without_permission_is_refused(here, tenuto_sim, tmp_path, monkeypatch):
    (tmp_path / "old.txt").touch()
    monkeypatch.setattr("os.access", lambda *_: False)  # root may write everywhere
    for name in ("old.txt", "new.txt"):
        done = here("run", "Hi", "--out", name)

        assert (2, "") == done[:2]
        assert "no permission to write" in done.err
    assert [] == tenuto_sim.requests
    assert ["old.txt"] == [path.name for path in tmp_path.glob("*.txt")]
