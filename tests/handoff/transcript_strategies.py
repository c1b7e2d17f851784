"""Random transcripts: any order, any ids, tokens and blocks of all dialects."""

from __future__ import annotations

from hypothesis import strategies as st
from msgspec.structs import replace

from tenuto.core.blocks import (
    AnthropicMeta,
    AnthropicRedactedMeta,
    Audio,
    ChatMeta,
    CodeExecution,
    CodeResult,
    Document,
    GeminiMeta,
    Image,
    Marker,
    Opaque,
    OpenAiMeta,
    Reasoning,
    Refusal,
    ServerToolResult,
    ServerToolUse,
    Text,
    ToolUse,
    UrlCitation,
)
from tenuto.core.messages import AssistantMessage, Origin, SystemMessage, ToolResult, ToolResults, UserMessage
from tenuto.core.provider import Target

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
words = st.sampled_from(
    ("", " ", "\n", "Oslo?", "It rains.", "<think>no</think>", "[Reasoning: no]", '{"a": 1}', "Ærø \U0001f327")
)
ids = st.sampled_from(
    (
        "",
        "a",
        "b",
        "call_1",
        "functions.weather:0",
        "call|item",
        "toolu_01",
        "abcdefghi",
        "x" * 65,
        "y" * 41,
        "Ø",
        "tnt_1",
        " ",
        "call_1 ",
    )
)
METAS = {
    "anthropic-messages": (AnthropicMeta("c2lnbmVk"), AnthropicRedactedMeta("ZGF0YQ==")),
    "openai-responses": (OpenAiMeta("rs_1", "gAAAA"), OpenAiMeta("msg_1"), OpenAiMeta()),
    "openai-chat": (ChatMeta("reasoning_content"), ChatMeta("reasoning"), ChatMeta("think"), ChatMeta("content", "sig"),
                    ChatMeta("reasoning_details", details='[{"type":"reasoning.text","text":"x","signature":"s"}]')),
    "gemini": (GeminiMeta("c2lnbmVk"),),
}  # fmt: skip
SERVED = {
    "anthropic-messages": (
        ServerToolUse("srvtoolu_1", "web_search", '{"query":"Oslo"}', "server_tool_use"),
        ServerToolResult("srvtoolu_1", '[{"type":"web_search_result","url":"https://a","title":"A","encrypted_content":"x"}]', "web_search_tool_result"),
        ServerToolUse("srvtoolu_2", "code_execution", '{"code":"print(1)"}', "server_tool_use"),
        ServerToolResult("srvtoolu_2", '{"type":"code_execution_result","stdout":"1\\n","stderr":"","return_code":0}', "code_execution_tool_result"),
        ServerToolUse("srvtoolu_3", "bash_code_execution", '{"command":"ls"}', "server_tool_use"),
        ServerToolResult("mcptoolu_1", '[{"type":"text","text":"ok"}]', "mcp_tool_result"),
        Marker("compaction", "a summary", meta=AnthropicMeta("s")), Marker("container_upload"),
        Opaque("anthropic-messages", '{"type":"new_thing","x":1}'),
    ),
    "openai-responses": (
        ServerToolUse("ws_1", "web_search", '{"type":"search","query":"Oslo"}', "web_search_call", meta=OpenAiMeta("ws_1")),
        ServerToolUse("ci_1", "code_interpreter", "print(1)", "code_interpreter_call", meta=OpenAiMeta("ci_1"), extra='{"outputs":[{"type":"logs","logs":"1"}]}'),
        ServerToolUse("mcp_1", "ask", "{}", "mcp_call", meta=OpenAiMeta("mcp_1"), extra='{"output":"ok"}'),
        ServerToolResult("call_9", '[{"stdout":"x"}]', "shell_call_output", meta=OpenAiMeta("sh_1")),
        Marker("compaction", meta=OpenAiMeta("cmp_1", "gAAA")),
        Image(data=PNG, mime="image/png", meta=OpenAiMeta("ig_1"), extra='{"type":"image_generation_call"}'),
        Opaque("openai-responses", '{"type":"new_thing","id":"x_1"}'),
    ),
    "openai-chat": (Audio(data="UklGRg==", mime="audio/wav", id="audio_1", transcript="hm", expires_at=1),
                    Image(data=PNG, mime="image/png"), Image(url="https://example.org/a.png"), Opaque("openai-chat", '{"type":"odd"}')),
    "gemini": (
        CodeExecution("print(1)", "PYTHON"), CodeResult("OUTCOME_OK", "1\n"), CodeExecution("", ""), CodeResult("odd"),
        ServerToolUse("s_1", "GOOGLE_SEARCH_WEB", '{"queries":["Oslo"]}', "toolCall"),
        ServerToolResult("s_1", '{"results":[]}', "toolResponse"),
        Image(data=PNG, mime="image/png", meta=GeminiMeta("c2lnbmVk")), Audio(data="UklGRg==", mime="audio/wav"),
        Document(data="JVBERi0=", mime="application/pdf"), Opaque("gemini", '{"odd":{}}'),
    ),
}  # fmt: skip
CITED = {
    "anthropic-messages": '{"type":"web_search_result_location","url":"https://a","encrypted_index":"x"}',
    "openai-responses": '{"type":"url_citation","url":"https://a","title":"A","start_index":0,"end_index":1}',
    "openai-chat": '{"type":"url_citation","url_citation":{"url":"https://a"}}',
    "gemini": "",
}
SHOWN = (
    Image(data=PNG, mime="image/png"), Audio(data="UklGRg==", mime="audio/wav"), Document(text="a page", title="A"),
    Document(data="JVBERi0=", mime="application/pdf"), Text(""), Text(" "), Text("Oslo?"),
    Image(data=PNG, mime="image/png", meta=GeminiMeta("c2lnbmVk")),
)  # fmt: skip


@st.composite
def blocks(draw, dialect: str):
    """Draw a block of this dialect, with or without its token."""
    meta = draw(st.none() | st.sampled_from(METAS[dialect]))
    match draw(st.sampled_from("ttrrccsx")):
        case "t":
            cited = draw(st.sampled_from(((), (UrlCitation("https://a", "A", raw=CITED[dialect]),))))
            return Text(
                draw(words),
                cited,
                meta=meta if not isinstance(meta, AnthropicMeta | AnthropicRedactedMeta | ChatMeta) else None,
            )
        case "r":
            return Reasoning(draw(words), meta=meta)
        case "c":
            kind = draw(st.sampled_from(("function", "function", "custom", "shell_call", "local_shell_call")))
            args = draw(st.sampled_from(("{}", "", '{"city":"Oslo"}', "[1]", "{oops", "null", "ls -l")))
            return ToolUse(
                draw(ids), draw(st.sampled_from(("weather", "other"))), args, kind if dialect == "openai-responses" else "function",
                args_error="cut" if args == "{oops" else "", id_generated=draw(st.booleans()), args_missing=not args and draw(st.booleans()),
                meta=meta if not isinstance(meta, ChatMeta | AnthropicMeta | AnthropicRedactedMeta) else None,
            )  # fmt: skip
        case "s":
            return draw(st.sampled_from(SERVED[dialect]))
    return Refusal(draw(words))


@st.composite
def turns(draw, to: Target):
    """Draw a reply of another model, complete or cut off, or one made by hand, without tokens."""
    by_hand = not draw(st.integers(0, 3))
    dialect = draw(st.sampled_from([name for name in METAS if not by_hand or name != to.dialect]))
    found = draw(st.lists(blocks(dialect), max_size=4))
    origin = None
    if by_hand:
        found = [replace(block, meta=None, extra="") for block in found]
    else:
        origin = Origin(draw(st.sampled_from(("elsewhere", to.provider.name))), dialect, "some-model")
    stop = draw(st.sampled_from((None, "pause_turn", "stop")))
    extra = draw(st.sampled_from(("", '{"container":{"id":"c"}}')))
    return AssistantMessage(
        tuple(found),
        raw_stop_reason=stop,
        origin=origin,
        incomplete=draw(st.integers(0, 5)) == 0,
        extra=extra if origin else "",
    )


def user_content(to: Target):
    return st.sampled_from((*SHOWN, *(Opaque(dialect, "{}") for dialect in METAS if dialect != to.dialect)))


def results(to: Target):
    """Draw a result of a tool."""
    return st.builds(ToolResult, ids, words | st.lists(user_content(to), max_size=2).map(tuple), is_error=st.booleans())


def user_messages(to: Target):
    """Draw a user message, which may be empty."""
    content = words | st.lists(user_content(to), max_size=3).map(tuple)
    return st.builds(UserMessage, content, name=st.sampled_from(("", "ann")))


@st.composite
def transcripts(draw, to: Target):
    """Draw messages of all kinds in any order, most results after their calls; one user message has text."""
    found = []
    for _ in range(draw(st.integers(1, 5))):
        match draw(st.sampled_from("uuaaaaors")):
            case "u":
                found.append(draw(user_messages(to)))
            case "s":
                found.append(SystemMessage(draw(words)))
            case "r":
                found.append(ToolResults(tuple(draw(st.lists(results(to), max_size=2)))))
            case _:
                turn = draw(turns(to))
                found.append(turn)
                if turn.has_tool_calls() and draw(st.integers(0, 3)):
                    answers = [replace(draw(results(to)), tool_use_id=call.id) for call in turn.tool_calls()]
                    found.append(ToolResults(tuple(draw(st.permutations(answers)))))
    found.insert(draw(st.integers(0, len(found))), UserMessage("What is the weather like in Oslo?"))
    return tuple(found)
