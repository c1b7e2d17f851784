"""Replies in the Responses dialect, each for one feature."""

from __future__ import annotations

import json

USAGE = {
    "input_tokens": 100,
    "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30},
    "output_tokens": 50,
    "output_tokens_details": {"reasoning_tokens": 20},
    "total_tokens": 150,
}


def sse(*events: dict) -> bytes:
    return b"".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n".encode() for e in events)


def response(*output: dict, status: str = "completed", **fields: object) -> dict:
    base = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "model": "gpt-5.6-sol",
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "temperature": 1.0,
        "output": list(output),
        "usage": USAGE if status not in ("queued", "in_progress") else None,
    }
    return {**base, **fields}


def body(*output: dict, **fields: object) -> bytes:
    return json.dumps(response(*output, **fields)).encode()


def created() -> dict:
    return {"type": "response.created", "sequence_number": 0, "response": response(status="in_progress")}


def completed(*output: dict, **fields: object) -> dict:
    return {"type": "response.completed", "sequence_number": 99, "response": response(*output, **fields)}


def added(index: int, item: dict) -> dict:
    return {"type": "response.output_item.added", "sequence_number": 1, "output_index": index, "item": item}


def done(index: int, item: dict) -> dict:
    return {"type": "response.output_item.done", "sequence_number": 9, "output_index": index, "item": item}


def delta(kind: str, index: int, content: str, **fields: object) -> dict:
    base = {"type": f"response.{kind}.delta", "item_id": "any", "output_index": index, "delta": content}
    return {**base, "sequence_number": 5, "obfuscation": "x7", **fields}


def text_delta(index: int, content: str, part: int = 0) -> dict:
    return delta("output_text", index, content, content_index=part, logprobs=[])


def part_added(index: int, part: int = 0, kind: str = "output_text") -> dict:
    empty = {"type": kind, "refusal": ""} if kind == "refusal" else {"type": kind, "text": "", "annotations": []}
    base = {"type": "response.content_part.added", "sequence_number": 3, "item_id": "any", "output_index": index}
    return {**base, "content_index": part, "part": empty}


def text(words: str, **fields: object) -> dict:
    return {"type": "output_text", "text": words, "annotations": [], "logprobs": [], **fields}


def message(*parts: dict, id: str = "msg_1", **fields: object) -> dict:
    base = {"id": id, "type": "message", "status": "completed", "role": "assistant", "content": list(parts)}
    return {**base, **fields}


def reasoning(*summary: str, id: str = "rs_1", token: str | None = "gAAA-done", **fields: object) -> dict:
    parts = [{"type": "summary_text", "text": line} for line in summary]
    encrypted = {} if token is None else {"encrypted_content": token}
    return {"id": id, "type": "reasoning", "summary": parts, **encrypted, **fields}


def call(args: str = '{"city": "Oslo", "n": 1.10}', **fields: object) -> dict:
    base = {"id": "fc_1", "type": "function_call", "status": "completed", "arguments": args, "call_id": "call_1"}
    return {**base, "name": "weather", **fields}


CUSTOM = {
    "id": "ctc_1",
    "type": "custom_tool_call",
    "status": "completed",
    "call_id": "call_2",
    "name": "sql",
    "input": "select 1;",
}
PAGE = {"type": "url_citation", "url": "https://example.com", "title": "Rain", "start_index": 0, "end_index": 4}
FILE = {"type": "file_citation", "file_id": "file_1", "filename": "a.txt", "index": 3}

CLIENT: dict[str, dict] = {
    "function_call": call(namespace="ns", caller={"type": "program", "caller_id": "call_9"}, **{"async": True}),
    "custom_tool_call": CUSTOM,
    "computer_call": {
        "id": "cu_1",
        "type": "computer_call",
        "call_id": "call_3",
        "action": {"type": "click", "x": 1, "y": 2, "button": "left"},
        "pending_safety_checks": [{"id": "sc_1", "code": "c", "message": "m"}],
        "status": "completed",
    },
    "local_shell_call": {
        "id": "lsh_1",
        "type": "local_shell_call",
        "status": "completed",
        "call_id": "call_4",
        "action": {"type": "exec", "command": ["ls"], "env": {}},
    },
    "shell_call": {
        "id": "sh_1",
        "type": "shell_call",
        "status": "completed",
        "call_id": "call_5",
        "action": {"commands": ["ls"], "max_output_length": None, "timeout_ms": 1000},
        "environment": {"type": "local"},
    },
    "apply_patch_call": {
        "id": "apc_1",
        "type": "apply_patch_call",
        "status": "completed",
        "call_id": "call_6",
        "operation": {"type": "create_file", "path": "a", "diff": "+b\n"},
    },
    "mcp_approval_request": {
        "id": "mcpr_1",
        "type": "mcp_approval_request",
        "name": "roll",
        "arguments": '{"d": 6}',
        "server_label": "dice",
    },
    "tool_search_call": {
        "id": "tsc_1",
        "type": "tool_search_call",
        "status": "completed",
        "call_id": "call_7",
        "execution": "client",
        "arguments": {"goal": "weather"},
    },
}
"""Calls that the caller runs."""

SERVER_CALLS: dict[str, dict] = {
    "web_search_call": {
        "id": "ws_1",
        "type": "web_search_call",
        "status": "completed",
        "action": {"type": "search", "query": "rain", "queries": ["rain"]},
    },
    "web_search_call of another host": {
        "id": "fc_2",
        "type": "web_search_call",
        "status": "completed",
        "call_id": "",
        "name": "web_search_with_snippets",
        "arguments": '{"query":"rain"}',
    },
    "file_search_call": {
        "id": "fs_1",
        "type": "file_search_call",
        "status": "completed",
        "queries": ["rain"],
        "results": [{"file_id": "file_1", "filename": "a.txt", "score": 0.50, "text": "wet", "attributes": {}}],
    },
    "code_interpreter_call": {
        "id": "ci_1",
        "type": "code_interpreter_call",
        "status": "completed",
        "code": "print(1)",
        "container_id": "cntr_1",
        "outputs": [{"type": "logs", "logs": "1\n"}],
    },
    "code_interpreter_call without code": {
        "id": "ci_2",
        "type": "code_interpreter_call",
        "status": "failed",
        "code": None,
        "container_id": "cntr_1",
        "outputs": None,
    },
    "mcp_call": {
        "id": "mcp_1",
        "type": "mcp_call",
        "status": "completed",
        "name": "roll",
        "arguments": '{"d": 6}',
        "server_label": "dice",
        "approval_request_id": None,
        "output": "4",
        "error": None,
    },
    "tool_search_call": {
        "id": "tsc_2",
        "type": "tool_search_call",
        "status": "completed",
        "call_id": None,
        "execution": "server",
        "arguments": {"paths": ["crm"]},
    },
    "shell_call in a container": {
        "id": "sh_2",
        "type": "shell_call",
        "status": "completed",
        "call_id": "call_8",
        "action": {"commands": ["ls"], "max_output_length": None, "timeout_ms": None},
        "environment": {"type": "container_reference", "container_id": "cntr_1"},
    },
    "program": {"id": "cm_1", "type": "program", "call_id": "call_9", "code": "await f()", "fingerprint": "gAAA-fp"},
    "x_search_call": {"id": "xs_1", "type": "x_search_call", "status": "completed", "arguments": "{}", "name": "x"},
}
"""Calls that the provider runs."""

ELSEWHERE = ("x_search_call", "web_search_call of another host")
THEIRS = [SERVER_CALLS[name] for name in ELSEWHERE]
OURS = [item for name, item in SERVER_CALLS.items() if name not in ELSEWHERE]

RESULTS: dict[str, dict] = {
    "tool_search_output": {
        "id": "tso_1",
        "type": "tool_search_output",
        "status": "completed",
        "call_id": None,
        "execution": "server",
        "tools": [{"type": "function", "name": "f", "parameters": {"n": 1.0}, "strict": False}],
    },
    "shell_call_output": {
        "id": "sho_1",
        "type": "shell_call_output",
        "status": "completed",
        "call_id": "call_8",
        "max_output_length": None,
        "output": [{"stdout": "a", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}],
    },
    "program_output": {
        "id": "cmo_1",
        "type": "program_output",
        "status": "completed",
        "call_id": "call_9",
        "result": '{"n": 1}',
    },
    "mcp_list_tools": {
        "id": "mcpl_1",
        "type": "mcp_list_tools",
        "server_label": "dice",
        "tools": [{"name": "roll", "input_schema": {"type": "object"}, "annotations": None, "description": "d"}],
    },
    "apply_patch_call_output": {
        "id": "apo_1",
        "type": "apply_patch_call_output",
        "status": "failed",
        "call_id": "call_6",
        "output": "no such file",
        "created_by": "someone",
    },
    "function_call_output": {
        "id": "fco_1",
        "type": "function_call_output",
        "status": "completed",
        "call_id": "call_1",
        "output": "rain",
    },
    "custom_tool_call_output": {
        "id": "cto_1",
        "type": "custom_tool_call_output",
        "status": "completed",
        "call_id": "call_2",
        "output": [{"type": "input_text", "text": "1"}],
    },
    "computer_call_output": {
        "id": "cuo_1",
        "type": "computer_call_output",
        "status": "completed",
        "call_id": "call_3",
        "output": {"type": "computer_screenshot", "image_url": "https://example.com/a.png"},
    },
    "local_shell_call_output": {"id": "call_4", "type": "local_shell_call_output", "output": "a", "status": None},
    "mcp_approval_response": {
        "id": "mcpa_1",
        "type": "mcp_approval_response",
        "approval_request_id": "mcpr_1",
        "approve": True,
        "reason": None,
    },
}
"""Results of calls that the provider ran."""

MARKED: dict[str, dict] = {
    "compaction": {"id": "cmp_1", "type": "compaction", "encrypted_content": "gAAA-cmp", "created_by": "someone"},
    "additional_tools": {"id": "at_1", "type": "additional_tools", "role": "developer", "tools": []},
}
"""Items that are neither a message nor a call."""

IMAGE = {
    "id": "ig_1",
    "type": "image_generation_call",
    "status": "completed",
    "output_format": "webp",
    "quality": "low",
    "result": "UklGRg==",
    "revised_prompt": "a boat",
}

ITEMS: dict[str, dict] = {
    "message": message(text("Hello."), phase="final_answer"),
    "message of two parts and a refusal": message(
        text("One.", annotations=[PAGE, FILE]), text("Two.", logprobs=[{"token": "T", "logprob": -0.50, "bytes": [84]}])
    )
    | {"content": [text("One.", annotations=[PAGE, FILE]), text("Two."), {"type": "refusal", "refusal": "No."}]},
    "reasoning": reasoning("Look.", "Think.", content=[], status="completed"),
    "reasoning shown": reasoning(token=None, content=[{"type": "reasoning_text", "text": "Hm."}]),
    "reasoning withheld": reasoning(),
    "image": IMAGE,
    "image that failed": {"id": "ig_2", "type": "image_generation_call", "status": "failed", "result": None},
    **{f"client {name}": item for name, item in CLIENT.items()},
    **{f"hosted {name}": item for name, item in SERVER_CALLS.items()},
    **{f"result {name}": item for name, item in RESULTS.items()},
    **{f"marked {name}": item for name, item in MARKED.items()},
}
"""Every type of item that a reply may contain."""

STREAMS: dict[str, bytes] = {
    "text": sse(
        created(),
        added(0, message(status="in_progress")),
        part_added(0),
        text_delta(0, "Hel"),
        text_delta(0, "lo, "),
        text_delta(0, "wörld ☃"),
        done(0, message(text("Hello, wörld ☃"))),
        completed(message(text("Hello, wörld ☃"))),
    ),
    "reasoning, text, call": sse(
        created(),
        added(0, reasoning(token="gAAA-added")),
        delta("reasoning_summary_text", 0, "Look ", summary_index=0),
        delta("reasoning_summary_text", 0, "up.", summary_index=0),
        delta("reasoning_summary_text", 0, "Call.", summary_index=1),
        done(0, reasoning("Look up.", "Call.")),
        added(1, message(status="in_progress", phase="commentary")),
        part_added(1),
        text_delta(1, "A moment."),
        done(1, message(text("A moment."), phase="commentary")),
        added(2, call("", status="in_progress")),
        delta("function_call_arguments", 2, '{"city": "Oslo",'),
        delta("function_call_arguments", 2, ' "n": 1.10}'),
        done(2, call()),
        completed(reasoning("Look up.", "Call."), message(text("A moment."), phase="commentary"), call()),
    ),
    "reasoning shown": sse(
        created(),
        added(0, reasoning(token=None, content=[])),
        delta("reasoning_text", 0, "Hm, ", content_index=0),
        delta("reasoning_text", 0, "yes.", content_index=0),
        delta("reasoning_text", 0, "So.", content_index=1),
        done(
            0,
            reasoning(
                token=None,
                content=[{"type": "reasoning_text", "text": "Hm, yes."}, {"type": "reasoning_text", "text": "So."}],
            ),
        ),
        added(1, message()),
        part_added(1),
        text_delta(1, "4"),
        done(1, message(text("4"))),
        completed(
            reasoning(
                token=None,
                content=[{"type": "reasoning_text", "text": "Hm, yes."}, {"type": "reasoning_text", "text": "So."}],
            ),
            message(text("4")),
        ),
    ),
    "two parts and a refusal": sse(
        created(),
        added(0, message()),
        part_added(0),
        text_delta(0, "One."),
        part_added(0, 1),
        text_delta(0, "Two.", 1),
        part_added(0, 2, "refusal"),
        delta("refusal", 0, "N", content_index=2),
        delta("refusal", 0, "o.", content_index=2),
        done(0, message(text("One."), text("Two."), {"type": "refusal", "refusal": "No."})),
        completed(message(text("One."), text("Two."), {"type": "refusal", "refusal": "No."})),
    ),
    "custom, mcp, code": sse(
        created(),
        added(0, CUSTOM | {"input": ""}),
        delta("custom_tool_call_input", 0, "select"),
        delta("custom_tool_call_input", 0, " 1;"),
        done(0, CUSTOM),
        added(1, SERVER_CALLS["mcp_call"] | {"arguments": "", "output": None}),
        delta("mcp_call_arguments", 1, '{"d": 6}'),
        done(1, SERVER_CALLS["mcp_call"]),
        added(2, SERVER_CALLS["code_interpreter_call"] | {"code": "", "outputs": None}),
        delta("code_interpreter_call_code", 2, "print"),
        delta("code_interpreter_call_code", 2, "(1)"),
        done(2, SERVER_CALLS["code_interpreter_call"]),
        completed(CUSTOM, SERVER_CALLS["mcp_call"], SERVER_CALLS["code_interpreter_call"]),
    ),
    "hosted": sse(
        created(),
        *(event for at, item in enumerate(OURS) for event in (added(at, item), done(at, item))),
        completed(*OURS),
    ),
    "hosted elsewhere": sse(
        created(),
        *(event for at, item in enumerate(THEIRS) for event in (added(at, item), done(at, item))),
        completed(*THEIRS),
    ),
    "image and compaction": sse(
        created(),
        added(0, {"id": "ig_1", "type": "image_generation_call", "status": "in_progress"}),
        {
            "type": "response.image_generation_call.partial_image",
            "sequence_number": 4,
            "item_id": "ig_1",
            "output_index": 0,
            "partial_image_index": 0,
            "partial_image_b64": "UklG",
        },
        done(0, IMAGE),
        added(1, MARKED["compaction"] | {"encrypted_content": "gAAA-other"}),
        done(1, MARKED["compaction"]),
        completed(IMAGE, MARKED["compaction"]),
    ),
}
"""Complete streams."""
