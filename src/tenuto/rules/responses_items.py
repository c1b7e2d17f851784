"""Responses: rules for the items of the input, calls and outputs, and reasoning."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tenuto.core import jsonio
from tenuto.core.blocks import ToolUse
from tenuto.rules.body import Violation, objects, text
from tenuto.rules.book import UnverifiedText
from tenuto.rules.issued_tokens import IssuedItem, matches
from tenuto.rules.responses_request import (
    CALLS,
    LOCAL_HOSTS,
    OPENAI_HOSTS,
    Item,
    ResponsesBody,
    item_texts,
    openai,
    responses,
)
from tenuto.rules.shapes import openai_type, quote_names

_OUTPUTS = {output: call for call, output in CALLS.items()}
_OTHER_OUTPUTS = ("computer_call_output", "local_shell_call_output", "shell_call_output", "apply_patch_call_output")

responses("OAR-ITEM-09", "There is an input, unless the request continues a stored response.",
    UnverifiedText("Missing required parameter: 'input'."), refused_by=OPENAI_HOSTS, param="input",
    code="missing_required_parameter", at="/input",
    when=lambda request: request.setting("input") in (None, []) and not request.continues_stored
    and not request.body.get("prompt"),
    remedy="Send an empty user message.", as_of="2026",
    source="protocols B.1; an empty list after a stored response is accepted (recorded)")  # fmt: skip


@openai("OAR-ITEM-10", "`compaction_trigger` is the last item; models before GPT-6 accept no `configuration_update`.",
    UnverifiedText("Invalid value: '{type}'."),
    UnverifiedText("Item of type '{type}' is not supported with this model."), param="input[{i}]", code="invalid_value",
    remedy="Send the items that compaction returned unchanged.", as_of="2026-11",
    documented="protocols B.2, B.5")  # fmt: skip
def misplaced_special_item(request: ResponsesBody) -> Iterator[Violation]:
    for item in request.items("compaction_trigger"):
        if request.item_after(item) is not None:
            yield Violation(item.pointer, {"type": item.kind})
    for item in request.items("configuration_update"):
        if request.traits.configuration_update == "rejected":
            yield Violation(item.pointer, {"type": item.kind}, message=1)


responses("OAR-REAS-06", "A reasoning item has a `summary`.",
    "Missing required parameter: 'input[{i}].summary'.", only=(*OPENAI_HOSTS, "meta"), param="input[{i}].summary",
    code="missing_required_parameter", each=lambda request: request.items("reasoning"), at="/summary",
    when=lambda item: "summary" not in item.fields, remedy="Always send `summary`, at least an empty list.",
    as_of="2026-09", source="Operit#797; WaLiAPI#61; Agora#141")  # fmt: skip

openai("OAR-REAS-07", "A reasoning item has no `status`; only responses have it.",
    "Unknown parameter: 'input[{i}].status'.",
    applies=lambda request: not request.context.row.responses.reasoning_status, param="input[{i}].status",
    code="unknown_parameter", each=lambda request: request.items("reasoning"), at="/status",
    when=lambda item: "status" in item.fields, certain=lambda item: item.fields["status"] is not None,
    remedy="Leave `status` out of reasoning items.", as_of="2026-08",
    source="jcode#1028; litellm#13420; LiveAgent#334")  # fmt: skip

_ASSISTANT_PARTS = ("output_text", "refusal")
_INPUT_PARTS = ("input_text", "input_image", "input_file")


@openai("OAR-ITEM-05", "An assistant message has output parts, every other message has input parts.",
    UnverifiedText("Invalid value: '{type}'. Supported values are: {allowed}."), certain=False,
    param="input[{i}].content[{j}]", code="invalid_value",
    remedy="Use `output_text` and `refusal` for the assistant, `input_*` for all others.", as_of="2026",
    inferred="common in threads, not seen again")  # fmt: skip
def part_of_another_role(request: ResponsesBody) -> Iterator[Violation]:
    for item in request.items("message"):
        allowed = _ASSISTANT_PARTS if item.role == "assistant" else _INPUT_PARTS
        for pointer, part in objects(item.fields.get("content"), f"{item.pointer}/content"):
            kind = text(part, "type")
            if (kind in _ASSISTANT_PARTS) != (item.role == "assistant"):
                yield Violation(f"{pointer}/type", {"type": kind, "allowed": quote_names(allowed)})


responses("OAR-ITEM-06", "The arguments of a function call are text.",
    UnverifiedText("Invalid type for 'input[{i}].arguments': expected a string, but got {got} instead."),
    refused_by=OPENAI_HOSTS, accepted_by=LOCAL_HOSTS, param="input[{i}].arguments", code="invalid_type",
    each=lambda request: request.items("function_call"), at="/arguments",
    when=lambda item: not isinstance(item.fields.get("arguments"), str),
    fields=lambda item: {"got": openai_type(item.fields.get("arguments"))},
    remedy="Send the exact text that the model wrote.", as_of="2026-05", source="P21, P56")  # fmt: skip

_PREFIXES = {"message": "msg", "reasoning": "rs", "function_call": "fc", "custom_tool_call": "ctc"}
_SERVER_PREFIXES = {"web_search_call": "ws_", "code_interpreter_call": "ci_", "image_generation_call": "ig_"}
_ANTHROPIC_IDS = ("toolu_", "srvtoolu_")

openai("OAR-REAS-08", "The id of an item is not empty.",
    "Invalid 'input[{i}].id': ''. Expected an ID that contains letters, numbers, underscores, or dashes, but this "
    "value contained additional characters.", param="input[{i}].id", code="invalid_value",
    each=lambda request: request.items(), at="/id", when=lambda item: item.fields.get("id") == "",
    remedy="Remove the key instead of sending an empty id.", as_of="2026-04",
    source="langchainjs#11044; opencode#25065")  # fmt: skip


@responses("OAR-ITEM-03", "Call ids and item ids have at most 64 characters.",
    "Invalid 'input[{i}].{key}': string too long. Expected a string with maximum length 64, but got a string with "
    "length {n} instead.", applies=lambda request: request.context.row.responses.call_id_max > 0,
    refused_by=OPENAI_HOSTS, accepted_by=LOCAL_HOSTS, param="input[{i}].{key}", code="string_above_max_length",
    remedy="Shorten the id of the call and of its output in the same way; even an id of this provider can be too long.",
    as_of="2026-08", source="ungate#26; fastllm#45; dsh-plugin-subscriptions#29")  # fmt: skip
def id_too_long(request: ResponsesBody) -> Iterator[Violation]:
    for item in request.items():
        for key, id in (("call_id", item.call_id), ("id", item.id)):
            if len(id) > 64:
                yield Violation(f"{item.pointer}/{key}", {"key": key, "n": len(id)})


openai("OAR-ITEM-02", "The id of an item starts with the prefix of its type: `msg`, `rs`, `fc`, `ctc`.",
    "Invalid 'input[{i}].id': '{id}'. Expected an ID that begins with '{prefix}'.", param="input[{i}].id",
    code="invalid_value", each=lambda request: request.items(*_PREFIXES), at="/id",
    when=lambda item: item.id and not item.id.startswith(_PREFIXES[item.kind]),
    fields=lambda item: {"id": item.id, "prefix": _PREFIXES[item.kind]}, remedy="Leave out ids of another provider.",
    as_of="2026-09", source="codex#33176; sub2api#3981; free-claude-code#1826")  # fmt: skip


@openai("OAR-ITEM-01", "An item id occurs once, in the input and the stored responses before it.",
    "Duplicate item found with id {id}. Remove duplicate items from your input and try again.", param="input",
    remedy="Send each item once, and never invent ids.", as_of="2026-05",
    source="continue#10200; pi#5149,#5151; vercel/ai#7883")  # fmt: skip
def duplicate_id(request: ResponsesBody) -> Iterator[Violation]:
    seen = {text(item, "id") for item in request.chain}
    # Without access to the storage, the replies of the transcript are what the response before it holds.
    check_replies = request.context.stored is None and bool(request.body.get("previous_response_id"))
    for item in request.items():
        issued = request.tokens.item(item.id) if check_replies and item.id else None
        if item.id and (item.id in seen or (issued is not None and not issued.foreign)):
            yield Violation(f"{item.pointer}/id", {"id": item.id})
        seen.add(item.id)


@openai("OAR-ITEM-04", "References and items of server tools have ids that this provider issued.",
    "Item with id '{id}' not found.", certain=False, status=404, param="input",
    remedy="Refer only to items that this provider stored.", as_of="2026-04", source="mastra#15729")  # fmt: skip
def reference_to_foreign_item(request: ResponsesBody) -> Iterator[Violation]:
    for item in request.items():
        is_server_call = item.kind.endswith("_call") and item.kind not in CALLS
        if not item.id or not (item.kind == "item_reference" or is_server_call):
            continue
        issued = request.tokens.item(item.id)
        foreign = item.id.startswith(_ANTHROPIC_IDS) or (issued is not None and issued.foreign)
        if item.kind == "item_reference" and request.context.stored is not None:
            foreign = issued is None and request.find_stored(item.id) is None
        if foreign or not item.id.startswith(_SERVER_PREFIXES.get(item.kind, "")):
            yield Violation(f"{item.pointer}/id", {"id": item.id})


@responses("OAR-REAS-04", "A reasoning item without encrypted content, or a reference, has an id that is stored.",
    "Item with id '{id}' not found. Items are not persisted when `store` is set to false. Try again with `store` set "
    "to true, or remove this item from your input.", only=(*OPENAI_HOSTS, "xai"), status=404, param="input",
    remedy="Without storage, send back only reasoning with its encrypted content.", as_of="2026-06",
    source="vercel/ai#7543; openai-agents#919; opencode#7724")  # fmt: skip
def item_not_stored(request: ResponsesBody) -> Iterator[Violation]:
    for item in request.items("reasoning", "item_reference"):
        if not item.id or (item.kind == "reasoning" and item.fields.get("encrypted_content")):
            continue
        if request.context.stored is not None:
            missing = request.find_stored(item.id) is None
        else:
            missing = not request.continues_stored and _is_surely_not_stored(request, item)
        if missing:
            yield Violation(f"{item.pointer}/id", {"id": item.id})


def _is_surely_not_stored(request: ResponsesBody, item: Item) -> bool:
    issued = request.tokens.item(item.id)
    if request.tokens.is_known and issued is None:
        return item.kind == "reasoning" or item.id.startswith("rs_")
    return request.body.get("store") is False and (item.kind == "reasoning" or issued is not None)


openai("OAR-ITEM-07", "An assistant message keeps its `phase`.", severity="lost",
    each=lambda request: [item for item in request.items("message") if "phase" in request.tokens.issued_fields(item.id)],
    at="/phase", when=lambda item: not item.fields.get("phase"), remedy="Send the item as it was received.",
    as_of="2026-11", documented="protocols B.2")  # fmt: skip


@openai("OAR-TOOL-08", "The type of an output is that of its call.",
    UnverifiedText("No tool call found for {kind} output with call_id {call_id}."), certain=False, param="input",
    remedy="Choose the type of the output by the type of the call.", as_of="2026-09",
    source="free-claude-code#1826")  # fmt: skip
def output_of_another_type(request: ResponsesBody) -> Iterator[Violation]:
    calls = {text(item, "call_id"): text(item, "type") for item in request.chain}
    calls |= {item.call_id: item.kind for item in request.items(*CALLS)}
    for item in request.items(*_OUTPUTS, *_OTHER_OUTPUTS):
        kind = calls.get(item.call_id) if item.call_id else None
        if kind in CALLS and item.kind != CALLS[kind]:
            name = item.kind.removesuffix("_output").replace("_", " ")
            yield Violation(f"{item.pointer}/type", {"kind": name, "call_id": item.call_id})


@responses("OAR-TOOL-02", "Every tool output answers an earlier call: in the input, referenced, or stored.",
    "No tool call found for function call output with call_id {call_id}.", refused_by=OPENAI_HOSTS,
    accepted_by=LOCAL_HOSTS, param="input",
    remedy="Send the call before its output, or refer to a response that has it.", as_of="2026-08",
    source="vscode#320060; continue#10092; cursor-byok#307; calls by item_reference accepted (64 "
    "recorded)")  # fmt: skip
def output_without_call(request: ResponsesBody) -> Iterator[Violation]:
    stored_is_known = request.context.stored is not None
    from_transcript = request.continues_stored and not stored_is_known
    if request.body.get("conversation") or (from_transcript and not request.tokens.is_known):
        return
    calls = {text(item, "call_id") for item in request.chain}
    for item in request.items():
        if item.kind == "item_reference":
            if not stored_is_known:
                return  # it may be the call of any later output
            calls.add(text(request.resolve_reference(item.fields), "call_id"))
        elif item.kind.endswith("_call"):
            calls.add(item.call_id)
        elif item.kind in _OUTPUTS and item.call_id and item.call_id not in calls:
            issued = request.tokens.item(item.call_id) if from_transcript else None
            if issued is None:
                yield Violation(f"{item.pointer}/call_id", {"call_id": item.call_id})


@responses("OAR-TOOL-01",
    "Every function or custom call has an output, in the input or in the stored responses before it.",
    "No tool output found for function call {call_id}.", refused_by=OPENAI_HOSTS, accepted_by=LOCAL_HOSTS,
    param="input", remedy="Answer every call; only calls marked `async` may wait.", as_of="2026-03",
    source="GhidrAssist#78; trae-agent#245")  # fmt: skip
def call_without_output(request: ResponsesBody) -> Iterator[Violation]:
    answered = {item.call_id for item in request.all_items if item.kind.endswith("_output")}
    for item in request.items(*CALLS):
        if item.call_id and item.call_id not in answered and item.fields.get("async") is not True:
            yield Violation(f"{item.pointer}/call_id", {"call_id": item.call_id})
    for call_id in _open_stored_calls(request):
        if call_id not in answered:
            yield Violation("/previous_response_id", {"call_id": call_id})


def _open_stored_calls(request: ResponsesBody) -> list[str]:
    """Return the calls that the previous response left open."""
    if request.context.stored is not None:
        answered = {text(item, "call_id") for item in request.chain if text(item, "type").endswith("_output")}
        calls = [item for item in request.chain if item.get("type") in CALLS and item.get("async") is not True]
        return [id for item in calls if (id := text(item, "call_id")) not in answered]
    context = request.context
    if not context.replies or any(context.foreign[-1:]) or not request.body.get("previous_response_id"):
        return []
    last = [block.id for block in context.replies[-1].blocks if isinstance(block, ToolUse) and not block.id_generated]
    issued = {id: item for id in last if (item := request.tokens.item(id)) is not None}
    return [id for id, item in issued.items() if item.kind in CALLS and "async" not in item.fields]


@openai("OAR-TOOL-07", "The output of a tool with an `output_schema` is JSON.",
    UnverifiedText("Invalid 'input[{i}].output': expected valid JSON for a tool with an output schema."), certain=False,
    param="input[{i}].output", code="invalid_value", remedy="Encode the result of the tool as JSON.", as_of="2026-08",
    source="protocols B.2")  # fmt: skip
def output_not_json(request: ResponsesBody) -> Iterator[Violation]:
    typed = {tool.name for tool in request.tools if isinstance(tool.fields.get("output_schema"), dict)}
    if not typed:
        return
    names = {text(item, "call_id"): text(item, "name") for item in request.chain}
    names |= {item.call_id: text(item.fields, "name") for item in request.items(*CALLS)}
    for item in request.items(*_OUTPUTS):
        output = item.fields.get("output")
        if names.get(item.call_id) in typed and isinstance(output, str) and jsonio.problem(output):
            yield Violation(f"{item.pointer}/output")


@openai("OAR-ITEM-08", "A call of a tool in a namespace names the namespace.",
    UnverifiedText("Missing required parameter: 'input[{i}].namespace'."), param="input[{i}].namespace",
    code="missing_required_parameter", remedy="Send the item as it was received.", as_of="2026-11",
    documented="protocols B.2")  # fmt: skip
def namespace_dropped(request: ResponsesBody) -> Iterator[Violation]:
    in_namespace = {tool.name for tool in request.tools if tool.namespace}
    plain = {tool.name for tool in request.tools if not tool.namespace}
    for item in request.items(*CALLS):
        if item.fields.get("namespace") is not None:
            continue
        had = "namespace" in request.tokens.issued_fields(item.call_id)
        if had or text(item.fields, "name") in in_namespace - plain:
            yield Violation(f"{item.pointer}/namespace")


def _item_id(request: ResponsesBody, item: Item) -> str:
    """Return the id of an item; for reasoning without an id the one that its encrypted content was issued with."""
    if item.id or not item.blob:
        return item.id
    token = request.tokens.find(item.blob)
    return token.id if token is not None else ""


class _LoneItem(NamedTuple):
    pointer: str
    kind: str
    id: str
    reasoning: str
    """The id of the reasoning item that it came after."""
    is_directly_after: bool
    """Whether that came directly before it. That items further on need it, too, is not certain."""


def _without_reasoning(request: ResponsesBody) -> Iterator[_LoneItem]:
    """Yield the items whose id says that they came after a reasoning item which the input does not have."""
    if request.continues_stored and request.context.stored is None:
        return  # the stored response may have it
    if request.traits.thinking == ("none",):
        return
    seen = {text(item, "id") for item in request.chain}
    for item in request.items():
        issued = request.tokens.item(item.id) if item.id and item.kind != "item_reference" else None
        is_own = issued is not None and not issued.foreign and item.kind != "compaction"  # which may stand alone
        needed = issued.after_reasoning if issued is not None and is_own else ""
        if issued is not None and needed and needed not in seen:
            reasoning = request.tokens.item(needed)
            is_directly_after = reasoning is None or reasoning.index == issued.index - 1
            yield _LoneItem(item.pointer, item.kind, item.id, needed, is_directly_after)
        seen.add(_item_id(request, item))


openai("OAR-REAS-01", "A call with its item id needs the reasoning item that it came after.",
    "Item '{id}' of type '{type}' was provided without its required 'reasoning' item: '{reasoning}'.", param="input",
    each=lambda request: [item for item in _without_reasoning(request) if item.kind != "message"], at="/id",
    fields=lambda item: {"id": item.id, "type": item.kind, "reasoning": item.reasoning},
    certain=lambda item: item.is_directly_after,
    remedy="Send both, or leave the id out of the call; its call_id is enough.", as_of="2026-07",
    source="cline#12242; continue#10018,#10880; rig#751; id-less calls accepted in 88 recorded requests")  # fmt: skip

openai("OAR-REAS-02", "An assistant message with its item id needs the reasoning item that it came after.",
    "Item '{id}' of type 'message' was provided without its required 'reasoning' item: '{reasoning}'.", param="input",
    each=lambda request: [item for item in _without_reasoning(request) if item.kind == "message"], at="/id",
    fields=lambda item: {"id": item.id, "reasoning": item.reasoning}, certain=lambda item: item.is_directly_after,
    remedy="Send both in their order, or leave the id out of the message.", as_of="2026-03",
    source="continue#11466,#11994")  # fmt: skip


@openai("OAR-REAS-03", "A reasoning item with an id is followed by the item that followed it in its response.",
    "Item '{id}' of type 'reasoning' was provided without its required following item.", param="input",
    remedy="Leave out the reasoning of an interrupted turn; keep consecutive reasoning items as they were received.",
    as_of="2026-02",
    source="continue#8933; openai-agents#1611; inspect_ai#1990; id-less items after it accepted if it has its "
    "encrypted content (recorded)")  # fmt: skip
def reasoning_without_next_item(request: ResponsesBody) -> Iterator[Violation]:
    for item in request.items("reasoning"):
        if not item.id:
            continue
        after = request.item_after(item)
        issued = request.tokens.item(item.id)
        lonely = after is None or after.role in ("user", "system", "developer") or after.kind in _OUTPUTS
        if after is None or lonely or (issued and not issued.foreign and not _is_next(request, issued, after)):
            yield Violation(item.pointer, {"id": item.id})
        elif after.kind == "message" and not after.id and not item.blob:
            # One recorded refusal, and no accepted request without the encrypted content.
            yield Violation(item.pointer, {"id": item.id}, certain=False)


def _is_next(request: ResponsesBody, reasoning: IssuedItem, after: Item) -> bool:
    id = _item_id(request, after)
    if not id:  # only its type can be compared
        return after.kind == reasoning.next_kind
    issued = request.tokens.item(id)
    return issued is not None and (issued.reply, issued.index) == (reasoning.reply, reasoning.index + 1)


def _invalid_blobs(request: ResponsesBody) -> Iterator[Item]:
    """Yield the items whose encrypted content was not issued with them, to this account, by this provider."""
    for item in request.items("reasoning", "compaction") if request.tokens.is_known else ():
        token = request.tokens.find(item.blob) if item.blob else None
        is_own = token is not None and token.kind == item.kind and matches(token.id, item.id)
        if item.blob and not (token is not None and is_own and token.is_from_target(request)):
            yield item


openai("OAR-REAS-05",
    "Encrypted content is exactly as it was issued, to this organization and on this route. The summary may be "
    "emptied.",
    "The encrypted content for item {id} could not be verified. Reason: Encrypted content could not be decrypted or "
    "parsed.",
    "The encrypted content {first}...{last} could not be verified.", code="invalid_encrypted_content",
    each=_invalid_blobs, at="/encrypted_content",
    fields=lambda item: {"id": item.id, "first": item.blob[:4], "last": item.blob[-4:]},
    message=lambda item: not item.id,
    remedy="Leave out the named item (all reasoning if none is named) and the ids that depend on it, then retry.",
    as_of="2026-09", source="codex#8119,#8145; new-api#4662; experiential#965; sub2api#3138")  # fmt: skip

openai("OAR-REAS-10",
    "Encrypted content is taken from the event that finished the item, not from the one that started it.",
    code="invalid_encrypted_content", unchecked="reported as OAR-REAS-05",
    remedy="Store the item of `response.output_item.done` or of the finished response.", as_of="2026-08",
    inferred="protocols B.3; pitfalls 42")  # fmt: skip

responses("OAR-XAI-02", "A reasoning item with encrypted content has a `summary`, and no `content` that is null.",
    "Could not decode the compaction blob. Ensure it is unmodified from the compact response.", only=("xai",),
    code="invalid-argument", each=lambda request: request.items("reasoning"),
    when=lambda item: item.blob and ("summary" not in item.fields or item.fields.get("content", ()) is None),
    remedy="Send `summary`, at least an empty list, and leave out fields that are null.", as_of="2026-08",
    source="grok2api#688,#689,#1025")  # fmt: skip

responses("OAR-XAI-01", "Encrypted content is exactly as it was issued.",
    "Could not decrypt the provided encrypted_content. Ensure the value is the unmodified encrypted_content from a "
    "previous response.", only=("xai",), code="invalid-argument", each=_invalid_blobs, at="/encrypted_content",
    remedy="Remove `encrypted_content`, keep the summary, and retry.", as_of="2026-08",
    source="opencodex#2229; openclaw#97926")  # fmt: skip

responses("OAR-REAS-09", "A reasoning item with encrypted content and without an id is accepted.", severity="warned",
    only=(*OPENAI_HOSTS, "xai"), each=lambda request: request.items("reasoning"),
    when=lambda item: item.blob and item.fields.get("id") is None, remedy="Nothing to do.", as_of="2026",
    recorded="C/openai-responses/openai/ruby-llm__chat_basic_chat_functionality_openai_gpt-5-nano_*; Azure and xAI, "
    "too")  # fmt: skip


@openai("OAR-REAS-11",
    "Reasoning of earlier turns is ignored if `reasoning.context` is `current_turn`, the default before GPT-5.6.",
    severity="warned", remedy="Harmless: it only makes the request longer.", as_of="2026-11",
    documented="protocols B.1")  # fmt: skip
def reasoning_of_earlier_turns(request: ResponsesBody) -> Iterator[Violation]:
    context = text(request.reasoning, "context")
    if context in ("", "auto"):
        context = request.traits.reasoning_context
    if context == "current_turn":
        last = max((item.index for item in request.items("message") if item.role == "user"), default=-1)
        yield from (Violation(item.pointer) for item in request.items("reasoning") if item.index < last)


@responses("OAR-DS-01",
    "The calls of a turn come after its messages and reasoning: an assistant item closes the calls before it.",
    UnverifiedText("No tool output found for tool call {call_id}."),
    applies=lambda request: request.context.row.responses.calls_last, remedy="Move the calls to the end of their turn.",
    as_of="2026-08", recorded="pydantic-ai#7448 (verified live); protocols B.4.8")  # fmt: skip
def call_before_assistant_item(request: ResponsesBody) -> Iterator[Violation]:
    calls: list[Item] = []
    for item in request.items():
        if item.kind in CALLS:
            calls.append(item)
            continue
        if item.role == "assistant" or item.kind == "reasoning":
            yield from (Violation(call.pointer, {"call_id": call.call_id}) for call in calls)
        calls.clear()


@openai("OAR-PARAM-09", "The input fits into the context window of the model.",
    "Your input exceeds the context window of this model. Please adjust your input and try again.",
    applies=lambda request: bool(request.traits.context_window), param="input", code="context_length_exceeded",
    remedy="Compact the conversation.", as_of="2026",
    recorded="C/openai-responses/openai/ruby-llm__chat_real_error_scenarios_openai_gpt-5-nano_handles_context_length_*")  # fmt: skip
def input_too_long(request: ResponsesBody) -> Iterator[Violation]:
    window = request.traits.context_window or 0
    request.setting("input")
    if request.body.get("truncation") == "auto" or not request.may_exceed(window):
        return
    texts = [text(request.body, "instructions"), text(request.body, "input")]
    texts += [part for item in request.all_items for part in item_texts(item.fields)]
    # No token holds two words: more words than tokens is certain, the estimate is not.
    if sum(len(part.split()) for part in texts) > window:
        yield Violation("/input")
    elif request.prompt_tokens > window:
        yield Violation("/input", certain=False)
