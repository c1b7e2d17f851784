"""How each provider writes the same answer: its ids, its fields, and where it puts things. One row a style."""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec

from tenuto.sim.mint import BASE62, Mint

__all__ = ["Habits", "filled", "habits"]

_SLOT = re.compile(r"\{([whdlu])(\d*)\}")
_LOWER = "0123456789abcdefghijklmnopqrstuvwxyz"


class Habits(msgspec.Struct, frozen=True, kw_only=True):
    """What is peculiar to a style. In texts `{w9}` are nine letters and digits, `{l9}` lower ones, `{h9}` hex digits,
    `{d9}` digits and `{u}` is a uuid.
    """

    id: str = "chatcmpl-{w29}"
    call: str = "call_{w24}"
    top: dict[str, Any] = {}
    """Fields of bodies and chunks."""
    body: dict[str, Any] = {}
    """Fields of bodies."""
    choice: dict[str, Any] = {}
    """Fields of each choice."""
    message: dict[str, Any] = {}
    """Fields of a body's message, unless something is said about them."""
    silent: Literal["null", "empty", "absent"] = "null"
    """What the content is when there are only calls."""
    every_role: bool = False
    """Whether each delta says whose it is, or only the first."""
    opening: bool = True
    """Whether the first chunk is empty."""
    beside: dict[str, Any] = {}
    """What stands beside reasoning in a delta."""
    after: dict[str, Any] = {}
    """What stands beside content in a delta, once there was reasoning."""
    last: dict[str, Any] = {}
    """The last delta."""
    open_end: bool = True
    """Whether a choice that goes on says that its finish reason is null."""
    whole: bool = False
    """Whether a call comes in one chunk."""
    indexed: bool = False
    """Whether the calls of a body have their index."""
    fragment: dict[str, Any] = {}
    """What each further piece of a call repeats."""
    usage: Literal["asked", "own", "final", "each", "groq", "openrouter"] = "asked"
    """Where a stream has its usage: a chunk of its own, if asked or always; the last chunk; each chunk."""
    nulls: Literal["never", "asked", "always"] = "never"
    """Whether the other chunks say that their usage is null."""
    padded: str = ""
    """A field of noise in each chunk."""
    refusals: bool = False
    """Whether a refusal has a field of its own."""
    sources: Literal["annotations", "citations", "text"] = "text"
    """Where sources stand."""
    filtered: str = "content_filter"
    """How an answer ends that was filtered."""


def filled(value: Any, mint: Mint) -> Any:
    """Fill the slots of a text, or of the texts in an object."""
    if isinstance(value, dict):
        return {name: filled(inner, mint) for name, inner in value.items()}
    return _SLOT.sub(lambda slot: _word(slot, mint), value) if isinstance(value, str) else value


def _word(slot: re.Match[str], mint: Mint) -> str:
    size = int(slot[2] or 32)
    match slot[1]:
        case "w":
            return mint.word(size, BASE62)
        case "l":
            return mint.word(size, _LOWER)
        case "d":
            return mint.word(size, "0123456789")
        case "h":
            return mint.hex(size)
    word = mint.hex(32)
    return f"{word[:8]}-{word[8:12]}-4{word[13:16]}-a{word[17:20]}-{word[20:]}"


_PRINT = {"system_fingerprint": "fp_{h10}"}
_LOGPROBS = {"logprobs": None}
_TEXT = {"content": ""}
_SAFE = {"filtered": False, "severity": "safe"}
_JAILBREAK = {"jailbreak": {"detected": False, "filtered": False}}
_CATEGORIES = {"hate": _SAFE, **_JAILBREAK, "self_harm": _SAFE, "sexual": _SAFE, "violence": _SAFE}

_HABITS = {
    "chat": Habits(refusals=True, sources="annotations"),
    "openai": Habits(
        top={"service_tier": "default", **_PRINT},
        choice=_LOGPROBS,
        message={"refusal": None, "annotations": []},
        nulls="asked",
        padded="obfuscation",
        refusals=True,
        sources="annotations",
    ),
    "azure": Habits(
        top=_PRINT,
        body={"prompt_filter_results": [{"prompt_index": 0, "content_filter_results": _CATEGORIES}]},
        choice={"content_filter_results": {}, **_LOGPROBS},
        message={"refusal": None, "annotations": []},
        nulls="asked",
        padded="obfuscation",
        refusals=True,
        sources="annotations",
    ),
    "deepseek": Habits(
        id="{u}",
        call="call_{at}_{w24}",
        top={"system_fingerprint": "fp_{h10}_prod0820_fp8_kvcache_20260402"},
        choice=_LOGPROBS,
        silent="empty",
        beside={"content": None},
        after={"reasoning_content": None},
        last=_TEXT,
        indexed=True,
        usage="final",
        nulls="asked",
    ),
    "moonshot": Habits(
        id="chatcmpl-{w24}",
        call="functions.{name}:{nth}",
        top={"system_fingerprint": "fpv0_{h8}"},
        silent="empty",
        usage="final",
    ),
    "mistral": Habits(
        id="{h32}",
        call="{w9}",
        message={"tool_calls": None},
        silent="empty",
        last=_TEXT,
        whole=True,
        indexed=True,
        usage="final",
        padded="p",
        filtered="error",
    ),
    "groq": Habits(
        id="chatcmpl-{u}",
        call="{l9}",
        top=_PRINT,
        body={
            "usage_breakdown": None,
            "service_tier": "on_demand",
            "x_groq": {"id": "req_01{l24}", "seed": 1367355884},
        },
        choice=_LOGPROBS,
        silent="absent",
        whole=True,
        usage="groq",
    ),
    "xai": Habits(
        id="{u}",
        call="call_{d8}",
        top=_PRINT,
        message={"refusal": None},
        silent="empty",
        opening=False,
        open_end=False,
        whole=True,
        usage="own",
        refusals=True,
    ),
    "zai": Habits(
        id="2026{d13}{h13}",
        call="call_{d19}",
        body={"request_id": "2026{d13}{h13}"},
        silent="empty",
        every_role=True,
        opening=False,
        last=_TEXT,
        open_end=False,
        whole=True,
        indexed=True,
        usage="final",
        filtered="sensitive",
    ),
    "alibaba": Habits(
        id="chatcmpl-{u}",
        call="call_{h24}",
        top={"system_fingerprint": None},
        choice=_LOGPROBS,
        silent="empty",
        beside={"content": None},
        after={"reasoning_content": None},
        indexed=True,
        fragment={"id": "", "type": "function"},
        nulls="always",
    ),
    "minimax": Habits(id="{h32}", call="call_function_{l12}_{nth}", silent="empty", usage="final"),
    "openrouter": Habits(
        id="gen-{created}-{w20}",
        top={"provider": "{provider}"},
        body={"system_fingerprint": None, "service_tier": None},
        choice={"native_finish_reason": None, **_LOGPROBS},
        message={"refusal": None, "reasoning": None},
        every_role=True,
        beside=_TEXT,
        last=_TEXT,
        indexed=True,
        usage="openrouter",
        refusals=True,
        sources="annotations",
    ),
    "perplexity": Habits(
        id="{u}",
        every_role=True,
        opening=False,
        last=_TEXT,
        open_end=False,
        silent="empty",
        usage="each",
        sources="citations",
    ),
    "together": Habits(
        id="{w7}-{w6}-{h16}",
        call="call_{l24}",
        body={"prompt": []},
        choice={"seed": None, **_LOGPROBS},
        message={"tool_calls": []},
        every_role=True,
        opening=False,
        last=_TEXT,
        indexed=True,
        usage="final",
        nulls="always",
    ),
    "ollama": Habits(
        id="chatcmpl-{d3}",
        call="call_{l8}",
        top={"system_fingerprint": "fp_ollama"},
        silent="empty",
        every_role=True,
        opening=False,
        beside=_TEXT,
        last=_TEXT,
        whole=True,
        indexed=True,
    ),
    "cerebras": Habits(
        id="chatcmpl-{u}",
        call="{h9}",
        top={"system_fingerprint": "fp_{h20}"},
        body={
            "time_info": {
                "queue_time": 0.009865184,
                "prompt_time": 0.003222294,
                "completion_time": 0.017301406,
                "total_time": 0.08368825912475586,
                "created": 1781275708.328,
            }
        },
        silent="absent",
        usage="final",
    ),
    "huggingface": Habits(
        id="chatcmpl-{h32}",
        call="call_{h24}",
        top={"system_fingerprint": ""},
        choice=_LOGPROBS,
        message={"tool_calls": []},
        silent="empty",
        indexed=True,
    ),
    "nvidia": Habits(
        id="chat-{h32}",
        call="chatcmpl-tool-{h32}",
        body={"prompt_logprobs": None},
        choice={"stop_reason": None, **_LOGPROBS},
        every_role=True,
        last=_TEXT,
        whole=True,
        usage="each",
    ),
    "cohere": Habits(id="{u}", call="{name}_{l12}"),
    "fireworks": Habits(id="{u}", usage="final"),
    "vllm": Habits(id="chatcmpl-{h32}", call="chatcmpl-tool-{h32}", choice=_LOGPROBS),
    "lmstudio": Habits(id="chatcmpl-{l21}", call="{d9}", choice=_LOGPROBS),
    "llamacpp": Habits(id="chatcmpl-{w32}", call="{w32}", top={"system_fingerprint": "b6{d3}-{h8}"}),
    "sambanova": Habits(id="{u}", call="call_{h18}", usage="own"),
}


def habits(style: str) -> Habits:
    """Return the habits of a style; the plain ones if it has none of its own."""
    return _HABITS.get(style) or _HABITS["chat"]
