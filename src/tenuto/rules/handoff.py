"""Rules for requests of any dialect: traces of another provider, and of an altered or shortened history.

They compare the body with the replies of the transcript, so they run in the audit only. The rules of the dialect say what
the provider answers; these say where the fault comes from.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tenuto.core import jsonio
from tenuto.core.blocks import ChatMeta, ProviderMeta, Reasoning, ToolUse
from tenuto.core.messages import AssistantMessage
from tenuto.rules.anthropic_body import MessagesBody
from tenuto.rules.body import RequestBody, Violation, escape, find_tokens, objects, token_keys
from tenuto.rules.book import section
from tenuto.rules.chat import ChatBody
from tenuto.rules.gemini import GeminiBody
from tenuto.rules.gemini_turns import first_calls
from tenuto.rules.issued_tokens import token_of
from tenuto.rules.responses_request import ResponsesBody

_TOKEN_CHARACTERS = re.compile(r"[a-zA-Z0-9+/=_.:|-]*")
_COMPARED = 8
"""Two tokens that share this number of characters at either end were the same once."""

_CONVERSATIONS = frozenset(view.conversation for view in (MessagesBody, ResponsesBody, ChatBody, GeminiBody))

cross = section("cross")


def _replies(request: RequestBody, foreign: bool) -> list[AssistantMessage]:
    """Return the replies of this provider, or those of others."""
    context = request.context
    marks = context.foreign or (False,) * len(context.replies)
    return [reply for reply, is_foreign in zip(context.replies, marks, strict=True) if is_foreign is foreign]


def _calls(replies: Iterable[AssistantMessage]) -> dict[str, ToolUse]:
    return {block.id: block for reply in replies for block in reply.blocks if isinstance(block, ToolUse)}


def _foreign_callers(request: RequestBody) -> set[str]:
    """Return the messages with calls that this provider did not make, if another provider is known to have replied."""
    if not any(request.context.foreign):
        return set()
    own = _calls(_replies(request, foreign=False))
    names = {call.name for call in own.values()}
    calls = [call for call in request.calls if (call.id not in own if call.id else call.name not in names)]
    return {"/".join(call.pointer.split("/")[:3]) for call in calls}


def _issued_tokens(replies: Iterable[AssistantMessage]) -> set[str]:
    metas = [block.meta for reply in replies for block in reply.blocks if block.meta is not None]
    return {token for meta in metas for token in _meta_tokens(meta) if token}


def _meta_tokens(meta: ProviderMeta) -> Sequence[str]:
    if isinstance(meta, ChatMeta) and meta.details and not jsonio.problem(meta.details):
        return [meta.signature, *find_tokens(jsonio.parse(meta.details))]
    return (token_of(meta),)


def _pointers(request: RequestBody, tokens: set[str]) -> Iterator[str]:
    """Yield the pointers of these tokens in the conversation."""
    pending = list(reversed(list(objects(request.body.get(request.conversation), f"/{request.conversation}"))))
    while pending:
        pointer, part = pending.pop()
        yield from (
            f"{pointer}/{key}" for key in token_keys(part) if isinstance(part[key], str) and part[key] in tokens
        )
        for key, inner in part.items():
            if isinstance(inner, dict):
                pending.append((f"{pointer}/{escape(key)}", inner))
            elif isinstance(inner, list):
                pending += objects(inner, f"{pointer}/{escape(key)}")


@cross("XP-01", "Call ids of another provider have characters or a length that this provider does not accept.",
    remedy="Map the ids of calls and results in the same way for each request; leave the stored history unchanged.",
    as_of="2026-08", source="opencodex#1767")  # fmt: skip
def foreign_call_id(request: RequestBody) -> Iterator[Violation]:
    theirs = _calls(_replies(request, foreign=True))
    if theirs:
        for pointer, id in (*((call.pointer, call.id) for call in request.calls), *request.results()):
            if id in theirs and not request.accepts_call_id(id):
                yield Violation(pointer)


@cross("XP-02",
    "A reasoning token goes only to its issuer: the same provider, platform, endpoint, account and set of models.",
    remedy="Leave the token out and report the loss; the same dialect does not mean the same issuer.", as_of="2026-09",
    source="oh-my-pi#6379,#12006; openclaw#91205")  # fmt: skip
def foreign_token(request: RequestBody) -> Iterator[Violation]:
    theirs = _issued_tokens(_replies(request, foreign=True))
    if theirs:
        theirs -= _issued_tokens(_replies(request, foreign=False))
        if not theirs.isdisjoint(find_tokens(request.body.get(request.conversation))):
            yield from map(Violation, _pointers(request, theirs))


def wants_reasoning(request: RequestBody) -> bool:
    if not isinstance(request, ChatBody) or not request.model or request.traits.thinking == ("none",):
        return False
    return request.switches.empty_reasoning and (request.traits.passback or request.switches.passback) != "never"


@cross("XP-03",
    "DeepSeek and Kimi need `reasoning_content` on assistant messages with calls, also on those of another provider.",
    applies=wants_reasoning, remedy="Give each of these messages an empty `reasoning_content`.", as_of="2026-07",
    source="hermes#34519")  # fmt: skip
def foreign_call_without_reasoning(request: ChatBody) -> Iterator[Violation]:
    if request.requested_thinking is not False:
        foreign = _foreign_callers(request)
        for pointer, message in request.messages("assistant"):
            if pointer in foreign and message.get(request.switches.reasoning_field) is None:
                yield Violation(pointer)


@cross("XP-04",
    "Gemini 3 needs a signature on the first call of each step of the current turn, also on calls of another provider.",
    applies=lambda request: isinstance(request, GeminiBody) and request.traits.signed_calls == "required",
    remedy="Set the documented placeholder on the first call of each step, and report the loss.", as_of="2026",
    recorded="17 recorded parts")  # fmt: skip
def foreign_call_without_signature(request: GeminiBody) -> Iterator[Violation]:
    foreign = _foreign_callers(request) if request.model else ()
    for call, _ in first_calls(request):
        if f"/contents/{call.content}" in foreign and not call.signature:
            yield Violation(f"/contents/{call.content}")


cross("XP-05", "A body that was written for one provider is sent to another one.",
    when=lambda request: request.conversation not in request.body and not _CONVERSATIONS.isdisjoint(request.body),
    remedy="Write the request again for each provider that is tried.", as_of="2026-06",
    source="pydantic-ai#4882; hermes#33795")  # fmt: skip


@cross("XP-06", "A filter for secrets changed a token; the provider refuses it from then on.",
    remedy="Exclude tokens from such filters.", as_of="2026-07", source="openclaw#102244,#90093")  # fmt: skip
def redacted_token(request: RequestBody) -> Iterator[Violation]:
    issued = _issued_tokens(request.context.replies)
    if not issued:
        return
    unknown = set(request.sent_tokens()) - issued
    odd = {token for token in unknown if not _TOKEN_CHARACTERS.fullmatch(token)}
    if odd:
        ends = {token[:_COMPARED] for token in issued} | {token[-_COMPARED:] for token in issued}
        similar = {token for token in odd if {token[:_COMPARED], token[-_COMPARED:]} & ends}
        yield from map(Violation, _pointers(request, similar))


@cross("XP-07",
    "An interrupted turn is sent back as it is: with open calls, half of the arguments, or unsigned thinking.",
    remedy="Mark the turn as incomplete, then leave it out or complete it.", as_of="2026-07",
    source="pydantic-ai#5532,#7597")  # fmt: skip
def interrupted_turn(request: RequestBody) -> Iterator[Violation]:
    interrupted = [reply for reply in request.context.replies if reply.incomplete]
    if not interrupted:
        return
    calls = _calls(interrupted)
    answered = {id for _, id in request.results()}
    for call in request.calls:
        made = calls.get(call.id)
        if made is not None and (call.id not in answered or (made.args_error and call.args == made.args)):
            yield Violation(call.pointer)
    texts = {block.text for reply in interrupted for block in reply.blocks if isinstance(block, Reasoning)}
    for pointer, message in objects(request.body.get("messages"), "/messages"):
        for place, block in objects(message.get("content"), f"{pointer}/content"):
            unsigned = block.get("type") == "thinking" and not block.get("signature")
            if unsigned and isinstance(block.get("thinking"), str) and block["thinking"] in texts:
                yield Violation(place)


@cross("XP-08", "The history was cut between a call and its result.",
    remedy="Cut a history only between complete turns.", as_of="2026-09", source="openclaw#90108; pi#8667")  # fmt: skip
def result_without_call(request: RequestBody) -> Iterator[Violation]:
    if request.has_stored_history:
        return
    cut = _calls(request.context.replies).keys() - {call.id for call in request.calls}
    yield from (Violation(pointer) for pointer, id in request.results() if id in cut) if cut else ()


@cross("XP-09",
    "Arguments were serialized again, with other whitespace or another order. Prompt caches and bound tokens do not "
    "match.", severity="warned", remedy="Keep the text as it was received.", as_of="2026-07",
    source="unsloth#10845; dspy#10216")  # fmt: skip
def arguments_rewritten(request: RequestBody) -> Iterator[Violation]:
    issued = _calls(request.context.replies)
    for call in request.calls if issued else ():
        made = issued.get(call.id)
        if made is not None and made.kind == "function" and not made.args_error and _is_rewritten(made.args, call.args):
            yield Violation(call.pointer)


def _is_rewritten(issued: str, sent: Any) -> bool:
    """Whether arguments have the same value in another text. Of objects only the order can be compared."""
    if issued == sent or not issued:
        return False
    try:
        value = jsonio.parse(issued)
        if isinstance(sent, str):
            return bool(jsonio.parse(sent) == value)
    except jsonio.JsonError:
        return False
    return repr(sent) != repr(value) and bool(sent == value)  # equal objects with another order have another repr
