"""The providers that can be played, one row for each dialect that a provider speaks."""

from __future__ import annotations

import re

from tenuto.core.provider import Dialect
from tenuto.sim.asked import Style

__all__ = ["ALIASES", "STYLES", "exists", "find"]

_DATE = r"(?:-\d{4}-\d\d-\d\d|-\d{4})?"
_OPENAI = (
    rf"(?:ft:)?(?:gpt-(?:3\.5|4|4o|4\.1|4\.5|5|5\.\d|6|6\.\d|chat|audio|image|realtime|rosalind)"
    rf"|o[1-9]|chatgpt-4o|chat|codex|computer-use|(?:gpt-)?daybreak)"
    rf"(?:-(?:mini|nano|pro|turbo|codex|max|chat|latest|preview|search|api|audio|vision|instruct|image|deep|research"
    rf"|discovery|sol|terra|luna|astra|cyber|rosalind|red|blue|16k|32k|\d(?:\.\d)?))*{_DATE}(?:-preview)?(?::.*)?"
)
_GEMINI = r"(?:gemini|gemma|learnlm|imagen|veo|nano-banana|lyria|deep-research)(?:-.*)?"
_CLAUDE = r"claude-.*"
_DEEPSEEK = r"deepseek-(?:chat|reasoner|pro|flash|r1.*|v[34](?:\.\d)?(?:-(?:flash|pro|exp|terminus|vision-exp|\d{4}))*)(?:-\d{4})?"
_XAI = r"grok-(?:\d|build|code|latest|voice).*"
_MISTRAL = r"(?:mistral|magistral|codestral|devstral|ministral|pixtral|voxtral|mixtral|open-mi[sx]tral|labs)-.*|(?:zai-)?glm-(?:5|latest).*"

_MESSAGES = (
    Style(name="anthropic", dialect="anthropic-messages", envelope="anthropic", models=_CLAUDE),
    Style(name="deepseek", dialect="anthropic-messages", envelope="deepseek", models=f"{_DEEPSEEK}|{_CLAUDE}"),
    Style(name="vertex", dialect="anthropic-messages", envelope="anthropic", models=_CLAUDE),
)
_RESPONSES = (
    Style(name="openai", dialect="openai-responses", envelope="openai", models=_OPENAI),
    Style(name="azure", dialect="openai-responses", envelope="azure"),
    Style(name="xai", dialect="openai-responses", envelope="xai", models=_XAI, window=500_000),
    Style(name="deepseek", dialect="openai-responses", envelope="deepseek", models=_DEEPSEEK),
    Style(name="meta", dialect="openai-responses", envelope="openai", models="muse-.*"),
    Style(name="perplexity", dialect="openai-responses", envelope="perplexity"),
    Style(name="ollama", dialect="openai-responses", envelope="ollama", window=131_072),
    Style(name="lmstudio", dialect="openai-responses", envelope="openai", window=131_072),
    Style(name="vllm", dialect="openai-responses", envelope="openai", window=131_072),
)
_GENERATE = (
    Style(name="gemini", dialect="gemini", envelope="google", models=_GEMINI, window=1_048_576),
    Style(name="vertex", dialect="gemini", envelope="google", models=_GEMINI, window=1_048_576),
)


_CHAT = (
    Style(name="chat", dialect="openai-chat", envelope="openai", reasoning="reasoning_content"),
    Style(name="openai", dialect="openai-chat", envelope="openai", models=_OPENAI, thinks=False, window=400_000),
    Style(name="azure", dialect="openai-chat", envelope="azure", thinks=False, window=400_000),
    Style(
        name="deepseek",
        dialect="openai-chat",
        envelope="deepseek",
        models=_DEEPSEEK,
        reasoning="reasoning_content",
    ),
    Style(
        name="moonshot",
        dialect="openai-chat",
        envelope="moonshot",
        models=r"(?:kimi|moonshot)-.*",
        reasoning="reasoning_content",
        call_id="functions",
        window=262_144,
    ),
    Style(
        name="mistral",
        dialect="openai-chat",
        envelope="mistral",
        models=_MISTRAL,
        reasoning="chunks",
        thinks=False,
        call_id="nine",
        window=262_144,
    ),
    Style(
        name="groq",
        dialect="openai-chat",
        envelope="groq",
        models=r"[\w./-]*(?:llama|gpt-oss|qwen|compound|kimi|gemma|mixtral|mistral|deepseek|allam|orpheus).*",
        reasoning="reasoning",
        thinks=False,
        call_id="nine",
        window=131_072,
    ),
    Style(
        name="xai",
        dialect="openai-chat",
        envelope="xai",
        models=_XAI,
        reasoning="reasoning_content",
        window=500_000,
    ),
    Style(name="zai", dialect="openai-chat", envelope="zai", models="(?i:glm-.*)", reasoning="reasoning_content"),
    Style(
        name="alibaba",
        dialect="openai-chat",
        envelope="alibaba",
        models=r"(?:qwen|qwq|qvq|deepseek|kimi|glm|MiniMax).*",
        reasoning="reasoning_content",
        thinks=False,
    ),
    Style(name="minimax", dialect="openai-chat", envelope="minimax", models="(?i:minimax|m2-her).*", reasoning="tags"),
    Style(
        name="openrouter",
        dialect="openai-chat",
        envelope="openrouter",
        reasoning="reasoning_details",
        thinks=False,
    ),
    Style(
        name="perplexity",
        dialect="openai-chat",
        envelope="perplexity",
        models=r"(?:sonar|r1-1776|pplx-|llama-3\.1-sonar).*",
        reasoning="tags",
        thinks=False,
        window=127_072,
    ),
    Style(
        name="cohere",
        dialect="openai-chat",
        envelope="cohere",
        models=r"(?:command|c4ai).*",
        thinks=False,
        window=288_000,
    ),
    Style(name="meta", dialect="openai-chat", envelope="openai", models="muse-.*", thinks=False),
    Style(name="vertex", dialect="openai-chat", envelope="google", error_list=True, thinks=False),
    Style(name="together", dialect="openai-chat", envelope="openai", reasoning="reasoning", thinks=False),
    Style(name="fireworks", dialect="openai-chat", envelope="fireworks", reasoning="reasoning_content", thinks=False),
    *(
        Style(
            name=name,
            dialect="openai-chat",
            envelope="openai",
            reasoning="reasoning",
            thinks=False,
            call_id="nine" if name == "cerebras" else "call",
            window=131_072,
        )
        for name in ("cerebras", "sambanova", "vllm")
    ),
    Style(
        name="ollama",
        dialect="openai-chat",
        envelope="ollama",
        reasoning="reasoning",
        thinks=False,
        window=131_072,
    ),
    *(
        Style(name=name, dialect="openai-chat", envelope="openai", reasoning="reasoning_content", thinks=False)
        for name in ("nvidia", "huggingface", "lmstudio", "llamacpp")
    ),
)

STYLES: tuple[Style, ...] = (*_MESSAGES, *_RESPONSES, *_GENERATE, *_CHAT)
ALIASES = {
    "google": "gemini",
    "google-vertex": "vertex",
    "vertex_ai": "vertex",
    "open_ai": "openai",
    "x-ai": "xai",
    "moonshotai": "moonshot",
    "kimi": "moonshot",
    "z-ai": "zai",
    "dashscope": "alibaba",
    "qwen": "alibaba",
    "together_ai": "together",
    "fireworks_ai": "fireworks",
    "hf": "huggingface",
    "lm-studio": "lmstudio",
    "llama-cpp": "llamacpp",
}
"""Other names of the same styles."""
_BY_NAME = {(style.name, style.dialect): style for style in STYLES}
_DEFAULTS = {style.dialect: style for style in reversed(STYLES)}
"""The style of a model that no other style claims: the first one of each dialect."""
_MAKERS = tuple(
    (re.compile(pattern, re.IGNORECASE), name)
    for pattern, name in (
        (r"deepseek-(?!r1-distill)", "deepseek"),
        (r"kimi-|moonshot-", "moonshot"),
        (r"(?:mistral|magistral|codestral|devstral|ministral|pixtral|voxtral|open-mi[sx]tral)-", "mistral"),
        (r"gpt-(?!oss)|o\d(?:-|$)|chatgpt-|codex-|computer-use|ft:gpt", "openai"),
        (r"grok-", "xai"),
        (r"glm-", "zai"),
        (r"qwen|qwq-|qvq-", "alibaba"),
        (r"minimax-|m2-her", "minimax"),
        (r"sonar(?:-|$)|r1-1776", "perplexity"),
        (r"command(?:-|$)|c4ai-", "cohere"),
        (r"muse-", "meta"),
        (r"accounts/fireworks/", "fireworks"),
        (r"openai/gpt-oss-|meta-llama/llama-|llama-3\.[13]-(?:8b-instant|70b-versatile)|compound(?:-|$)", "groq"),
    )
)


def find(named: str, dialect: Dialect) -> tuple[Style, str]:
    """Find whose part a model's name asks for, at an endpoint of a dialect; and the real model, empty if none is named.

    `deepseek` and `deepseek/deepseek-v4-pro` name a style. Any other name is a model: of its maker, if it is played here
    and the name tells, and else of the style at home here.
    """
    named = named.removeprefix("models/")
    first, _, rest = named.partition("/")
    style = _BY_NAME.get((ALIASES.get(first, first), dialect))
    if style and exists(style, rest):
        return style, rest
    maker = _BY_NAME.get((next((name for pattern, name in _MAKERS if pattern.match(named)), ""), dialect))
    if maker or not style:
        return maker or _DEFAULTS[dialect], named
    return style, rest


def exists(style: Style, model: str) -> bool:
    """Tell whether a provider has such a model; one that is not named always exists."""
    return not model or re.fullmatch(style.models, model) is not None
