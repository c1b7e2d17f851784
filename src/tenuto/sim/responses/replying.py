"""The response object: what was asked, said back, and what came of it; each provider with its own set of keys."""

from __future__ import annotations

from typing import Any

from tenuto.sim.asked import Asked
from tenuto.sim.mint import Mint
from tenuto.sim.responses.models import Model, model_of
from tenuto.sim.responses.planning import Plan
from tenuto.sim.script import RunCode, Search

__all__ = ["Reply", "count"]

_NO_IMAGES = {
    "input_tokens": 0, "input_tokens_details": {"image_tokens": 0, "text_tokens": 0}, "output_tokens": 0,
    "output_tokens_details": {"image_tokens": 0, "text_tokens": 0}, "total_tokens": 0,
}  # fmt: skip
_SAFE = {"filtered": False, "severity": "safe"}


def count(asked: Asked) -> dict[str, Any]:
    """Answer how many tokens a request has."""
    return {"object": "response.input_tokens", "input_tokens": asked.prompt_tokens}


class Reply:
    """A response at its beginning (`begun`) and at its end (`ended`)."""

    def __init__(self, asked: Asked, told: Plan, mint: Mint) -> None:
        self._asked = asked
        self._told = told
        self._style = asked.request.style.name
        self._said_back = _said_back(asked)
        self._usage = self._used(mint)

    def begun(self) -> dict[str, Any]:
        """The response when nothing of it is there yet."""
        return self._whole("in_progress", [], {"service_tier": self._tier("auto")})

    def ended(self, *, billed: bool = False) -> dict[str, Any]:
        """The response when it is over. Only a plain body says who pays."""
        told = self._told
        changed: dict[str, Any] = {"usage": self._usage}
        if told.status == "completed":
            changed["completed_at"] = told.made + told.took
        if told.reason:
            changed["incomplete_details"] = {"reason": told.reason}
        if self._style == "azure":
            changed["content_filters"] = [_filtered(self._asked.prompt_tokens)]
        if told.status != "failed":
            output = [item.done for item in told.items]
            return self._whole(told.status, output, changed) | self._payer(billed)
        return self._whole("failed", [], {})

    def failed(self, code: str, message: str) -> dict[str, Any]:
        """The response that came to nothing."""
        return self._whole("failed", [], {"error": {"code": code, "message": message}})

    def _payer(self, billed: bool) -> dict[str, Any]:
        return {"billing": {"payer": "developer"}} if billed and self._style == "openai" else {}

    def _tier(self, word: str) -> str:
        asked = self._asked.request.body.get("service_tier")
        return asked if isinstance(asked, str) else word

    def _whole(self, status: str, output: list[dict[str, Any]], changed: dict[str, Any]) -> dict[str, Any]:
        told = self._told
        head = {"id": told.id, "object": "response", "created_at": told.made, "status": status}
        fixed = {
            "completed_at": None, "error": None, "incomplete_details": None, "output": output,
            "service_tier": self._tier("default"), "usage": None,
        }  # fmt: skip
        return head | self._said_back | fixed | changed

    def _used(self, mint: Mint) -> dict[str, Any]:
        told, prompt = self._told, self._asked.prompt_tokens
        cached = mint.random.choice((0, prompt // 2, prompt)) // 128 * 128 if prompt >= 1024 else 0
        details = {"cached_tokens": cached}
        if self._style == "openai":
            details["cache_write_tokens"] = 0
        output = told.thought + told.written
        usage: dict[str, Any] = {
            "input_tokens": prompt,
            "input_tokens_details": details,
            "output_tokens": output,
            "output_tokens_details": {"reasoning_tokens": told.thought},
            "total_tokens": prompt + output,
        }
        if self._style == "xai":
            hosted = sum(isinstance(item.step, Search | RunCode) for item in told.items)
            usage |= {"num_sources_used": 0, "num_server_side_tools_used": hosted, "cost_in_usd_ticks": output * 25_000}
            usage["context_details"] = {"input_tokens": prompt, "output_tokens": output}
        return usage


def _filtered(prompt: int) -> dict[str, Any]:
    results = dict.fromkeys(("hate", "sexual", "violence", "self_harm"), _SAFE)
    return {
        "blocked": False,
        "source_type": "prompt",
        "content_filter_raw": [],
        "content_filter_results": results,
        "content_filter_offsets": {"start_offset": 0, "end_offset": prompt * 4, "check_offset": 0},
    }


def _said_back(asked: Asked) -> dict[str, Any]:
    """What a response repeats of its request, with what was left out filled in."""
    body, model = asked.request.body, model_of(asked.request)
    style = asked.request.style.name
    told: dict[str, Any] = {
        key: body.get(key)
        for key in (
            "instructions", "max_output_tokens", "max_tool_calls", "previous_response_id", "prompt_cache_key",
            "safety_identifier", "user",
        )
    }  # fmt: skip
    told |= {
        "background": body.get("background") is True,
        "frequency_penalty": 0.0,
        "presence_penalty": 0.0,
        "metadata": body.get("metadata") or {},
        "model": asked.request.named,
        "parallel_tool_calls": asked.parallel,
        "reasoning": _reasoning(asked, model),
        "store": body.get("store") is not False and style != "deepseek",
        "temperature": _given(body.get("temperature"), 0.7 if style == "xai" else 1.0),
        "text": _text(body.get("text") or {}, style),
        "tool_choice": body.get("tool_choice") or "auto",
        "tools": [_tool(tool) for tool in body.get("tools") or []],
        "top_logprobs": _given(body.get("top_logprobs"), 0),
        "top_p": _given(body.get("top_p"), model.top_p),
        "truncation": body.get("truncation") or "disabled",
    }
    if style != "xai":
        told |= {"moderation": None, "prompt_cache_retention": body.get("prompt_cache_retention")}
    if style in ("azure", "deepseek"):
        told["content_filters"] = None
    if style == "openai":
        told["tool_usage"] = {"image_gen": _NO_IMAGES, "web_search": {"num_requests": 0}}
    if body.get("conversation") is not None and style == "openai":
        named = body["conversation"]
        told["conversation"] = named if isinstance(named, dict) else {"id": named}
    return told


def _given(value: Any, otherwise: float) -> Any:
    return otherwise if value is None else value


def _reasoning(asked: Asked, model: Model) -> dict[str, Any]:
    given = asked.request.body.get("reasoning") or {}
    summary = given.get("summary")
    told = {"effort": given.get("effort") or model.effort, "summary": "detailed" if summary == "auto" else summary}
    if asked.request.style.name in ("xai", "deepseek"):
        return told
    turns = "current_turn" if model.all_turns is False else "all_turns"
    return {"context": given.get("context") or (turns if model.reasons else None)} | told | {"mode": "standard"}


def _text(given: dict[str, Any], style: str) -> dict[str, Any]:
    format = given.get("format")
    told = dict(format) if isinstance(format, dict) else {"type": "text"}
    if told.get("type") == "json_schema":
        told = {"type": "json_schema", "description": None, "strict": False} | told
    if style == "xai":
        return {"format": told}
    return {"format": told, "verbosity": given.get("verbosity") or (None if style == "deepseek" else "medium")}


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    kind = tool.get("type")
    if kind == "function":
        return {"type": kind, "description": None, "name": tool["name"], "parameters": None, "strict": True} | tool
    if isinstance(kind, str) and kind.startswith("web_search"):
        where = {"type": "approximate", "city": None, "country": "US", "region": None, "timezone": None}
        return {"type": kind, "search_context_size": "medium", "user_location": where} | tool
    return tool
