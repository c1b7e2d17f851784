"""Claude."""

from tenuto.catalog.model_rows import DATE, LOW_TO_HIGH, LOW_TO_MAX, ModelGroup

_BOUND_5 = r".*(?:fable|mythos)-5-[12].*"  # the models whose thinking only they themselves read

# The formatter would write one line per field.
# fmt: off
claude = ModelGroup(suffix=DATE, effort_default="high", dialect="anthropic-messages", audio_in=False,
    unreadable_thinking=_BOUND_5, source="pa;ll;v;gp", confidence="high")
claude_5 = claude.extend(context_window=1_000_000, max_output=128_000, thinking=("always",), efforts=LOW_TO_MAX,
    sampling="rejected", forced_tool_choice="rejected", prefill="rejected", system_mid="native", passback="always",
    continuity="yes", omits_thinking=True)
adaptive = claude_5.extend(thinking=("adaptive", "disabled"), forced_tool_choice="ok", usd=(5, 25, 0.5, 6.25))
claude_4_6 = claude.extend(context_window=1_000_000, max_output=128_000, thinking=("adaptive", "budget", "disabled"),
    thinking_default="no", efforts=("low", "medium", "high", "max"), budget=(1024, 127_999),
    forced_tool_choice="not_with_thinking", prefill="rejected", system_mid="rejected", passback="always",
    continuity="yes")
claude_4 = claude.extend(context_window=200_000, max_output=64_000, thinking=("budget", "disabled"),
    thinking_default="no", efforts=(), budget=(1024, 63_999), forced_tool_choice="not_with_thinking",
    system_mid="rejected", passback="always", continuity="yes", interleaved_beta=True, compaction=False)
claude_4_5 = claude_4.extend(exclusive=("temperature", "top_p"))
claude_4_0 = claude_4.extend(structured_output="tool", continuity="no-interleaving", retires="2026-06-15",
    source="sdk;v;gp", usd=(3, 15, 0.3, 3.75), notes="some clouds still serve it")
claude_3 = claude.extend(context_window=200_000, max_output=4096, thinking=("none",), system_mid="rejected",
    structured_output="tool", continuity="no-interleaving", compaction=False, source="sdk;gp")
claude_3_5 = claude_3.extend(suffix=rf"(?:-latest|{DATE})", max_output=8192)
claude_2 = claude_3.extend(tools=False, images_in=False, documents_in=False, source="sdk")
ROWS = {"anthropic": (
    claude_5("Claude Fable 5.2, Mythos 5.2", "claude-fable-5-2", "claude-mythos-5-2", prefix_bound=True,
        unreadable_thinking="", source="sdk;v",
        confidence="low", notes="only the ids are published; taken to be like 5.1"),
    claude_5("Claude Fable 5.1", "claude-fable-5-1", prefix_bound=True, unreadable_thinking="", usd=(10, 50, 0.25, 12.5),
        notes="history may only be appended to"),
    claude_5("Claude Mythos 5.1", "claude-mythos-5-1", unreadable_thinking="", usd=(10, 50, 0.25, 12.5),
        source="pa;ll", confidence="medium",
        notes="by invitation; documented to run no prefix check"),
    claude_5("Claude Opus 5.5", "claude-opus-5-5", effort_default="medium", prefix_bound=True, usd=(4, 20, 0.2, 5),
        refused_tools=("computer_20251124",),
        notes="text between tools comes as thinking"),
    claude_5("Claude Sonnet 5.5", "claude-sonnet-5-5", thinking=("adaptive", "between_tools"), effort_when_off="high",
        prefix_bound=True, usd=(2, 10, 0.1, 2.5),
        notes="between_tools is how it is turned off, and takes no effort above high"),
    adaptive("Claude Haiku 5.5", "claude-haiku-5-5", effort_default="medium", effort_when_off="high", prefix_bound=True,
        unreadable_thinking=r"(?!.*haiku-5-5).*", usd=(0.1, 0.5, 0.01, 0.125), tiered=True,
        notes="five times the price from 100K tokens of prompt on; a system message after tool results needs a text block before it"),
    adaptive("Claude Opus 5", "claude-opus-5", effort_when_off="high", confidence="medium",
        notes="one source has a budget accepted, two have it refused"),
    adaptive("Claude Sonnet 5", "claude-sonnet-5", system_mid="ignored", usd=(2, 10, 0.2, 2.5),
        notes="a system message in mid-conversation gets a 200 and is not obeyed"),
    claude_5("Claude Fable 5, Mythos 5", "claude-fable-5", "claude-mythos-5", forced_tool_choice="ok",
        usd=(10, 50, 1, 12.5), notes="forced choice was probed: 200"),
    claude_5("Claude Mythos Preview", "claude-mythos-preview", forced_tool_choice="ok", system_mid="rejected",
        retires="2026-06-30", usd=(10, 50, 1, 12.5), source="sdk;ll", confidence="medium"),
    adaptive("Claude Opus 4.8", "claude-opus-4-8", thinking_default="no"),
    adaptive("Claude Opus 4.7", "claude-opus-4-7", thinking_default="no", system_mid="rejected", fast_speed=False),
    claude_4_6("Claude Opus 4.6", "claude-opus-4-6", usd=(5, 25, 0.5, 6.25),
        notes="budget is deprecated; forced choice goes with adaptive and is refused with a budget"),
    claude_4_6("Claude Sonnet 4.6", "claude-sonnet-4-6", interleaved_beta=True, usd=(3, 15, 0.3, 3.75),
        notes="output 64K in older tables; the header counts only with a budget"),
    claude_4_5("Claude Opus 4.5", "claude-opus-4-5", efforts=LOW_TO_HIGH, usd=(5, 25, 0.5, 6.25)),
    claude_4_5("Claude Sonnet 4.5", "claude-sonnet-4-5", retires="2026-11-30", usd=(3, 15, 0.3, 3.75), tiered=True,
        source="pa;ll;v;gp;sdk"),
    claude_4_5("Claude Haiku 4.5", "claude-haiku-4-5", usd=(1, 5, 0.1, 1.25)),
    claude_4_5("Claude Opus 4.1", "claude-opus-4-1", max_output=32_000, budget=(1024, 31_999), usd=(15, 75, 1.5, 18.75),
        source="pa;v;gp", confidence="medium",
        notes="out of the SDK since 2026-08; prompt and max_tokens beyond the window are a 400"),
    claude_4_0("Claude Opus 4", "claude-opus-4", "claude-opus-4-0", max_output=32_000, budget=(1024, 31_999),
        usd=(15, 75, 1.5, 18.75)),
    claude_4_0("Claude Sonnet 4", "claude-sonnet-4", "claude-sonnet-4-0"),
    claude_4_0("Claude Sonnet 3.7", "claude-3-7-sonnet", suffix=".*", interleaved_beta=False, retires="2026-02-19"),
    claude_3_5("Claude Haiku 3.5", "claude-3-5-haiku", ids=("claude-3-5-haiku-latest", "claude-3-5-haiku"),
        retires="2026-02-19", usd=(0.8, 4, 0.08, 1)),
    claude_3_5("Claude Sonnet 3.5", "claude-3-5-sonnet", ids=("claude-3-5-sonnet-latest", "claude-3-5-sonnet"),
        retires="2025-10-28", usd=(3, 15, 0.3, 3.75), source="gp;doc", confidence="medium"),
    claude_3("Claude Opus 3", "claude-3-opus", suffix=rf"(?:-latest|{DATE})",
        ids=("claude-3-opus-latest", "claude-3-opus"), retires="2026-01-05", usd=(15, 75, 1.5, 18.75)),
    claude_3("Claude Sonnet 3", "claude-3-sonnet", retires="2025-07-21", usd=(3, 15, 0.3, 3.75)),
    claude_3("Claude Haiku 3", "claude-3-haiku", retires="2026-04-20", usd=(0.25, 1.25, 0.03, 0.3), source="gp;inf",
        confidence="medium"),
    claude_3("another Claude 3", "claude-3", suffix="[-.].*", ids=(), source="inf", confidence="low"),
    claude_2("Claude 2", "claude-2", suffix=r"(?:\.\d)?", retires="2025-07-21"),
    claude_2("Claude 1 and Instant", "claude-", suffix=r"(?:1(?:\.\d)?(?:-100k)?|instant-.*|v\d.*)",
        ids=("claude-1", "claude-1-100k"), retires="2024-11-06"),
    claude_5("a later Claude", "claude-", thinking=("adaptive",), unreadable_thinking="", source="v;inf", confidence="low",
        suffix=r"[a-z]+-(?:4-(?:[6-9]|\d\d)|[5-9]|\d\d)(?:[-@].*)?",
        notes="a rule for families to come: no sampling, no prefill, no forced choice, no disabled; GET /v1/models knows better"),
)}
