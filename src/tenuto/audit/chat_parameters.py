"""What can be seen in the fields of a chat request beside its messages."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tenuto.audit.chat_reading import asked_to_think, case, forced, listed, messages, pictures, text
from tenuto.audit.looking import Broken, Checks, Sent

__all__ = ["PARAMETERS"]

PARAMETERS = Checks()

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_LONGEST = {"tools": 128, "stop": 4}
_PENALTIES = ("presence_penalty", "frequency_penalty")
_KNOWN_FIELDS = {
    "messages", "model", "stream", "stream_options", "tools", "tool_choice", "parallel_tool_calls", "functions",
    "function_call", "response_format", "max_tokens", "max_completion_tokens", "temperature", "top_p", "top_k",
    "min_p", "typical_p", "frequency_penalty", "presence_penalty", "repetition_penalty", "mirostat_lr",
    "mirostat_target", "logit_bias", "logprobs", "top_logprobs", "n", "stop", "seed", "user", "metadata",
    "reasoning_effort", "reasoning_history", "thinking", "prompt_cache_key", "prompt_cache_isolation_key",
    "prompt_truncate_len", "context_length_exceeded_behavior", "echo", "echo_last", "ignore_eos",
    "perf_metrics_in_response", "prediction", "speculation", "raw_output", "return_token_ids", "sampling_mask",
    "safe_tokenization", "service_tier", "chat_template_kwargs",
}  # fmt: skip
"""What the SDK of the host that refuses unknown fields can send, and later additions."""
_KNOWN_KEYS = {"role", "content", "name", "reasoning_content", "tool_calls", "tool_call_id", "function_call"}


def _is_there(sent: Sent, name: str) -> bool:
    return sent.body.get(name) is not None


def _effort(sent: Sent) -> str:
    """The effort that is asked for, or else the one that the model makes by itself."""
    word = sent.body.get("reasoning_effort")
    return word if isinstance(word, str) else sent.target.traits.effort_default


# --- sampling and limits ----------------------------------------------------------------------------------------------


@PARAMETERS.holds("OAC-OAI-05")
def _old_limit(sent: Sent) -> Iterator[Broken]:
    if _is_there(sent, "max_tokens"):
        yield Broken("OAC-OAI-05")


@PARAMETERS.holds("OAC-OAI-06")
def _sampling(sent: Sent) -> Iterator[Broken]:
    if _effort(sent) == "none":
        return
    for name in ("temperature", "top_p"):
        value = sent.body.get(name)
        if value is not None and value != 1:
            yield Broken("OAC-OAI-06", {"p": name, "v": value})
    for name in (*_PENALTIES, "logprobs", "top_logprobs", "logit_bias"):
        if sent.body.get(name):  # what is 0, false or empty is the default
            yield Broken("OAC-OAI-06", {"p": name}, variant=1)
    if _is_there(sent, "stop"):
        yield Broken("OAC-OAI-06", {"p": "stop"}, variant=1)


@PARAMETERS.holds("OAC-DS-06")
def _sampling_without_effect(sent: Sent) -> Iterator[Broken]:
    if asked_to_think(sent) is not False:
        for name in ("temperature", "top_p", *_PENALTIES):
            if _is_there(sent, name):
                yield Broken("OAC-DS-06", {"p": name})


@PARAMETERS.holds("OAC-KIMI-03")
def _one_temperature(sent: Sent) -> Iterator[Broken]:
    if _is_there(sent, "temperature") and sent.body["temperature"] != 1:
        yield Broken("OAC-KIMI-03")


@PARAMETERS.holds("OAC-GROQ-04")
def _unsupported(sent: Sent) -> Iterator[Broken]:
    wanted = sent.body.get("n")
    if isinstance(wanted, int) and wanted > 1:
        yield Broken("OAC-GROQ-04", {"p": "n"})
    if sent.body.get("logprobs"):
        yield Broken("OAC-GROQ-04", {"p": "logprobs"})
    for name in ("top_logprobs", "logit_bias"):
        if _is_there(sent, name):
            yield Broken("OAC-GROQ-04", {"p": name})
    for at, _ in (
        found for found in messages(sent, "system", "developer", "user", "assistant") if found[1].get("name")
    ):
        yield Broken("OAC-GROQ-04", {"p": "name"}, at=f"/messages/{at}/name")


@PARAMETERS.holds("OAC-XAI-01")
def _penalties(sent: Sent) -> Iterator[Broken]:
    for name, told in zip(_PENALTIES, ("presencePenalty", "frequencyPenalty"), strict=True):
        if _is_there(sent, name):
            yield Broken("OAC-XAI-01", {"model": sent.model, "p": told, "key": name})
    if _is_there(sent, "stop") and "non-reasoning" not in sent.model:  # so they call those that take it
        yield Broken("OAC-XAI-01", {"model": sent.model, "p": "stop", "key": "stop"})


@PARAMETERS.holds("OAC-TOG-01")
def _other_types(sent: Sent) -> Iterator[Broken]:
    odd = [name for name in ("max_completion_tokens", "stream_options", "parallel_tool_calls") if _is_there(sent, name)]
    odd += ["logprobs"] if isinstance(sent.body.get("logprobs"), bool) else []
    odd += ["stop"] if isinstance(sent.body.get("stop"), str) else []
    for name in odd:
        yield Broken("OAC-TOG-01", {"p": name})


@PARAMETERS.holds("OAC-FW-01")
def _unknown_fields(sent: Sent) -> Iterator[Broken]:
    for name, value in sent.body.items():
        if name not in _KNOWN_FIELDS:
            yield Broken("OAC-FW-01", {"path": name, "v": _shown(value), "at": _pointed(name)})
    for at, message in messages(sent):
        for name, value in message.items():
            if name not in _KNOWN_KEYS:
                fields = {"path": f"messages[{at}].{name}", "v": _shown(value), "at": f"messages/{at}/{_pointed(name)}"}
                yield Broken("OAC-FW-01", fields)


def _shown(value: object) -> str:
    """Spell a value the way the refusal does: a text in single quotes, what is long cut short."""
    word = {None: "null", True: "true", False: "false"}.get(value) if isinstance(value, bool | None) else None
    return word or repr(value)[:200]


def _pointed(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


# --- effort and thinking ----------------------------------------------------------------------------------------------


@PARAMETERS.holds("OAC-OAI-07")
def _tools_with_effort(sent: Sent) -> Iterator[Broken]:
    word = sent.body.get("reasoning_effort")
    refused = word != "none" if word is not None else case(sent, "OAC-OAI-07 effort-by-default")
    if refused and any(tool.get("type") == "function" for _, tool in listed(sent.body.get("tools"))):
        yield Broken("OAC-OAI-07", {"model": sent.model})


@PARAMETERS.holds("OAC-KIMI-04")
def _two_words_for_thinking(sent: Sent) -> Iterator[Broken]:
    if _is_there(sent, "thinking") and _is_there(sent, "reasoning_effort"):
        yield Broken("OAC-KIMI-04")


@PARAMETERS.holds("OAC-XAI-02")
def _effort_not_taken(sent: Sent) -> Iterator[Broken]:
    word = sent.body.get("reasoning_effort")
    if word is None:
        return
    if case(sent, "OAC-XAI-02 any") or (word in ("none", "xhigh") and case(sent, f"OAC-XAI-02 {word}")):
        yield Broken("OAC-XAI-02", {"model": sent.model})


@PARAMETERS.holds("OAC-ALI-01")
def _thinks_without_stream(sent: Sent) -> Iterator[Broken]:
    if sent.body.get("stream") is not True and asked_to_think(sent) is not False:
        yield Broken("OAC-ALI-01")


@PARAMETERS.holds("OAC-OR-03")
def _reasoning_left_out(sent: Sent) -> Iterator[Broken]:
    if sent.body.get("tools") and forced(sent) and _is_there(sent, "reasoning") and asked_to_think(sent):
        yield Broken("OAC-OR-03")


# --- tools ------------------------------------------------------------------------------------------------------------


@PARAMETERS.holds("OAC-OAI-09")
def _names_and_lengths(sent: Sent) -> Iterator[Broken]:
    for at, tool in listed(sent.body.get("tools")):
        function = tool.get("function")
        name = function.get("name") if isinstance(function, dict) else None
        if isinstance(name, str) and not _NAME.fullmatch(name):
            yield Broken("OAC-OAI-09", {"k": at})
    for name, most in _LONGEST.items():
        value = sent.body.get(name)
        if isinstance(value, list) and len(value) > most:
            yield Broken("OAC-OAI-09", {"p": name, "max": most, "n": len(value)}, variant=1, at=f"/{name}")


@PARAMETERS.holds("OAC-OAI-12")
def _choice_without_tools(sent: Sent) -> Iterator[Broken]:
    if sent.body.get("tools") == []:
        yield Broken("OAC-OAI-12", {"p": "tools"}, variant=1)
    elif not _is_there(sent, "tools") and not _is_there(sent, "functions"):
        for name in ("tool_choice", "parallel_tool_calls"):
            if _is_there(sent, name):
                yield Broken("OAC-OAI-12", {"p": name})


@PARAMETERS.holds("OAC-OAI-13")
def _search(sent: Sent) -> Iterator[Broken]:
    if _is_there(sent, "web_search_options") and "search" not in sent.model:  # those that can have it in their name
        yield Broken("OAC-OAI-13")


@PARAMETERS.holds("OAC-DS-02")
def _forced_while_thinking(sent: Sent) -> Iterator[Broken]:
    if forced(sent) and asked_to_think(sent) is not False:
        yield Broken("OAC-DS-02")


@PARAMETERS.holds("OAC-KIMI-02")
def _forced_kimi(sent: Sent) -> Iterator[Broken]:
    if forced(sent) and asked_to_think(sent) is not False:
        yield Broken("OAC-KIMI-02")


@PARAMETERS.holds("OAC-ALI-02")
def _forced_qwen(sent: Sent) -> Iterator[Broken]:
    asked = asked_to_think(sent)
    thinks = asked if asked is not None else sent.target.traits.thinking_default in ("yes", "always")
    if thinks and sent.body.get("tools") and forced(sent):
        yield Broken("OAC-ALI-02")


@PARAMETERS.holds("OAC-OLL-01")
def _choice_without_effect(sent: Sent) -> Iterator[Broken]:
    if sent.body.get("tools") and sent.body.get("tool_choice") not in (None, "auto"):
        yield Broken("OAC-OLL-01")


@PARAMETERS.holds("OAC-OR-01")
def _no_host(sent: Sent) -> Iterator[Broken]:
    traits = sent.target.traits
    if sent.body.get("tools") and (not traits.tools or case(sent, "OAC-OR-01 no-tools")):
        yield Broken("OAC-OR-01", {"p": "tools"})
    elif sent.body.get("tools") and forced(sent) and case(sent, "OAC-OR-01 no-choice"):
        yield Broken("OAC-OR-01", {"p": "tool_choice"}, variant=1)
    if not traits.images_in and any(True for _, message in messages(sent) for _ in pictures(message)):
        yield Broken("OAC-OR-01", {"p": "messages"}, variant=2)


# --- the answer's form ------------------------------------------------------------------------------------------------


@PARAMETERS.holds("OAC-OAI-11")
def _json_unsaid(sent: Sent) -> Iterator[Broken]:
    form = sent.body.get("response_format")
    plain = isinstance(form, dict) and form.get("type") == "json_object"
    if plain and not any("json" in text(message).lower() for _, message in messages(sent)):
        yield Broken("OAC-OAI-11")
