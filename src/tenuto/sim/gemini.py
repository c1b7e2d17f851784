"""The generateContent dialect: read a request that no rule refuses, and write a turn as one body or as a stream."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, TypeAlias

import msgspec

from tenuto.core import jsonio
from tenuto.rules.body import Fields, text
from tenuto.rules.gemini import DATA_FIELDS, GeminiBody
from tenuto.rules.gemini_turns import part_content
from tenuto.rules.issued_tokens import IssuedToken, content_digest
from tenuto.sim import errors, providers, script
from tenuto.sim.dialects import (
    OfferedTool,
    ParsedRequest,
    PastMessage,
    SimDialect,
    TurnRequest,
    add_faults,
    cut_pieces,
    encode_piece,
    find_stop,
)
from tenuto.sim.script import Fault, Step, Turn
from tenuto.sim.tokens import BASE62, SeededRandom, estimate_tokens

_TYPE_NUMBERS = {1: "string", 2: "number", 3: "integer", 4: "boolean", 5: "array", 6: "object", 7: "null"}
"""The types of a schema by their enum numbers."""


class GeminiTurnRequest(TurnRequest, frozen=True, kw_only=True):
    """The content of a generateContent request, with its body."""

    body: GeminiBody


def to_turn_request(body: GeminiBody, request: ParsedRequest) -> GeminiTurnRequest:
    config = body.config
    system = (body.fields.get("systemInstruction") or {}).get("parts") or []
    return GeminiTurnRequest(
        body=body,
        request=request,
        turn=sum(content.get("role") == "model" for content in body.contents),
        system="\n".join(_texts(system)),
        messages=tuple(_message(content) for content in body.contents),
        tools=_tools(body),
        tool_choice=_tool_choice(body),
        thinks="none" not in request.target.traits.thinking and body.thinking.get("thinkingBudget") != 0,
        shows_thinking=bool(body.thinking.get("includeThoughts")),
        max_tokens=config.get("maxOutputTokens"),
        stop=tuple(config.get("stopSequences") or ()),
        schema=_answer_schema(config),
        choices=max(1, config.get("candidateCount") or 1),
        prompt_tokens=sum(body.token_counts.values()),
    )


def token_details(counts: dict[str, int]) -> list[dict[str, Any]]:
    return [{"modality": modality, "tokenCount": count} for modality, count in counts.items()]


def count_tokens(request: GeminiTurnRequest) -> dict[str, Any]:
    return {"totalTokens": request.prompt_tokens, "promptTokensDetails": token_details(request.body.token_counts)}


def _texts(parts: list[Fields]) -> list[str]:
    return [part["text"] for part in parts if part.get("text") and not part.get("thought")]


def _message(content: Fields) -> PastMessage:
    parts = content.get("parts") or []
    results = [part["functionResponse"] for part in parts if "functionResponse" in part]
    return PastMessage(
        role="assistant" if content.get("role") == "model" else "user",
        texts=tuple(_texts(parts)),
        calls=sum("functionCall" in part for part in parts),
        results=tuple(_result_text(result.get("response") or {}) for result in results),
    )


def _result_text(response: Fields) -> str:
    for key in ("output", "result", "content", "error"):
        if len(response) == 1 and isinstance(response.get(key), str):
            return str(response[key])
    return jsonio.encode(response).decode()


def _tools(body: GeminiBody) -> tuple[OfferedTool, ...]:
    tools = []
    for _, _, function in body.declarations:
        schema = function.get("parametersJsonSchema")
        if not isinstance(schema, dict):
            schema = _json_schema(function.get("parameters") or {})
        tools.append(OfferedTool(name=text(function, "name"), schema=schema))
    return tuple(tools)


def _tool_choice(body: GeminiBody) -> str:
    config = body.tool_config.get("functionCallingConfig") or {}
    mode = str(config.get("mode", "AUTO")).upper()
    if mode == "ANY":
        names = config.get("allowedFunctionNames") or [text(function, "name") for _, _, function in body.declarations]
        return str(names[0]) if len(names) == 1 else "required"
    return "none" if mode == "NONE" else "auto"


def _answer_schema(config: Fields) -> dict[str, Any] | None:
    formats = config.get("responseFormat") or []
    for format in formats if isinstance(formats, list) else [formats]:
        content = format.get("text") if isinstance(format, dict) else None
        if isinstance(content, dict):
            schema = content.get("jsonSchema") or content.get("json_schema") or content.get("schema")
            return schema if isinstance(schema, dict) else {}
    for name in ("responseJsonSchema", "_responseJsonSchema"):
        if isinstance(config.get(name), dict):
            return dict(config[name])
    if "responseSchema" in config:
        return _json_schema(config["responseSchema"])
    return {} if config.get("responseMimeType") == "application/json" else None


def _json_schema(schema: Fields) -> dict[str, Any]:
    """Write a schema of Google's as JSON Schema: lower-case types, `nullable` as a second type."""
    result = dict(schema)
    if "type" in result:
        type = _TYPE_NUMBERS.get(result["type"]) or str(result["type"]).lower()
        result["type"] = [type, "null"] if result.pop("nullable", False) else type
    if isinstance(result.get("properties"), dict):
        result["properties"] = {name: _json_schema(inner) for name, inner in result["properties"].items()}
    if isinstance(result.get("items"), dict):
        result["items"] = _json_schema(result["items"])
    if "anyOf" in result:
        result["anyOf"] = [_json_schema(inner) for inner in result["anyOf"]]
    return result


_ID_CHARACTERS = "0123456789abcdefghijklmnopqrstuvwxyz"
_IMAGE_TOKENS = 1_120
_BLOCK_REASONS = {
    "SAFETY", "OTHER", "BLOCKLIST", "PROHIBITED_CONTENT", "IMAGE_SAFETY", "MODEL_ARMOR", "JAILBREAK", "SPII",
}  # fmt: skip
_FINISH_REASONS = {"length": "MAX_TOKENS", "filter": "SAFETY", "stop_sequence": "STOP"}
_SAFETY_RATINGS = [
    {"category": "HARM_CATEGORY_DANGEROUS_CONTENT", "probability": "HIGH", "blocked": True},
    {"category": "HARM_CATEGORY_HARASSMENT", "probability": "NEGLIGIBLE"},
    {"category": "HARM_CATEGORY_HATE_SPEECH", "probability": "NEGLIGIBLE"},
    {"category": "HARM_CATEGORY_SEXUALLY_EXPLICIT", "probability": "NEGLIGIBLE"},
]
_SIGNATURE_SIZES = {"toolResponse": (20_000, 40_000), "inlineData": (20_000, 60_000)}
_SIGNATURE_SIZE = (160, 1_900)
"""The sizes in bytes that recorded signatures have."""
_SIGNATURE_APART = 0.6
"""How often the signature of a streamed text comes in a chunk of its own, with an empty text."""
_SEARCH_CHIP = (
    "<style>\n.container {{\n  align-items: center;\n  border-radius: 8px;\n  display: flex;\n}}\n</style>\n"
    '<div class="container">\n  <a class="chip" href="https://example.org/search">{query}</a>\n</div>\n'
)
_CREATE_TIME = "2026-11-15T12:00:00.000000Z"


class _TextPart(msgspec.Struct):
    """Text or reasoning in the pieces of a stream, with faults between them."""

    pieces: list[str | Fault | script.StreamError]
    is_thought: bool = False
    signature: str = ""
    is_signature_apart: bool = False
    """Whether the signature is streamed after the text, with an empty text."""

    @property
    def text(self) -> str:
        return "".join(piece for piece in self.pieces if isinstance(piece, str))

    def part(self, text: str) -> Fields:
        return {"text": text, "thought": True} if self.is_thought else {"text": text}


class _DataPart(msgspec.Struct):
    """A part that is not text."""

    fields: Fields
    tokens: int
    signature: str = ""


_Item: TypeAlias = _TextPart | _DataPart | Fault | script.StreamError
_ChunkPart: TypeAlias = tuple[Fields, int, bool] | Fault | script.StreamError
"""A part of a stream, the number of answer tokens up to its end, and whether the answer has begun."""


def _answer_tokens(item: _Item) -> int:
    if isinstance(item, _DataPart):
        return item.tokens
    return estimate_tokens(item.text) if isinstance(item, _TextPart) and not item.is_thought else 0


def write(request: GeminiTurnRequest, turn: Turn, random: SeededRandom) -> list[bytes | Fault]:
    reply = _Reply(request, random)
    reply.play(turn)
    if not request.request.stream:
        return add_faults(encode_piece(reply.response_object()), turn)
    chunks = reply.stream_chunks()
    if request.request.headers.get("x-sim-alt") == "sse":
        return [b"data: %b\r\n\r\n" % encode_piece(chunk) if isinstance(chunk, dict) else chunk for chunk in chunks]
    starts = itertools.chain([b"["], itertools.repeat(b",\r\n"))  # one array
    array = [next(starts) + encode_piece(chunk) + b"\n" if isinstance(chunk, dict) else chunk for chunk in chunks]
    return [*array, b"]"]


class _Reply:
    """Turn steps into parts, as far as output limit and stop sequences allow, and sign them."""

    def __init__(self, request: GeminiTurnRequest, random: SeededRandom) -> None:
        self._request = request
        self._random = random
        self._traits = request.request.target.traits
        self._body = body = request.body
        self._prompt_details = token_details(body.token_counts)
        self._vertex = body.vertex
        created = {"createTime": _CREATE_TIME} if body.vertex else {}
        self._id = random.word(22, f"{BASE62}-_")
        self._identity = {"modelVersion": request.request.requested_model, **created, "responseId": self._id}
        self._items: list[_Item] = []
        self._queries: list[str] = []
        self._sources: dict[str, str] = {}
        self._results: list[int] = []
        """The sources that the last search found."""
        self._supports: list[tuple[_TextPart, int, str, list[int]]] = []
        """Texts that cite sources: the part, the offset in bytes, the text, the sources."""
        self._metadata: dict[str, Any] | None = None
        self._block: dict[str, str] | None = None
        """The reason why the prompt is blocked; then there are no candidates."""
        self._thinking_tokens = self._tool_tokens = 0
        self._room = request.max_tokens
        self._finish_reason, self._finish_message, self._is_finished = "STOP", "", False

    def play(self, turn: Turn) -> None:
        for step in turn:
            self._add(step)
            if self._is_finished:
                break
        texts = [item for item in self._items if isinstance(item, _TextPart) and not item.is_thought]
        self._metadata = self._grounding(texts)
        if self._block is None:
            for index, item in enumerate(self._items_to_sign(texts)):
                self._sign(item, index)

    def _add(self, step: Step) -> None:
        match step:
            case script.Think(text, redacted):
                pieces = self._fit([text] if isinstance(text, str) else text)
                self._thinking_tokens += estimate_tokens("".join(pieces))
                if self._request.shows_thinking and not redacted and any(pieces):
                    self._text_part(is_thought=True).pieces += pieces
            case script.Say():
                self._add_text(step)
            case script.CallTool():
                self._add_call(step)
            case script.Search():
                self._add_search(step)
            case script.RunCode():
                self._add_code(step)
            case script.SendImage(data, media_type):
                self._add_data({"inlineData": {"mimeType": media_type, "data": data}}, _IMAGE_TOKENS)
            case script.Refuse(text, category):
                reason = category.upper()
                if any(isinstance(item, _TextPart | _DataPart) for item in self._items):
                    self._finish(reason if reason in _BLOCK_REASONS else "SAFETY", text)
                else:
                    reason = reason if reason in _BLOCK_REASONS else "PROHIBITED_CONTENT"
                    self._block = {"blockReason": reason, "blockReasonMessage": text}
                    self._is_finished = True
            case script.Stop(reason):
                self._finish(_FINISH_REASONS[reason])
            case script.Pause():
                self._is_finished = True
            case script.Disconnect() | script.Stall() | script.SlowStream() | script.StreamError():
                last = self._items[-1] if self._items else None
                (last.pieces if isinstance(last, _TextPart) else self._items).append(step)

    def _add_text(self, step: script.Say) -> None:
        part = self._text_part(is_thought=False)
        before = part.text
        pieces = list(self._random.pieces(step.text))
        end = find_stop(before, "".join(pieces), self._request.stop)
        if end is not None:
            pieces = cut_pieces(pieces, end - len(before))
            part.pieces = cut_pieces(part.pieces, end)  # the stop sequence may begin in the text before
        pieces = self._fit(pieces)
        part.pieces += pieces
        text, indices = "".join(pieces), [self._source(cite.url, cite.title) for cite in step.cites] or self._results
        if indices and text:
            self._supports.append((part, len(before.encode("utf-8", "surrogatepass")), text, indices))
        self._results = []
        self._is_finished = self._is_finished or end is not None

    def _add_call(self, step: script.CallTool) -> None:
        args: Any = step.args
        if isinstance(args, str):
            try:
                is_object = isinstance(jsonio.parse(args), dict)
            except jsonio.JsonError:
                is_object = False
            if not is_object:
                self._finish("MALFORMED_FUNCTION_CALL", f"Malformed function call: {step.name}({args})")
                return
            args = msgspec.Raw(args.encode())
        call: Fields = {"name": step.name, "args": args}
        if self._traits.strict_turns or step.id:
            call["id"] = step.id or self._random.word(8, _ID_CHARACTERS)
        size = estimate_tokens(step.name) + estimate_tokens(jsonio.encode(args).decode())
        self._add_data({"functionCall": call}, size)

    def _add_search(self, step: script.Search) -> None:
        self._queries.append(step.query)
        self._results = [self._source(found.url, found.title) for found in step.found]
        results = sum(estimate_tokens(found.title + found.text) for found in step.found)
        self._tool_tokens += estimate_tokens(step.query) + results
        if self._body.tool_config.get("includeServerSideToolInvocations"):
            shared = {"toolType": "GOOGLE_SEARCH_WEB", "id": self._random.word(8, _ID_CHARACTERS)}
            call = {**shared, "args": {"queries": [step.query]}}
            response = {**shared, "response": {"search_suggestions": _SEARCH_CHIP.format(query=step.query)}}
            self._add_data({"toolCall": call}, estimate_tokens(step.query))
            self._add_data({"toolResponse": response}, 0)

    def _add_code(self, step: script.RunCode) -> None:
        id = {} if self._traits.functions_alone else {"id": self._random.word(8, _ID_CHARACTERS)}
        outcome = {"outcome": "OUTCOME_OK" if step.ok else "OUTCOME_FAILED"}
        output = {"output": step.output} if step.output else {}
        self._tool_tokens += estimate_tokens(step.output)
        code = {"language": "PYTHON", "code": step.code, **id}
        self._add_data({"executableCode": code}, estimate_tokens(step.code))
        self._add_data({"codeExecutionResult": {**outcome, **output, **id}}, 0)

    def _text_part(self, *, is_thought: bool) -> _TextPart:
        last = self._items[-1] if self._items else None
        if isinstance(last, _TextPart) and last.is_thought == is_thought:
            return last
        part = _TextPart([], is_thought)
        self._items.append(part)
        return part

    def _add_data(self, fields: Fields, size: int) -> None:
        if self._room is not None and size > self._room:
            self._finish("MAX_TOKENS")
            return
        self._items.append(_DataPart(fields, size))
        self._spend(size)

    def _fit(self, pieces: list[str]) -> list[str]:
        """Return the pieces that the output limit leaves room for; finish if some are left out."""
        room = self._room
        if room is not None and sum(map(len, pieces)) > room * 4:
            pieces = cut_pieces(pieces, room * 4)
            self._finish("MAX_TOKENS")
        self._spend(estimate_tokens("".join(pieces)))
        return pieces

    def _spend(self, size: int) -> None:
        if self._room is not None:
            self._room = max(0, self._room - size)

    def _finish(self, reason: str, message: str = "") -> None:
        self._finish_reason, self._finish_message, self._is_finished = reason, message, True

    def _source(self, url: str, title: str) -> int:
        self._sources.setdefault(url, title)
        return list(self._sources).index(url)

    def _grounding(self, texts: list[_TextPart]) -> dict[str, Any] | None:
        """Return `groundingMetadata`; None without searches and citations."""
        if not self._queries and not self._sources:
            return None
        hosts = {url: url.partition("://")[2].partition("/")[0] for url in self._sources}
        domains = {url: {"domain": host} if self._vertex else {} for url, host in hosts.items()}
        webs = [{"uri": url, "title": title or hosts[url], **domains[url]} for url, title in self._sources.items()]
        chip = _SEARCH_CHIP.format(query=self._queries[-1]) if self._queries else ""
        supports = [_support(texts, *support) for support in self._supports]
        return {
            **({"searchEntryPoint": {"renderedContent": chip}} if self._queries else {}),
            **({"groundingChunks": [{"web": web} for web in webs]} if webs else {}),
            **({"groundingSupports": supports} if supports else {}),
            **({"retrievalMetadata": {}} if self._vertex else {}),
            **({"webSearchQueries": self._queries} if self._queries else {}),
        }

    # --- signatures ---

    def _items_to_sign(self, texts: list[_TextPart]) -> list[_TextPart | _DataPart]:
        """Choose the items to sign: the first call, or without calls the last text; code, images and search in any case."""
        items = [item for item in self._items if isinstance(item, _TextPart | _DataPart)]
        if self._traits.signed_calls == "optional":
            has_functions = bool(self._request.tools)
            answers = [item for item in items if not (isinstance(item, _TextPart) and item.is_thought)]
            return answers[:1] if self._request.thinks and has_functions else []
        if self._traits.signed_calls != "required":
            return []
        data = [item for item in items if isinstance(item, _DataPart)]
        calls = [item for item in data if "functionCall" in item.fields]
        if not calls and not texts and self._finish_reason == "STOP":
            texts = [_TextPart([])]  # no answer: the signature comes with an empty text
            self._items += texts
            items += texts
        others = [item for item in data if item not in calls and "codeExecutionResult" not in item.fields]
        signed = [*others, *(calls[:1] or texts[-1:])]
        return [item for item in items if any(item is one for one in signed)]

    def _sign(self, item: _TextPart | _DataPart, index: int) -> None:
        request = self._request.request
        if isinstance(item, _TextPart):
            kind, text = "text", item.text
            last = next((piece for piece in reversed(item.pieces) if isinstance(piece, str) and piece), "")
            item.is_signature_apart = self._random.random.random() < _SIGNATURE_APART or not last
            contents = [("text", text), ("text", "" if item.is_signature_apart else last)]
        else:
            kind, text = next(name for name in DATA_FIELDS if name in item.fields), ""
            contents = [part_content(_parsed(item.fields))]
        token = IssuedToken(
            kind=kind, provider=providers.imitated_row(request.provider).name, account=request.account,
            model=request.model, reply=self._id, index=index, length=len(text),
            contents=tuple(content_digest(*content) for content in contents),
            id=_parsed(item.fields).get("functionCall", {}).get("id", "") if isinstance(item, _DataPart) else "",
        )  # fmt: skip
        size = self._random.random.randint(*_SIGNATURE_SIZES.get(kind, _SIGNATURE_SIZE))
        item.signature = self._random.token(token, size)

    # --- writing ---

    def response_object(self) -> dict[str, Any]:
        if self._block is not None:
            return self._blocked()
        parts = [
            _signed(item.fields if isinstance(item, _DataPart) else item.part(item.text), item.signature)
            for item in self._items
            if isinstance(item, _DataPart) or (isinstance(item, _TextPart) and (item.text or item.signature))
        ]
        has_content = bool(parts) or self._finish_reason in ("STOP", "MAX_TOKENS")
        return self._chunk(
            parts, self._usage(sum(map(_answer_tokens, self._items)), final=True), self._ending(), has_content
        )

    def stream_chunks(self) -> list[dict[str, Any] | Fault]:
        """Return the chunks of a stream with its faults. An error ends it."""
        if self._block is not None:
            return [self._blocked()]
        parts = list(self._chunk_parts())
        last = max((n for n, part in enumerate(parts) if isinstance(part, tuple)), default=-1)
        chunks: list[dict[str, Any] | Fault] = []
        has_error = any(isinstance(part, script.StreamError) for part in parts)
        for n, part in enumerate(parts):
            if isinstance(part, script.StreamError):
                status = 503 if part.status == 529 else part.status
                error = errors.ApiError(status=status, message=part.message)
                return [*chunks, errors.error_body(self._request.request.provider, error)]
            if not isinstance(part, tuple):
                chunks.append(part)
                continue
            fields, count, has_answer = part
            is_last = n == last and not has_error
            ending = self._ending() if is_last else {} if self._vertex else {"index": 0}
            usage = self._usage(count, with_thinking=has_answer or is_last, final=is_last)
            chunks.append(self._chunk([fields], usage, ending))
        return chunks if last >= 0 else [*chunks, self._chunk([], self._usage(0, final=True), self._ending())]

    def _chunk_parts(self) -> Iterator[_ChunkPart]:
        count = 0
        for item in self._items:
            if isinstance(item, _TextPart):
                yield from _text_chunks(item, count)
                count += _answer_tokens(item)
            elif isinstance(item, _DataPart):
                count += item.tokens
                yield _signed(item.fields, item.signature), count, True
            else:
                yield item

    def _chunk(
        self, parts: list[Fields], usage: dict[str, Any], ending: dict[str, Any], has_content: bool = True
    ) -> dict[str, Any]:
        content: dict[str, Any] = {"parts": parts, "role": "model"} if parts else {"role": "model"}
        candidate = {"content": content if has_content else {}, **ending}
        candidates = [candidate]
        if self._request.choices > 1:
            candidates = [{**candidate, "index": n} for n in range(self._request.choices)]
        return {"candidates": candidates, "usageMetadata": usage, **self._identity}

    def _blocked(self) -> dict[str, Any]:
        usage = self._usage(0, final=not self._vertex)
        return {"promptFeedback": self._block, "usageMetadata": usage, **self._identity}

    def _ending(self) -> dict[str, Any]:
        """Return the fields of a candidate that only its last chunk has."""
        has_calls = any(isinstance(item, _DataPart) and "functionCall" in item.fields for item in self._items)
        message = self._finish_message or (
            "Model generated function call(s)." if has_calls and not self._vertex else ""
        )
        return {
            "finishReason": self._finish_reason,
            **({} if self._vertex else {"index": 0}),
            **({"finishMessage": message} if message else {}),
            **({"groundingMetadata": self._metadata} if self._metadata is not None else {}),
            **({"safetyRatings": _SAFETY_RATINGS} if self._finish_reason == "SAFETY" else {}),
        }

    def _usage(self, count: int, *, with_thinking: bool = True, final: bool = False) -> dict[str, Any]:
        """Return the token counts after `count` answer tokens. Vertex AI sends them at the end only."""
        if self._vertex and not final:
            return {"trafficType": "ON_DEMAND"}
        thinking = self._thinking_tokens if with_thinking else 0
        tools = self._tool_tokens if final else 0
        usage: dict[str, Any] = {"promptTokenCount": self._request.prompt_tokens}
        if count:
            usage["candidatesTokenCount"] = count
        usage["totalTokenCount"] = self._request.prompt_tokens + count + thinking + tools
        usage |= {"trafficType": "ON_DEMAND"} if self._vertex else {"serviceTier": "standard"}
        usage["promptTokensDetails"] = self._prompt_details
        if self._vertex and count:
            usage["candidatesTokensDetails"] = token_details({"TEXT": count})
        if tools:
            usage["toolUsePromptTokenCount"] = tools
            usage["toolUsePromptTokensDetails"] = token_details({"TEXT": tools})
        if thinking:
            usage["thoughtsTokenCount"] = thinking
        if "cachedContent" in self._body.fields and final:
            usage["cachedContentTokenCount"] = self._request.prompt_tokens // 2
            usage["cacheTokensDetails"] = token_details({"TEXT": self._request.prompt_tokens // 2})
        return usage


def _parsed(fields: Fields) -> Fields:
    """Return a part whose arguments are values, not JSON text."""
    call = fields.get("functionCall")
    if call and isinstance(call["args"], msgspec.Raw):
        return {"functionCall": {**call, "args": jsonio.parse(bytes(call["args"]))}}
    return fields


def _support(texts: list[_TextPart], part: _TextPart, start: int, text: str, indices: list[int]) -> dict[str, Any]:
    index = next(n for n, one in enumerate(texts) if one is part)
    place = {"partIndex": index, "startIndex": start}
    segment: dict[str, Any] = {name: value for name, value in place.items() if value}
    segment |= {"endIndex": start + len(text.encode("utf-8", "surrogatepass")), "text": text}
    return {"segment": segment, "groundingChunkIndices": indices}


def _text_chunks(item: _TextPart, before: int) -> list[_ChunkPart]:
    """Return the parts of a streamed text. The signature is on the last one, or on one more with an empty text."""
    chunks: list[_ChunkPart] = []
    has_answer = not item.is_thought or before > 0
    count, length, last = before, 0, -1
    for piece in item.pieces:
        if not isinstance(piece, str):
            chunks.append(piece)
        elif piece:
            length += len(piece)
            count = before if item.is_thought else before + (length + 3) // 4
            last = len(chunks)
            chunks.append((item.part(piece), count, has_answer))
    if item.signature and item.is_signature_apart:
        chunks.insert(last + 1, (_signed({"text": ""}, item.signature), count, True))
    elif item.signature and isinstance(chunk := chunks[last], tuple):
        chunks[last] = (_signed(chunk[0], item.signature), *chunk[1:])
    return chunks


def _signed(fields: Fields, signature: str) -> Fields:
    return {**fields, "thoughtSignature": signature} if signature else fields


DIALECT = SimDialect(
    to_turn_request=to_turn_request,
    write=write,
    count=count_tokens,
    stream_in_body=False,
    array_without_sse=True,
)
