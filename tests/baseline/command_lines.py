"""The command lines that are recorded. Lines of a scene share a directory and a store, and run in their order."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["FILES", "SCENES", "SCRIPTS", "CommandLine"]


class CommandLine(NamedTuple):
    """A command line. With `code_only`, its output depends on the machine, and only the exit code is recorded."""

    text: str
    stdin: str = ""
    code_only: bool = False


def _lines(text: str) -> list[CommandLine]:
    return [CommandLine(line.strip()) for line in text.strip().splitlines()]


def _say(*texts: str) -> list[dict[str, Any]]:
    return [{"do": "say", "text": list(texts)}]


def _call(name: str, **args: Any) -> dict[str, Any]:
    return {"do": "call", "name": name, "args": args}


SCRIPTS = [
    {
        "when": "Oslo",
        "turns": [
            [{"do": "think", "text": "I look it up."}, _call("weather", city="Oslo")],
            _say("12 ", "degrees."),
            _say("13 degrees."),
            _say("All of it is true."),
            _say("That was it."),
        ],
    },
    {"when": "Pay", "turns": [[_call("pay", amount=5)], _say("Done."), [_call("pay", amount=6)], _say("Done again.")]},
    {"when": "number", "turns": [_say('{"number": 7}')]},
    {"when": "letter", "turns": [_say("No JSON.")]},
    {"when": "greet", "turns": [_say("Hello", " there."), _say("Hello again."), _say("Bye.")]},
    {"when": "busy", "turns": [[{"do": "deny", "status": 400, "message": "wrong request", "times": 0}]]},
]
"""The simulated model's replies, by a word of the first message."""

FILES = {
    "my_tools.py": '''from tenuto import tool


@tool(effect="pure")
def weather(city: str) -> str:
    """Tell the weather in a city."""
    return f"12 degrees in {city}"


@tool(approval=True)
def pay(amount: int) -> str:
    """Pay an amount."""
    return f"paid {amount}"
''',
    "number.json": '{"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}',
    "broken.json": '{"type": ',
    "note.txt": "A note about Oslo.\n",
    "other.txt": "Something else.\n\nIn two paragraphs.\n",
    "damaged.jsonl": '{"tenuto":"session"}\nnot json\n',
}

_COMMANDS = (
    "run chat resume fork compact sessions show export import audit handover store models providers embed tools keys config "
    "sim doctor completion"
)
_BELOW = {
    "sessions": "search rename archive rm",
    "store": "stats verify gc reindex backup restore",
    "config": "edit set show unset",
    "keys": "list rm set",
}

SCENES: dict[str, list[CommandLine]] = {
    "help": [
        CommandLine("--help"),
        *(CommandLine(f"{name} --help") for name in _COMMANDS.split()),
        *(CommandLine(f"{name} {below} --help") for name, all_below in _BELOW.items() for below in all_below.split()),
    ],
    "usage": _lines("""
        --version
        rum hello
        run
        run "greet me" -m nosuch/model
        run "greet me" -m anthropic/claude-sonnet-5-5
        run "greet me" --max-turns 0
        run "greet me" --effort extreme
        run "greet me" -o temperature
        run "greet me" -a missing.png
        run "greet me" --schema missing.json
        run "greet me" --schema broken.json
        run "greet me" -T nosuch
        run "greet me" -T my_tools:nosuch
        run "greet me" --json --jsonl
        --profile nosuch run "greet me"
        resume
        show nosuch
        export nosuch
        import missing.jsonl
        import damaged.jsonl
        fork nosuch
        sessions rm nosuch --yes
        config set nosuch 1
        keys set nosuch
        completion tcsh
        sim --script missing.json
        embed missing.txt
    """),
    "catalog": [
        *_lines("""
            models claude sonnet
            models --json gpt-5.2 -p openai
            models nosuch
            providers deepseek
            providers --json groq
            providers nosuch
            tools
            tools shell
            tools my_tools:weather
            tools --json read_file
            completion bash
            config show
            config set model sim/openai
            config set model
            config show
            keys list
        """),
        CommandLine("keys set anthropic", "sk-test-0123456789abcdef\n"),
        *_lines("""
            keys list
            keys rm anthropic
            keys rm anthropic
        """),
        CommandLine("doctor", code_only=True),
        CommandLine("doctor --json", code_only=True),
    ],
    "run": [
        *_lines("""
            run "Weather in Oslo?" -m sim/anthropic -T my_tools:weather -n trip
            run -c "And Bergen?" -T my_tools:weather --json
            run "Please greet me." -m sim/openai -q
            run "Please greet me." -m sim/gemini --jsonl --ephemeral
            run "Please greet me." -m sim/chat --usage --out answer.txt
            run "Give a number." --schema number.json
            run "Give a letter." --schema number.json
            run "Be busy." -m sim/openai
            run "Weather in Oslo?" -T my_tools:weather --max-turns 1
        """),
        CommandLine("run -", "Please greet me.\n"),
        *_lines("""
            run "Pay 5." -T my_tools:pay -n payment
            resume payment -T my_tools:pay --approve auto
            resume payment "Once more." -T my_tools:pay --approve never
            resume payment
            resume trip "Is it true?" -T my_tools:weather --hide-thinking
            run "Pay 5." -T my_tools:pay --deny pay --json
        """),
        CommandLine("chat -m sim/anthropic", "Please greet me.\n/nosuch\nAnd again.\n/quit\n"),
        CommandLine("chat trip -T my_tools:weather", "What was it?\n"),
    ],
    "sessions": _lines("""
        run "Weather in Oslo?" -m sim/anthropic -T my_tools:weather -n trip -q
        run "Please greet me." -m sim/openai -q
        sessions
        sessions --json
        show trip
        show trip --json
        export trip --out trip.md
        export trip --out trip.md
        export trip --out trip.jsonl
        export trip --format openai
        import trip.jsonl --store other.db --id copy
        import trip.jsonl --store other.db --id copy
        show copy --store other.db
        fork trip -n branch
        audit trip
        audit trip -m openai/gpt-5.2
        audit trip --json
        handover trip sim/openai
        handover trip sim/gemini --json
        resume trip "And Bergen?" -T my_tools:weather
        handover trip nosuch/model
        sessions rename trip voyage
        sessions search degrees
        sessions search nosuchword
        sessions archive voyage
        sessions archive voyage --undo
        sessions rm voyage
        sessions rm voyage --yes
        sessions rm voyage --yes --forks
        store stats
        store verify
        store gc
        store reindex
        store backup copy.db
        store backup copy.db
    """),
    "embed": _lines("""
        embed note.txt other.txt --into index.db
        embed note.txt other.txt --into index.db
        embed --similar Oslo --into index.db --limit 1 --json
        embed --text Oslo --dimensions 4
    """),
}  # fmt: skip
