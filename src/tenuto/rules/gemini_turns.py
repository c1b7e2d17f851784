"""Gemini generateContent: the rules for parts, media, turns and thought signatures."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise

from tenuto.rules.body import Fields, Violation, text
from tenuto.rules.book import UnverifiedText
from tenuto.rules.gemini import MOST_MEDIA_TOKENS, GeminiBody, Part, Run, gemini
from tenuto.rules.issued_tokens import IssuedToken, has_content, matches

_MAX_CHARACTERS_PER_TOKEN = 6
"""More characters than a token of a long text has on average: the estimate is too low rather than too high."""
_MEDIA_TYPE = re.compile(
    r"image/(?:png|jpeg|webp|heic|heif|gif|bmp|avif)|(?:audio|video|text)/[\w.+-]+"
    r"|application/(?:pdf|json|xml|javascript|x-javascript|typescript|x-typescript|x-python|rtf|x-ipynb\+json|yaml|x-yaml)"
)
_REFUSED_MEDIA_TYPE = re.compile(
    r"[^/]*|image/(?:jpg|svg\+xml|tiff|x-icon|vnd\..*)"
    r"|application/(?:zip|gzip|octet-stream|msword|vnd\..*|x-(?:zip|tar|gzip).*)"
)
_MAX_MEDIA, _MAX_PDF = 100 * 2**20, 50 * 2**20
_REASONING_AS_TEXT = re.compile(
    r"\s*(?:\[(?:reasoning|thinking|thought)s?\b|<(?:think|thinking|thought)>)", re.IGNORECASE
)
_SENTINELS = (
    "skip_thought_signature_validator", "context_engineering_is_the_way_to_go",
    "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I", "Y29udGV4dF9lbmdpbmVlcmluZ19pc190aGVfd2F5X3RvX2dv",
)  # fmt: skip
"""The documented values that turn off the check of a signature, as text and as base64."""
_BASE64 = re.compile(r"[A-Za-z0-9+/]*")
_sorted_json = json.JSONEncoder(sort_keys=True).encode
_WHOLE_NUMBER = re.compile(r"(?<=\d)\.0(?=[,\]}])")
"""The end of a number such as 2.0, which is the same as 2."""
_GENERATION = re.compile(r"gemini-(\d+)")
_COMPARED = {
    "functionCall": ("name", "args"),
    "inlineData": ("data",),
    "fileData": ("fileUri",),
    "executableCode": ("code",),
    "codeExecutionResult": ("output",),
    "toolCall": ("toolType", "args"),
    "toolResponse": ("response",),
}
"""The fields that a signature is issued for, by the data field of its part. Ids are not among them."""
_DATA_MISSING = "required oneof field 'data' must have one initialized field"
_VERTEX_HELP = "Learn more: https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/gemini"


@gemini("GEM-PART-02", "A request has contents, and every content has parts.",
    "* GenerateContentRequest.contents[{i}].parts: contents.parts must not be empty.",
    "* GenerateContentRequest.contents: contents is not specified",
    UnverifiedText("Unable to submit request because it must include at least one parts field, which describes the "
    f"prompt input. {_VERTEX_HELP}"),
    remedy="Leave empty turns out.", as_of="2025-02", source="chatwise#250; vercel/ai#3775")  # fmt: skip
def nothing_sent(request: GeminiBody) -> Iterator[Violation]:
    request.see([request.contents])
    if not request.contents:
        yield request.violation("/contents", message=2 if request.vertex else 1)
    for i, content in enumerate(request.contents):
        if not content.get("parts"):
            yield request.violation(f"/contents/{i}/parts", {"i": i}, message=2 if request.vertex else 0)


gemini("GEM-TURN-03", "The role of a content is `user` or `model`; Vertex AI needs one in every content.",
    "Please use a valid role: user, model.",
    each=lambda request: [(f"/contents/{i}", content.get("role", "" if request.vertex else "user"))
    for i, content in enumerate(request.contents)],
    at="/role", when=lambda item: item[1] not in ("user", "model"),
    remedy="Use `model` for the assistant, `user` for tool results, and `systemInstruction` for instructions.",
    as_of="2026", recorded="a recorded refusal; litellm#22003")  # fmt: skip


@gemini("GEM-PART-01", "Every part has a data field; on Vertex AI a text without a signature is not empty.",
    "* GenerateContentRequest.contents[{i}].parts[{j}].data: " + _DATA_MISSING,
    "Unable to submit request because it has an empty text parameter. Add a value to the parameter and try again. "
    + _VERTEX_HELP, remedy='Leave the part out; if it has a signature, send the text "".', as_of="2026-05",
    source="CLIProxyAPI#1292; genkit#3816; FLIT#70; sketch#68; Portkey gateway#462")  # fmt: skip
def part_without_data(request: GeminiBody) -> Iterator[Violation]:
    for part in request.see(request.parts):
        if not part.kind and "videoMetadata" not in part.fields:
            yield request.violation(part.pointer)
        elif request.vertex and part.fields.get("text") == "" and not part.signature and part.kind == "text":
            yield request.violation(part.pointer, message=1)


gemini("GEM-PART-03", "Every part of the system instruction has a data field.",
    "* GenerateContentRequest.system_instruction.parts[{i}].data: " + _DATA_MISSING,
    applies=lambda request: not request.vertex,
    each=lambda request: [(f"/systemInstruction/parts/{j}", fields)
    for j, fields in enumerate((request.fields.get("systemInstruction") or {}).get("parts") or ())],
    when=lambda item: not Part(0, 0, item[1], "").kind, remedy="Without a system text, leave `systemInstruction` out.",
    as_of="2025-04", source="one-api#2243")  # fmt: skip


@gemini("GEM-PART-05", "Reasoning is not sent back as plain text, which the model then imitates.", severity="warned",
    remedy="Leave reasoning out, or mark its part with `thought`.", as_of="2026",
    recorded="eight recorded acceptances of marked parts")  # fmt: skip
def reasoning_as_text(request: GeminiBody) -> Iterator[Violation]:
    for run in request.see(request.model_runs):
        for part in run.parts:
            value = part.fields.get("text")
            if not value or part.fields.get("thought"):
                continue
            if _REASONING_AS_TEXT.match(value) or request.tokens.item(f"reasoning:{value}"):
                yield request.violation(part.pointer)


def _media(request: GeminiBody) -> Iterator[tuple[str, Fields]]:
    """Yield the inline and referenced files, also those in function results, with their pointers."""
    for part in request.parts:
        if part.fields.keys().isdisjoint(("inlineData", "fileData", "functionResponse")):
            continue
        inner = part.object("functionResponse").get("parts") or ()
        holders = [(part.pointer, part.fields)]
        holders += [(f"{part.pointer}/functionResponse/parts/{n}", fields) for n, fields in enumerate(inner)]
        for pointer, fields in holders:
            for name in ("inlineData", "fileData"):
                if name in fields:
                    yield f"{pointer}/{name}", fields[name]


@gemini("GEM-MEDIA-01", "A file has a media type that the models accept.",
    "Unsupported MIME type: {type}", remedy="Find the type by the first bytes of the data; convert SVG.",
    as_of="2026-01", source="crush#995; comic-translate#399; gemini-cli#3054")  # fmt: skip
def unsupported_media_type(request: GeminiBody) -> Iterator[Violation]:
    for pointer, blob in request.see(list(_media(request))):
        type = text(blob, "mimeType")
        if not _MEDIA_TYPE.fullmatch(type) and (type or "fileUri" not in blob):
            certain = "fileUri" not in blob and _REFUSED_MEDIA_TYPE.fullmatch(type) is not None
            yield request.violation(f"{pointer}/mimeType", {"type": type}, certain=certain)


@gemini("GEM-MEDIA-02", "Files inside the request have at most 100 MB together, a PDF at most 50 MB.",
    UnverifiedText("Request payload size exceeds the limit: {size} bytes."), remedy="Upload the file and send its URI.",
    as_of="2026", documented="provider documentation; wording from memory")  # fmt: skip
def media_too_large(request: GeminiBody) -> Iterator[Violation]:
    if not request.may_exceed(_MAX_PDF):
        return
    sizes = [(len(text(blob, "data")) * 3 // 4, text(blob, "mimeType")) for _, blob in _media(request)]
    papers = [size for size, type in request.see(sizes) if type == "application/pdf"]
    if sum(size for size, _ in sizes) > _MAX_MEDIA:
        yield request.violation("/contents", {"size": _MAX_MEDIA})
    elif sum(papers) > _MAX_PDF:
        yield request.violation("/contents", {"size": _MAX_PDF}, certain=max(papers) > _MAX_PDF)


gemini("GEM-MEDIA-03", "Before Gemini 3, a function result contains no media.",
    UnverifiedText("Multimodal function responses are not supported for this model."),
    applies=lambda request: request.traits.functions_alone,
    each=lambda request: [part for run in request.runs for part in request.see(run.responses)],
    at="/functionResponse/parts", when=lambda part: part.object("functionResponse").get("parts"),
    remedy="Put the media into a user content after the result.", as_of="2026",
    source="provider documentation")  # fmt: skip


@gemini("GEM-TURN-01", "The model's calls follow a user turn or function results.",
    "Please ensure that function call turn comes immediately after a user turn or after a function response turn.",
    remedy="Start with the user; adjacent contents of the model count as one.", as_of="2026-05",
    source="gemini-cli#26486; four recordings of adjacent contents")  # fmt: skip
def calls_first(request: GeminiBody) -> Iterator[Violation]:
    first = request.runs[0] if request.runs else None
    if any(run.calls for run in request.see(request.model_runs)) and first and first.calls:
        yield request.violation(f"/contents/{first.calls[0].content}")


@gemini("GEM-TURN-04", "The user starts the conversation and, with models that accept no prefill, ends it.",
    UnverifiedText("Please ensure that multiturn requests alternate between user and model."),
    "Please ensure that multiturn requests ends with a user role or a function response.",
    remedy="Start and end with a user content.", as_of="2026-08",
    source="one-api#836; Portkey gateway#258; crewAI#6973")  # fmt: skip
def model_first_or_last(request: GeminiBody) -> Iterator[Violation]:
    if not request.see(request.runs):
        return
    first, last = request.runs[0], request.runs[-1]
    if first.role == "model" and not first.calls:
        yield request.violation(f"/contents/{first.first}/role", certain=False)
    if last.role == "model" and request.traits.prefill == "rejected":
        yield request.violation(f"/contents/{last.last}/role", message=1)


def _pairs(request: GeminiBody) -> Iterator[tuple[Run, Run]]:
    """Yield adjacent runs; before the first and after the last there is an empty one."""
    nothing = Run("", 0, 0, (), (), ())
    return pairwise((nothing, *request.runs, nothing))


@gemini("GEM-TURN-02", "A model turn with n function calls is followed by n function results.",
    "Please ensure that the number of function response parts is equal to the number of function call parts of the "
    "function call turn.", remedy="Send one result for each call, directly after it, in one content or in several.",
    as_of="2026-02",
    source="gemini-cli#3814; gemini-cli#17208; gemini-cli#18509; ten recordings of results in several "
    "contents")  # fmt: skip
def result_count_differs(request: GeminiBody) -> Iterator[Violation]:
    for before, after in _pairs(request):
        request.see(before.calls or after.responses)
        if len(before.calls) != len(after.responses):
            without_results = after.first if after.role == "user" else before.last
            index = after.responses[0].content if after.responses else without_results
            yield request.violation(f"/contents/{index}/parts")


@gemini("GEM-TURN-05", "Before Gemini 3, function results have a content of their own.", severity="warned",
    applies=lambda request: request.traits.functions_alone, remedy="Put other parts into another content.",
    as_of="2026", recorded="five recorded acceptances")  # fmt: skip
def results_with_other_parts(request: GeminiBody) -> Iterator[Violation]:
    for i, content in enumerate(request.contents):
        results = ["functionResponse" in part for part in content.get("parts") or ()]
        if any(results) and request.see(results) and not all(results):
            yield request.violation(f"/contents/{i}/parts")


@gemini("GEM-TURN-06", "A function result has the name of its call and, if any result has an id, the id of its call.",
    UnverifiedText("Please ensure that the id of each function response part is the id of its function call part."),
    UnverifiedText("Please ensure that the name of each function response part is the name of its function call part."),
    applies=lambda request: request.traits.strict_turns, certain=False,
    remedy="Repeat the id if the call has one, and the name always.", as_of="2026",
    source="CLIProxyAPI#5199; 74 recorded requests with ids")  # fmt: skip
def result_of_other_call(request: GeminiBody) -> Iterator[Violation]:
    for before, after in _pairs(request):
        has_ids = any(part.object("functionResponse").get("id") for part in request.see(after.responses))
        ids = [_call_id(request, call) if has_ids else "" for call in before.calls]
        by_id = has_ids and all(ids)
        names = [text(call.object("functionCall"), "name") for call in before.calls]
        waiting = [(id if by_id else "", name) for id, name in zip(ids, names, strict=True)]
        for part in after.responses:
            result = part.object("functionResponse")
            call = (text(result, "id") if by_id else "", text(result, "name"))
            if call in waiting:
                waiting.remove(call)
            elif call[1] and call[1] in [name for _, name in waiting]:
                yield request.violation(f"{part.pointer}/functionResponse/id")
            else:
                yield request.violation(f"{part.pointer}/functionResponse/name", message=1)


def _call_id(request: GeminiBody, call: Part) -> str:
    """Return the id of a call, or the one that it was issued with."""
    id = text(call.object("functionCall"), "id")
    issued = None if id or not call.signature else request.tokens.find(call.signature)
    return id or (issued.id if issued else "")


_MISSING_SIGNATURE = (
    "Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly, "
    "and missing thought_signature may lead to degraded model performance. Additional data, function call "
    "`default_api:{name}` , position {n}. Please refer to https://ai.google.dev/gemini-api/docs/thought-signatures for "
    "more details."
)
_MISSING_SIGNATURE_VERTEX = (
    "Unable to submit request because function call `{name}` in the {n}. content block is missing a `thought_signature`. "
    "Learn more: https://docs.cloud.google.com/vertex-ai/generative-ai/docs/thought-signatures"
)


def first_calls(request: GeminiBody) -> Iterator[tuple[Part, bool]]:
    """Yield the first call of each model run since the last user input, and whether an earlier one is signed."""
    start = request.turn_start
    is_signed = False
    for run in request.model_runs:
        if run.first > start and run.calls:
            yield run.calls[0], is_signed
            is_signed = is_signed or bool(run.calls[0].signature)


def _missing(request: GeminiBody, call: Part, pointer: str) -> Violation:
    fields = {"name": text(call.object("functionCall"), "name"), "n": call.content + 1}
    certain = call.content > request.last_input(lambda value: value is not None)  # an empty text, too
    return request.violation(pointer, fields, message=int(request.vertex), certain=certain)


@gemini("GEM-SIG-01", "Since the last user input, the first call of the model has its signature.",
    _MISSING_SIGNATURE,
    _MISSING_SIGNATURE_VERTEX,
    applies=lambda request: request.traits.signed_calls == "required" and request.traits.tools,
    remedy="Store each signature with its part and send both back; for calls of another provider, send the documented "
    "placeholder and report it.", as_of="2026-07",
    source="dify#29187; obsidian-gemini#228; ironclaw#1510; cc-switch#5725; OmniRoute#2077")  # fmt: skip
def first_call_unsigned(request: GeminiBody) -> Iterator[Violation]:
    for call, is_signed in request.see(list(first_calls(request))):
        if not call.signature and not is_signed:
            yield _missing(request, call, f"{call.pointer}/thoughtSignature")


@gemini("GEM-SIG-03", "Each later model turn since the last user input has a signature on its first call, too.",
    _MISSING_SIGNATURE,
    _MISSING_SIGNATURE_VERTEX,
    applies=lambda request: request.traits.signed_calls == "required" and request.traits.tools,
    remedy="Check every turn, not only the first.", as_of="2026", documented="provider documentation")  # fmt: skip
def later_call_unsigned(request: GeminiBody) -> Iterator[Violation]:
    for call, is_signed in request.see(list(first_calls(request))[1:]):
        if not call.signature and is_signed:
            yield _missing(request, call, call.pointer)


_WRONG_SIGNATURE = (
    "Corrupted thought signature.",
    f"Unable to submit request because Thought signature is not valid.. {_VERTEX_HELP}",
)


def part_content(fields: Fields) -> tuple[str, str]:
    """Return what a signature on a part is issued for: the data field, and its value as text."""
    for kind, names in _COMPARED.items():
        value = fields.get(kind)
        if isinstance(value, dict):
            compared = [value.get(name) or None for name in names]  # an empty value is a field that is left out
            return kind, _WHOLE_NUMBER.sub("", _sorted_json(compared))
    return "text", text(fields, "text")


def normalize_signature(signature: str) -> str:
    """Write a signature in one alphabet of base64, without padding: both stand for the same bytes."""
    return signature.replace("-", "+").replace("_", "/").rstrip("=")


def _is_sentinel(signature: str) -> bool:
    return signature.rstrip("=") in _SENTINELS


@gemini("GEM-SIG-02", "A signature is sent back unchanged, on its part, once, to the issuer that gave it.",
    *_WRONG_SIGNATURE, applies=lambda request: "none" not in request.traits.thinking,
    remedy="Store the origin of a signature; leave it out, or send the documented placeholder, for any other target.",
    as_of="2026-07", source="gemini-cli#13467; Antigravity#970; SillyBunny#647; 9router#301; sub2api#393")  # fmt: skip
def signature_invalid(request: GeminiBody) -> Iterator[Violation]:
    reader = _SignatureReader(request)
    calls: tuple[Part, ...] = ()
    for run in request.runs:
        signed = [part for part in run.parts if part.signature]
        for part in request.see(signed):
            if run.role == "model":
                problem = reader.find_problem(part)
            else:
                own = {normalize_signature(call.signature) for call in calls if not _is_sentinel(call.signature)}
                # A result may repeat the signature of a call.
                is_copy = part.kind == "functionResponse" and normalize_signature(part.signature) in own
                problem = "" if is_copy else "on a user part"
            if problem:
                pointer = f"{part.pointer}/thoughtSignature"
                yield request.violation(pointer, message=int(request.vertex), certain=problem != "other content")
        calls = run.calls


class _SignatureReader:
    """Compares signatures with the issued ones, in the order in which they are sent back."""

    def __init__(self, request: GeminiBody) -> None:
        self._request = request
        self._is_bound = request.traits.signed_calls == "required"
        """Whether a signature counts for its own part only; older models accept it on several calls."""
        self._used: set[str] = set()
        self._reached: dict[str, int] = {}

    def find_problem(self, part: Part) -> str:
        """Return why the signature of a model part is refused; empty if it is accepted."""
        if _is_sentinel(part.signature):
            return ""
        signature = normalize_signature(part.signature)
        is_repeated = signature in self._used
        self._used.add(signature)
        if not self._request.tokens.is_known:
            if not _BASE64.fullmatch(signature):
                return "not base64"
            return "repeated" if is_repeated and self._is_bound else ""
        token = self._request.tokens.find(part.signature)
        if token is None or not _is_issuer(token, self._request):
            return "not issued here"
        return self._compare(part, token, is_repeated) if self._is_bound else ""

    def _compare(self, part: Part, token: IssuedToken, is_repeated: bool) -> str:
        if token.kind and part.kind != token.kind:
            return "" if part.fields.get("thought") else "on another part"
        if token.reply:
            reached = self._reached.get(token.reply, -1)
            self._reached[token.reply] = max(reached, token.index)
            if is_repeated or token.index < reached:
                return "repeated or in another order"
        if part.kind != "text" and not has_content(token, *part_content(part.fields)):
            return "other content"
        return ""


def _is_issuer(token: IssuedToken, request: GeminiBody) -> bool:
    return token.is_from_target(request) and matches(_generation(token.model), _generation(request.model))


@cache
def _generation(model: str) -> str:
    """Return the number of a model's generation, whose models read each other's signatures; empty if unknown."""
    match = _GENERATION.search(model)
    return match[1] if match else ""


@gemini("GEM-SIG-05", "A signed text is sent back unchanged; it may follow other text in its part.",
    *_WRONG_SIGNATURE, applies=lambda request: request.traits.signed_calls == "required", certain=False,
    remedy="Start a new part after each signature, and leave signed parts unchanged.", as_of="2026-07",
    source="SillyBunny#647; recorded acceptances of joined texts, and of a text's signature on a thought")  # fmt: skip
def signed_text_changed(request: GeminiBody) -> Iterator[Violation]:
    for run in request.model_runs:
        for part in run.parts:
            if not part.signature or part.kind != "text" or part.fields.get("thought"):
                continue
            token = request.tokens.find(part.signature)
            if token is None or token.kind != "text" or not _is_issuer(token, request):
                continue
            request.see([token])
            value = text(part.fields, "text")
            ends_signed = not token.length or has_content(token, "text", value[-token.length :])
            if not ends_signed and not has_content(token, "text", value):
                yield request.violation(part.pointer, message=int(request.vertex))


def _is_signature_lost(request: GeminiBody, run: Run) -> bool:
    """Tell whether a model turn came with a signature and has none; if nothing is known of it, whether it has none."""
    if not run.parts or any(part.signature for part in run.parts):
        return False
    item = request.tokens.item(f"content:{turn_text([part.fields for part in run.parts])}")
    return item is None or item.kind == "signed"


def turn_text(parts: list[Fields]) -> str:
    """Return the texts and calls of a model turn as one text, by which its reply is found."""
    texts = [text(part, "text") for part in parts if not part.get("thought")]
    calls = [part_content(part)[1] for part in parts if "functionCall" in part]
    return "\n".join(["".join(texts), *calls])


gemini("GEM-SIG-06", 'An answer without calls keeps its signature, which is often on a last part with the text `""`.',
    severity="lost", applies=lambda request: request.traits.signed_calls == "required",
    each=lambda request: [run.parts[-1] for run in request.see([run for run in request.model_runs if not run.calls])
    if request.tokens.is_known and _is_signature_lost(request, run)],
    remedy="Keep a part that has a signature, even if its text is empty.", as_of="2026",
    documented="vercel/ai#12402; pydantic-ai#3481")  # fmt: skip


@gemini("GEM-SIG-07", "Earlier turns keep all of their signatures or none.", severity="lost",
    applies=lambda request: request.traits.strict_turns, remedy="Drop the reasoning of all earlier turns, or of none.",
    as_of="2026-09", source="maintainers of Google's ADK")  # fmt: skip
def some_turns_unsigned(request: GeminiBody) -> Iterator[Violation]:
    start = request.turn_start
    turns: list[list[Run]] = [[]]
    for run in request.runs:
        if run.role == "model" and run.first < start:
            turns[-1].append(run)
        elif run.role == "user" and len(run.responses) < len(run.parts):
            turns.append([])
    signed = [any(part.signature for run in turn for part in run.parts) for turn in turns]
    if not any(request.see(signed)):
        return
    for turn, is_signed in zip(turns, signed, strict=True):
        lost = [run for run in turn if not is_signed and _is_signature_lost(request, run)]
        if lost:
            yield request.violation(f"/contents/{lost[0].first}")


gemini("GEM-SIG-08", "A signature is not one of the documented placeholders that turn off its check.",
    severity="warned",
    each=lambda request: [part for run in request.model_runs for part in run.parts if part.signature],
    at="/thoughtSignature", when=lambda part: _is_sentinel(part.signature),
    remedy="Send a placeholder only on the first call of a turn that another provider made, and report it.",
    as_of="2026", recorded="17 recorded parts")  # fmt: skip

gemini("GEM-SIG-09", "Gemini 2.5 accepts calls without their signatures.", severity="warned",
    applies=lambda request: request.traits.signed_calls == "optional",
    each=lambda request: [run.calls[0] for run in request.see([run for run in request.model_runs if run.calls])
    if _is_signature_lost(request, run)],
    remedy="Send back the signatures that came.", as_of="2026", recorded="18 recorded parts; rowboat#694")  # fmt: skip


@gemini("GEM-PARAM-10", "The request fits into the context window.",
    "The input token count ({count}) exceeds the maximum number of tokens allowed ({limit}).",
    applies=lambda request: bool(request.traits.context_window), remedy="Shorten the history.", as_of="2026",
    recorded="a recorded refusal")  # fmt: skip
def request_too_long(request: GeminiBody) -> Iterator[Violation]:
    limit = request.traits.context_window or 0
    media = sum("inlineData" in part.fields or "fileData" in part.fields for part in request.parts)
    if not request.may_exceed(2 * (limit - MOST_MEDIA_TOKENS * media)):  # a token of text takes at least two bytes
        return
    count = sum(request.see([request.token_counts])[0].values())
    if count > limit:
        characters = sum(len(part.fields.get("text", "")) for part in request.parts)
        certain = characters // _MAX_CHARACTERS_PER_TOKEN > limit
        yield request.violation("/contents", {"count": count, "limit": limit}, certain=certain)
