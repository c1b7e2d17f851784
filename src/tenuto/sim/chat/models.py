"""What the models of each provider do unasked, as far as rules and replies hang on it."""

from __future__ import annotations

import re
from typing import Any

from tenuto.sim.asked import Style

__all__ = [
    "FORMATS",
    "SIGNED",
    "effort",
    "family",
    "is_openai_reasoner",
    "matches",
    "thinks",
    "told",
    "vendor",
    "version",
]

_IDLE = r"gpt-5\.(?:1(?!-[a-z])|[2-4](?!-pro|-codex|-chat)|3-codex).*"
"""The reasoning models of OpenAI's that make no effort unless they are asked for one."""
_REASONERS = r"(?:o\d|gpt-5(?!-chat|-search)|gpt-[6-9]|(?:gpt-)?chat-latest|(?:gpt-)?daybreak|gpt-rosalind|codex-mini|computer-use).*"
_THINKING = {
    "deepseek": r"deepseek-(?:flash|pro|reasoner|r1|v4).*",
    "moonshot": r"kimi-(?:k2\.[6-9]|k[3-9]|k2-thinking|thinking).*",
    "zai": r"(?i:glm-(?:4\.[5-9]|[5-9]).*)",
    "alibaba": r"(?!.*-instruct)(?:qwen3-(?:\d.*|.*thinking.*)|qwen3\.[5-9](?!-omni).*|qwq.*)",
    "minimax": r".*",
    "xai": r"grok-(?:3-mini|[4-9](?!.*non-reasoning)|build|code).*",
    "mistral": r"magistral-.*",
    "groq": r".*(?:gpt-oss|qwen3|qwen-3|deepseek-r1|compound).*",
    "openai": rf"(?!{_IDLE}$){_REASONERS}",
    "openrouter": r"(?:openai/(?:o\d|gpt-5|gpt-[6-9])|google/gemini-(?:2\.5-pro|[3-9])|deepseek/deepseek-(?:r1|v4)"
    r"|moonshotai/kimi-(?:k2\.[6-9]|k[3-9]|k2-thinking)|z-ai/glm-(?:4\.[5-9]|[5-9])|minimax/|x-ai/grok-4).*|.*:thinking",
}
"""The models that think unless they are told not to, by style."""
_ELSEWHERE = r"(?i:.*(?:-r1|gpt-oss|thinking|qwq|qwen-?3|glm-[45]|kimi-k[23]|minimax|deepseek-v4|magistral).*)"
SIGNED = r"google/gemini-[3-9].*"
"""The models of OpenRouter that want the token of a call back."""
FORMATS = {"anthropic": "anthropic-claude-v1", "google": "google-gemini-v1", "openai": "openai-responses-v1"}
"""The forms of OpenRouter's reasoning details that hold a token, by the vendor of the model."""
_VERSION = re.compile(r"\d+(?:\.\d+)?")


def matches(pattern: str, model: str) -> bool:
    """Tell whether a whole id fits a pattern."""
    return re.fullmatch(pattern, model) is not None


def version(model: str) -> float:
    """Return the first number in an id: 5.4 for `gpt-5.4-mini`. 0 if there is none."""
    found = _VERSION.search(model)
    return float(found[0]) if found else 0.0


def vendor(model: str) -> str:
    """Return whose model it is, by an id of OpenRouter; empty if none is named."""
    return model.lstrip("~").partition("/")[0] if "/" in model else ""


def family(model: str) -> str:
    """Return the form of reasoning details that a model of OpenRouter gives; of no model in particular, Claude's."""
    if not model:
        return FORMATS["anthropic"]
    return FORMATS.get(vendor(model), "unknown")


def is_openai_reasoner(model: str) -> bool:
    """Tell whether it is one of OpenAI's reasoning models, whatever effort it makes unasked."""
    return matches(_REASONERS, model)


def effort(model: str, body: dict[str, Any]) -> str:
    """Return the effort that one of OpenAI's reasoning models makes: what is asked for, or its own default."""
    asked = body.get("reasoning_effort")
    if isinstance(asked, str):
        return asked
    return "none" if matches(_IDLE, model) else "medium"


def thinks(style: Style, model: str, body: dict[str, Any]) -> bool:
    """Tell whether the model thinks in this request."""
    said = told(body)
    if said is not None:
        return said
    if not model:
        return style.thinks
    name = "openai" if style.name in ("azure", "meta") else style.name
    return matches(_THINKING.get(name, _ELSEWHERE), model)


def told(body: dict[str, Any]) -> bool | None:
    """Return what the request itself says of thinking, in any provider's words; None if nothing."""
    found: Any = body.get("thinking")
    if isinstance(found, dict) and isinstance(found.get("type"), str):
        return bool(found["type"] != "disabled")
    for value in (body.get("enable_thinking"), _inside(body, "chat_template_kwargs", "enable_thinking", "thinking")):
        if isinstance(value, bool):
            return value
    if isinstance(found := _inside(body, "reasoning", "enabled"), bool):
        return found
    found = body.get("reasoning_effort") or _inside(body, "reasoning", "effort")
    if isinstance(found, str):
        return found != "none"
    if isinstance(body.get("disable_reasoning"), bool):
        return not body["disable_reasoning"]
    if _inside(body, "reasoning", "max_tokens") or body.get("prompt_mode") == "reasoning":
        return True
    return None


def _inside(body: dict[str, Any], key: str, *names: str) -> Any:
    inner = body.get(key)
    if not isinstance(inner, dict):
        return None
    return next((inner[name] for name in names if inner.get(name) is not None), None)
