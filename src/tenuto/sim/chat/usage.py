"""What an answer cost, in each provider's words."""

from __future__ import annotations

from typing import Any

import msgspec

from tenuto.sim.asked import Asked

__all__ = ["Cost", "cost", "usage"]

_OPENAI = ("openai", "azure", "chat", "meta", "vertex")
_PLAIN = ("ollama", "nvidia", "vllm", "llamacpp", "lmstudio", "cohere", "huggingface", "sambanova")


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens of the prompt, of those the cached ones, of the answer and of what was thought."""

    prompt: int
    cached: int
    answer: int
    thought: int

    @property
    def completion(self) -> int:
        """All that was written."""
        return self.answer + self.thought


def cost(asked: Asked, answer: int, thought: int) -> Cost:
    """Return what an answer cost. From the second turn on, a long prompt comes in part from a cache."""
    prompt = asked.prompt_tokens
    cached = prompt * 3 // 4 // 64 * 64 if asked.turn and prompt >= 256 else 0
    return Cost(prompt=prompt, cached=cached, answer=answer, thought=thought)


def usage(style: str, spent: Cost, *, done: bool = True) -> dict[str, Any]:
    """Say it as a style does, at the end or while it goes on."""
    told = {
        "prompt_tokens": spent.prompt,
        "completion_tokens": spent.completion,
        "total_tokens": spent.prompt + spent.completion,
    }
    if style in _PLAIN:
        return told
    if style == "together":
        return {**told, "cached_tokens": spent.cached}
    if style in _OPENAI:
        return {
            **told,
            "prompt_tokens_details": {"cached_tokens": spent.cached, "audio_tokens": 0},
            "completion_tokens_details": {
                "reasoning_tokens": spent.thought,
                "audio_tokens": 0,
                "accepted_prediction_tokens": 0,
                "rejected_prediction_tokens": 0,
            },
        }
    if style == "perplexity":
        return {**told, "search_context_size": "low", "cost": _perplexity(spent, done=done)}
    return {**told, **_own(style, spent)}


def _own(style: str, spent: Cost) -> dict[str, Any]:
    cached = {"prompt_tokens_details": {"cached_tokens": spent.cached}}
    thought = {"completion_tokens_details": {"reasoning_tokens": spent.thought}}
    match style:
        case "deepseek":
            told = {"prompt_cache_hit_tokens": spent.cached, "prompt_cache_miss_tokens": spent.prompt - spent.cached}
            return {**cached, **told, **(thought if spent.thought else {})}
        case "mistral":
            return cached
        case "moonshot":
            return {"cached_tokens": spent.cached, **cached, **thought}
        case "alibaba":
            return {**cached, **(thought if spent.thought else {})}
        case "groq":
            return _groq(spent)
        case "xai":
            return _xai(spent)
        case "openrouter":
            return _openrouter(spent)
    return {**cached, **thought}


def _groq(spent: Cost) -> dict[str, Any]:
    before, writing = spent.prompt / 50_000, spent.completion / 500
    times = {
        "queue_time": 0.018265729,
        "prompt_time": before,
        "completion_time": writing,
        "total_time": before + writing,
    }
    return {**times, **({"completion_tokens_details": {"reasoning_tokens": spent.thought}} if spent.thought else {})}


def _xai(spent: Cost) -> dict[str, Any]:
    """The tokens of the answer leave out what was thought; the total counts it."""
    return {
        "completion_tokens": spent.answer,
        "prompt_tokens_details": {
            "text_tokens": spent.prompt,
            "audio_tokens": 0,
            "image_tokens": 0,
            "cached_tokens": spent.cached,
        },
        "completion_tokens_details": {
            "reasoning_tokens": spent.thought,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
        "num_sources_used": 0,
        "cost_in_usd_ticks": spent.prompt * 300 + spent.completion * 5000,
    }


def _openrouter(spent: Cost) -> dict[str, Any]:
    prompt, completion = spent.prompt * 1e-6, spent.completion * 5e-6
    total = round(prompt + completion, 9)
    return {
        "cost": total,
        "is_byok": False,
        "prompt_tokens_details": {
            "cached_tokens": spent.cached,
            "cache_write_tokens": 0,
            "audio_tokens": 0,
            "video_tokens": 0,
        },
        "cost_details": {
            "upstream_inference_cost": total,
            "upstream_inference_prompt_cost": round(prompt, 9),
            "upstream_inference_completions_cost": round(completion, 9),
        },
        "completion_tokens_details": {"reasoning_tokens": spent.thought, "image_tokens": 0, "audio_tokens": 0},
    }


def _perplexity(spent: Cost, *, done: bool) -> dict[str, Any]:
    """What the request itself costs is said at the end."""
    put, out, fee = round(spent.prompt * 1e-6, 6), round(spent.completion * 1e-6, 6), 0.005 if done else 0
    costs = {"input_tokens_cost": put, "output_tokens_cost": out, **({"request_cost": fee} if done else {})}
    return {**costs, "total_cost": round(put + out + fee, 6)}
