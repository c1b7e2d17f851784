"""Parts of replies in the Gemini dialect: one feature each."""

from __future__ import annotations

import json

USAGE = {
    "promptTokenCount": 20,
    "candidatesTokenCount": 7,
    "totalTokenCount": 42,
    "cachedContentTokenCount": 8,
    "toolUsePromptTokenCount": 5,
    "thoughtsTokenCount": 10,
    "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 16}, {"modality": "AUDIO", "tokenCount": 4}],
    "candidatesTokensDetails": [{"modality": "TEXT", "tokenCount": 7}],
}


def chunk(*parts: dict, reason: str | int | None = None, candidate: dict | None = None, **fields: object) -> dict:
    """Return a chunk of a stream; a body that does not stream has the same form."""
    content: dict = {"content": {"parts": list(parts), "role": "model"}} if parts else {}
    if reason is not None:
        content["finishReason"] = reason
    head = {"modelVersion": "gemini-3-pro", "responseId": "resp_1"}
    return {"candidates": [{**content, "index": 0, **(candidate or {})}], **head, **fields}


def to_json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def sse(*chunks: dict) -> bytes:
    return b"".join(b"data: " + to_json(c) + b"\n\n" for c in chunks)


def array(*chunks: dict) -> bytes:
    return b"[" + b"\n,\n".join(json.dumps(c, indent=2).encode() for c in chunks) + b"\n]"


def text(piece: str, **fields: object) -> dict:
    return {"text": piece, **fields}


def thought(piece: str, **fields: object) -> dict:
    return {"text": piece, "thought": True, **fields}


def call(name: str, args: object = None, **fields: object) -> dict:
    data = {"name": name} if args is None else {"name": name, "args": args}
    return {"functionCall": data, **fields}


def partial(path: str, *, continues: bool = True, **value: object) -> dict:
    return {"functionCall": {"partialArgs": [{"jsonPath": path, **value}], "willContinue": continues}}


def start_call(name: str, **fields: object) -> dict:
    return {"functionCall": {"name": name, "willContinue": True}, **fields}


IMAGE = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}
GROUNDING = {
    "webSearchQueries": ["tall towers"],
    "groundingChunks": [
        {"web": {"uri": "https://a.example", "title": "a.example"}},
        {"retrievedContext": {"uri": "doc://b", "title": "B"}},
    ],
    "groundingSupports": [
        {"segment": {"endIndex": 7, "text": "Größe"}, "groundingChunkIndices": [0, 1]},
        {"segment": {"startIndex": 8, "endIndex": 12, "text": "330m"}, "groundingChunkIndices": [1, 9]},
    ],
}

PARTS: dict[str, list[dict]] = {
    "text": [text("Hello")],
    "several_texts": [text("one"), text("two")],
    "thought_then_text": [thought("Hm."), text("Hi")],
    "signed_text": [text("Hi", thoughtSignature="c2ln")],
    "signed_empty_text": [text("Hi"), text("", thoughtSignature="c2ln")],
    "signed_thought": [thought("Hm.", thoughtSignature="c2ln"), text("Hi")],
    "signature_alone": [{"thoughtSignature": "c2ln"}, text("Hi")],
    "signature_and_thought_alone": [{"thought": True, "thoughtSignature": "c2ln"}],
    "no_thought": [text("Hi", thought=False)],
    "call": [call("f", {"a": 1}, thoughtSignature="c2ln")],
    "call_with_id": [{"functionCall": {"id": "fc_1", "name": "f", "args": {}}}],
    "call_without_args": [call("f")],
    "call_with_null_args": [{"functionCall": {"name": "f", "args": None, "id": None}}],
    "parallel_calls": [call("f", {"a": 1}, thoughtSignature="c2ln"), call("f", {"a": 2}), call("g", {})],
    "call_with_will_continue": [{"functionCall": {"name": "f", "args": {}, "willContinue": False}}],
    "call_with_more": [
        {"functionCall": {"name": "f", "args": {}, "scheduling": "SILENT"}, "partMetadata": {"k": 1.10}}
    ],
    "image": [text("Look:"), {**IMAGE, "thoughtSignature": "c2ln"}],
    "thought_image": [{**IMAGE, "thought": True}],
    "named_image": [{"inlineData": {"mimeType": "image/png", "data": "AAAA", "displayName": "a.png"}}],
    "audio": [{"inlineData": {"mimeType": "audio/L16;rate=24000", "data": "AAAA"}}],
    "video": [{"inlineData": {"mimeType": "video/mp4", "data": "AAAA"}, "videoMetadata": {"fps": 2}}],
    "file": [{"fileData": {"fileUri": "https://a.example/x.pdf", "mimeType": "application/pdf"}}],
    "image_file": [{"fileData": {"fileUri": "https://a.example/x", "mimeType": "image/webp"}}],
    "file_without_type": [{"fileData": {"fileUri": "gs://a/x.bin"}}],
    "code": [
        {"executableCode": {"id": "c1", "language": "PYTHON", "code": "print(1)"}, "thoughtSignature": "c2ln"},
        {"codeExecutionResult": {"id": "c1", "outcome": "OUTCOME_OK", "output": "1\n"}},
    ],
    "code_without_output": [{"codeExecutionResult": {"outcome": "OUTCOME_DEADLINE_EXCEEDED"}}],
    "server_tool": [
        {
            "toolCall": {"id": "t1", "toolType": "GOOGLE_SEARCH_WEB", "args": {"queries": ["x"]}},
            "thoughtSignature": "YQ==",
        },
        {
            "toolResponse": {"id": "t1", "toolType": "GOOGLE_SEARCH_WEB", "response": {"n": 1.10}},
            "thoughtSignature": "Yg==",
        },
    ],
    "server_tool_bare": [{"toolCall": {"toolType": "URL_CONTEXT"}}, {"toolResponse": {"toolType": "URL_CONTEXT"}}],
    "function_response": [{"functionResponse": {"name": "f", "response": {"output": 1}}}],
    "unknown": [{"hologram": {"depth": 3}, "thoughtSignature": "c2ln"}],
    "empty": [{}],
    "nameless_call": [{"functionCall": {"args": {}}}],
    "empty_data": [{"inlineData": {"mimeType": "image/png"}}, {"fileData": {}}],
    "odd_types": [
        {"executableCode": {"language": 1, "code": ""}},
        {"text": "Hi", "thoughtSignature": ""},
        {"functionCall": {"id": "", "name": "f", "args": {}}},
        {"text": "Hi", "speechMetadata": {"speaker": "a"}},
    ],
}
"""Parts of a body; each is written back unchanged."""

TYPED = frozenset(PARTS) - {"function_response", "unknown", "empty", "nameless_call", "empty_data"}
"""The cases without unknown parts."""
