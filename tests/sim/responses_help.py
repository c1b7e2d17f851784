"""A host of the Responses dialect without HTTP: it opens, judges, answers, and remembers what it stored."""

from __future__ import annotations

import json

from tenuto.sim.asked import Made, Request, Style
from tenuto.sim.judging import Verdict, judge
from tenuto.sim.mint import Mint, Seals, digest
from tenuto.sim.responses.voice import VOICE
from tenuto.sim.script import Say, Step
from tenuto.sim.styles import find

OPENAI, AZURE, XAI, DEEPSEEK = (find(name, "openai-responses")[0] for name in ("openai", "azure", "xai", "deepseek"))
SEED = "seed"


class Host:
    """One provider, one key, and its memory."""

    def __init__(self, style: Style = OPENAI, model: str = "", account: str = "mine", seed: str = SEED) -> None:
        self.style, self.model, self.account, self.seed = style, model, account, seed
        self.made: list[Made] = []

    def stored(self, id: str) -> Made | None:
        for made in self.made:
            if id == made.reply["id"] or any(item.get("id") == id for item in made.reply["output"]):
                return made
        return None

    def request(self, body: dict, stream: bool = False) -> Request:
        said = {key: value for key, value in body.items() if key not in ("stream", "stream_options")}
        return Request(
            style=self.style,
            model=self.model,
            named=self.model or self.style.name,
            account=self.account,
            headers={},
            body=body,
            digest=digest(json.dumps(said)),
            seals=Seals(self.seed),
            stream=stream,
            stored=self.stored,
        )

    def verdict(self, body: dict) -> Verdict:
        return judge(VOICE.open(self.request(body)), VOICE.checks)

    def asked(self, body: dict, stream: bool = False):
        return VOICE.read(VOICE.open(self.request(body, stream)))

    def pieces(self, body: dict, *steps: Step | str, stream: bool = True) -> list:
        asked = self.asked(body, stream)
        turn = tuple(Say(step) if isinstance(step, str) else step for step in steps)
        return VOICE.write(asked, turn, Mint(self.seed, asked.request.digest))

    def events(self, body: dict, *steps: Step | str) -> list[dict]:
        return [event(frame) for frame in self.pieces(body, *steps)]

    def reply(self, body: dict, *steps: Step | str) -> dict:
        """Answer plainly, and remember it."""
        (data,) = self.pieces(body, *steps, stream=False)
        reply = json.loads(data)
        self.made.append(Made(body, reply))
        return reply

    def output(self, body: dict, *steps: Step | str) -> list[dict]:
        return self.reply(body, *steps)["output"]

    def streamed(self, body: dict, *steps: Step | str) -> list[dict]:
        """Answer in a stream, remember it, and return the items as a reader of the stream takes them."""
        events = self.events(body, *steps)
        self.made.append(Made(body, events[-1]["response"]))
        return [one["item"] for one in events if one["type"] == "response.output_item.done"]


def event(frame: bytes) -> dict:
    """Read one event, and make sure that its name is said twice and its end is a blank line."""
    name, data, *rest = frame.decode().split("\n")
    found = json.loads(data.removeprefix("data: "))
    assert name == f"event: {found['type']}"
    assert rest == ["", ""]
    return found


def user(text: str = "Hello") -> dict:
    return {"role": "user", "content": text}


def assistant(text: str = "Hi", **more) -> dict:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}], **more}


def call(id: str = "call_1", name: str = "weather", arguments: str = "{}", **more) -> dict:
    return {"type": "function_call", "call_id": id, "name": name, "arguments": arguments, **more}


def output(id: str = "call_1", text: str = "12", **more) -> dict:
    return {"type": "function_call_output", "call_id": id, "output": text, **more}


def results(items: list[dict]) -> list[dict]:
    """An output for every call among the items."""
    kinds = {"function_call": "function_call_output", "custom_tool_call": "custom_tool_call_output"}
    return [
        {"type": kinds[item["type"]], "call_id": item["call_id"], "output": "done"}
        for item in items
        if item["type"] in kinds
    ]


def without(item: dict, *keys: str) -> dict:
    return {key: value for key, value in item.items() if key not in keys}
