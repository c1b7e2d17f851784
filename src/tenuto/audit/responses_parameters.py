"""The parameters of a Responses request: what the endpoint has, and what the model takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tenuto.audit.looking import Broken, Checks, Sent
from tenuto.audit.responses_ledger import items, stored, word
from tenuto.audit.scope import elsewhere

__all__ = ["CHECKS"]

CHECKS = Checks()

_KEYS = frozenset(
    {
        *("model", "input", "instructions", "prompt", "previous_response_id", "conversation", "store", "background"),
        *("tools", "tool_choice", "parallel_tool_calls", "max_tool_calls", "max_output_tokens", "truncation"),
        *("reasoning", "text", "include", "temperature", "top_p", "top_logprobs", "stream", "stream_options"),
        *("metadata", "service_tier", "safety_identifier", "user", "prompt_cache_key", "prompt_cache_options"),
        *("prompt_cache_retention", "context_management", "moderation", "access_programs", "image", "personality"),
    }
)
_SAMPLING = ("temperature", "top_p", "top_logprobs")
_NO_RESPONSE = ("chatcmpl-", "cmpl-", "gen-", "msg_", "rs_", "fc_", "ctc_", "call_", "conv_", "toolu_", "srvtoolu_")
"""How ids begin that are not a response's: another provider's, or of something in a response."""
_NOT_READ = frozenset(
    {"type", "role", "id", "call_id", "status", "phase", "encrypted_content", "annotations", "logprobs"}
)
"""Fields that say nothing to the model."""
_GUESSED = "low"
"""The confidence of a model's row that was written for models that nobody has seen."""


def _effort(sent: Sent) -> str:
    reasoning = sent.body.get("reasoning")
    return word(reasoning, "effort") if isinstance(reasoning, dict) else ""


def _included(sent: Sent, name: str) -> bool:
    asked = sent.body.get("include")
    return isinstance(asked, list) and name in asked


@CHECKS.holds("OAR-PARAM-08")
def no_such_model(sent: Sent) -> Iterator[Broken]:
    """A name is refused that is neither listed nor in the style of any family, those to come among them.

    Whoever is asked at an address of its own may serve any model.
    """
    to = sent.target
    if not to.traits.known and to.platform in to.provider.base_url:
        yield Broken("OAR-PARAM-08", {"model": sent.model})


@CHECKS.holds("OAR-PARAM-10")
def unknown_key(sent: Sent) -> Iterator[Broken]:
    """What the endpoint does not have, such as the keys of Chat Completions."""
    for key in sent.body:
        if key not in _KEYS:
            yield Broken("OAR-PARAM-10", {"p": key}, at=f"/{_escaped(key)}")


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


@CHECKS.holds("OAR-PARAM-03")
def below_zero(sent: Sent) -> Iterator[Broken]:
    """A number that cannot be negative."""
    for key in ("temperature", "top_p"):
        value = sent.body.get(key)
        if isinstance(value, int | float) and value < 0:
            yield Broken("OAR-PARAM-03", {"p": key, "v": value}, variant=1)


@CHECKS.holds("OAR-PARAM-02")
def no_such_effort(sent: Sent) -> Iterator[Broken]:
    """An effort that the model is known not to have; a guess at a model's efforts is no ground to say so."""
    traits, asked = sent.target.traits, _effort(sent)
    if asked and traits.efforts and traits.confidence != _GUESSED and asked not in traits.efforts:
        allowed = _listed(traits.efforts)
        yield Broken("OAR-PARAM-02", {"v": asked, "model": sent.model, "allowed": allowed})


def _listed(words: tuple[str, ...]) -> str:
    quoted = [f"'{word}'" for word in words]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])}, and {quoted[-1]}"


@CHECKS.holds("OAR-PARAM-01")
def sampling(sent: Sent) -> Iterator[Broken]:
    """A model that reasons is not to be told how to sample."""
    if not _reasons(sent):
        return
    for key in _SAMPLING:
        if sent.body.get(key) is not None:
            yield Broken("OAR-PARAM-01", {"p": key}, variant=1)
    if _included(sent, "message.output_text.logprobs"):
        yield Broken("OAR-PARAM-01", {"p": "include"}, variant=1)


def _reasons(sent: Sent) -> bool:
    """Tell whether the model refuses sampling as it is told to reason here."""
    traits = sent.target.traits
    if traits.sampling == "rejected":
        return True
    if traits.sampling != "only_without_reasoning":
        return False
    asked = _effort(sent) or traits.effort_default
    return asked != "none" and not (not asked and traits.thinking_default == "no")


@CHECKS.holds("OAR-REAS-12")
def no_reasoning(sent: Sent) -> Iterator[Broken]:
    """A model that does not reason has no reasoning to be told of."""
    if _included(sent, "reasoning.encrypted_content"):
        yield Broken("OAR-REAS-12", {"p": "include"})
    reasoning = sent.body.get("reasoning")
    for key in ("effort", "summary"):
        if isinstance(reasoning, dict) and reasoning.get(key) is not None:
            yield Broken("OAR-REAS-12", {"p": f"reasoning.{key}"}, variant=1, at=f"/reasoning/{key}")


@CHECKS.holds("OAR-PARAM-04")
def no_word_of_json(sent: Sent) -> Iterator[Broken]:
    """Whoever asks for a JSON object has to say so in words. What is stored, or in a prompt's template, may say it."""
    text = sent.body.get("text")
    wanted = text.get("format") if isinstance(text, dict) else None
    if not isinstance(wanted, dict) or wanted.get("type") != "json_object" or stored(sent) or sent.body.get("prompt"):
        return
    if not any("json" in said.lower() for said in _strings(sent.body.get("input"))):
        yield Broken("OAR-PARAM-04")


def _strings(value: Any) -> Iterator[str]:
    """Yield every text in a value, however deep, that is there to be read."""
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            left += (inner for key, inner in one.items() if key not in _NOT_READ)
        elif isinstance(one, list):
            left += one


@CHECKS.holds("OAR-PARAM-05")
def two_pasts(sent: Sent) -> Iterator[Broken]:
    """A request goes on from one thing."""
    if sent.body.get("previous_response_id") and sent.body.get("conversation"):
        yield Broken("OAR-PARAM-05")


@CHECKS.holds("OAR-PARAM-06")
def unknown_past(sent: Sent) -> Iterator[Broken]:
    """The id is no response's, or every reply of the conversation was given by somebody else."""
    id = word(sent.body, "previous_response_id")
    strangers = bool(sent.given) and all(elsewhere(sent))
    if id and (id.startswith(_NO_RESPONSE) or strangers):
        yield Broken("OAR-PARAM-06", {"id": id})


@CHECKS.holds("OAR-PARAM-09")
def too_long(sent: Sent) -> Iterator[Broken]:
    """More words than the window has tokens: no token holds two words, so this is certain, though it is not the limit."""
    window = sent.target.traits.context_window
    if not window or not sent.may_have(window) or sent.body.get("truncation") == "auto":
        return
    said = [sent.body.get("instructions"), *(item.fields for item in items(sent))]
    if isinstance(sent.body.get("input"), str):
        said.append(sent.body["input"])
    texts = list(_strings(said))
    if sum(map(len, texts)) > window and sum(len(text.split()) for text in texts) > window:
        yield Broken("OAR-PARAM-09")
