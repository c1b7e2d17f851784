"""GPT and the o-series."""

from tenuto.catalog.model_rows import DATE, LOW_TO_HIGH, LOW_TO_MAX, LOW_TO_XHIGH, ModelGroup

# The formatter would write one line per field.
# fmt: off
RETIRED_BEFORE = "retired on that day or before"
openai = ModelGroup(suffix=DATE, prefill="no_effect", system_mid="native", audio_in=False,
    configuration_update="rejected", source="pa;ll;v;gp;sdk", confidence="high")
responses = openai.extend(effort_default="medium", dialect="openai-responses", passback="always", continuity="yes",
    reasoning_context="current_turn")
gpt = responses.extend(tiered=True, context_window=1_050_000, max_output=128_000, thinking=("effort",),
    efforts=("none", *LOW_TO_MAX), sampling="only_without_reasoning", chat_tools="effort_none",
    reasoning_context="all_turns", phases=True, cache_breakpoints=True)
gpt_6 = gpt.extend(configuration_update="ok")
gpt_5_4 = gpt.extend(cache_breakpoints=False, context_window=400_000, tiered=False, efforts=("none", *LOW_TO_XHIGH), effort_default="none",
    reasoning_context="current_turn")
always = responses.extend(context_window=400_000, max_output=128_000, thinking=("effort", "always"),
    efforts=("medium", "high", "xhigh"), sampling="rejected", refuses=("stop",), chat_tools="rejected")
astra = always.extend(tiered=True, context_window=1_050_000, efforts=LOW_TO_MAX, reasoning_context="all_turns",
    phases=True, cache_breakpoints=True, configuration_update="ok")
restricted = astra.extend(cache_breakpoints=False, tiered=False, context_window=None, max_output=None, source="sdk;ll", confidence="low",
    notes="restricted; taken to be like Astra")
gpt_5 = always.extend(efforts=("minimal", *LOW_TO_HIGH), chat_tools="ok", user_images_only=True, retires="2026-12-11")
retired = always.extend(chat_tools="ok", retires="2026-07-23", source="doc;pa;ll;v;gp;sdk")
retired_chat = retired.extend(context_window=128_000, max_output=16_384, thinking=("always",), efforts=("medium",))
o_series = always.extend(context_window=200_000, max_output=100_000, efforts=LOW_TO_HIGH, parallel_tools=False,
    chat_tools="ok", continuity="no-encrypted-reasoning", user_images_only=True)
retired_o = o_series.extend(notes="some remain on Azure", retires="2026-10-23")
chat = openai.extend(dialect="openai-chat", context_window=128_000, max_output=16_384, thinking=("none",),
    continuity="no-encrypted-reasoning", user_images_only=True)
gpt_4 = chat.extend(retires="2027-01-14", notes="Responses takes it too")
audio = chat.extend(structured_output="tool", images_in=False, audio_in=True, documents_in=False,
    output_modalities=("text", "audio"))
audio_only = audio.extend(retires="2027-01-20", continuity="no-reasoning", notes="Responses takes no audio")
retired_4o = chat.extend(structured_output="tool", retires="2026-10-23")
retired_4 = retired_4o.extend(continuity="no-reasoning", notes=RETIRED_BEFORE)
unknown = ModelGroup(dialect="openai-chat", system_mid="native", source="inf", confidence="low")
tuned = ModelGroup(vendor="openai", source="gp", notes="shut down with its base model")
later_gpt = astra.extend(cache_breakpoints=False, source="inf", confidence="low")
later_5 = later_gpt.extend(efforts=LOW_TO_HIGH, chat_tools="ok", user_images_only=True, reasoning_context="current_turn", phases=False,
    configuration_update="rejected")
ROWS = {"openai": (
    astra("GPT-6 Astra", "gpt-6-astra", usd=(10, 50, 1, 12.5),
        notes="double for input and half more for output from 272K tokens of prompt on; 922K tokens of input at most; modes standard and pro"),
    astra("GPT-6.1 Sol", "gpt-6.1-sol", usd=(2, 10, 0.1, 2.5)),
    gpt_6("GPT-6.1 Terra", "gpt-6.1-terra", usd=(1, 5, 0.05, 1.25), source="pa;v;gp;sdk"),
    gpt_6("GPT-6 Sol", "gpt-6-sol", usd=(2, 10, 0.2, 2.5),
        notes="the refusal of tools on Chat Completions was seen live"),
    gpt_6("GPT-6 Luna", "gpt-6-luna", usd=(0.1, 0.5, 0.01, 0.125)),
    gpt("GPT-5.6 Sol, Daybreak Blue", "gpt-5.6", "gpt-5.6-sol", "daybreak-blue-latest", "gpt-daybreak-blue-latest",
        usd=(4, 20, 0.4, 5), notes="effort max on Responses only"),
    gpt("GPT-5.6 Terra", "gpt-5.6-terra", usd=(2, 12, 0.2, 2.5)),
    gpt("GPT-5.6 Luna", "gpt-5.6-luna", usd=(0.2, 1.2, 0.02, 0.25)),
    gpt("GPT-5.6 Cyber, Daybreak Red", "gpt-5.6-cyber", "daybreak-red-latest", "gpt-daybreak-red-latest", tiered=False,
        context_window=400_000, usd=(12.5, 75, 1.25, 15.625), source="ll;gp;sdk", confidence="medium"),
    gpt("GPT-5.5", "gpt-5.5", cache_breakpoints=False, efforts=("none", *LOW_TO_XHIGH), reasoning_context="current_turn", chat_tools="effort_unset",
        usd=(5, 30, 0.5), notes="one source has a window of 1.0M"),
    gpt_5_4("GPT-5.4", "gpt-5.4", context_window=1_050_000, usd=(2.5, 15, 0.25), tiered=True),
    gpt_5_4("GPT-5.4 mini", "gpt-5.4-mini", usd=(0.75, 4.5, 0.075)),
    gpt_5_4("GPT-5.4 nano", "gpt-5.4-nano", retires="2027-04-01", usd=(0.2, 1.25, 0.02), notes="no tool_search"),
    gpt_5_4("GPT-5.3 Codex", "gpt-5.3-codex", chat_tools="rejected", retires="2027-04-01", usd=(1.75, 14, 0.175),
        notes="Responses only; phase from here on"),
    gpt_5_4("GPT-5.2", "gpt-5.2", chat_tools="ok", phases=False, usd=(1.75, 14, 0.175)),
    gpt_5_4("GPT-5.1", "gpt-5.1", efforts=("none", *LOW_TO_HIGH), chat_tools="ok", phases=False,
        continuity="no-encrypted-reasoning", user_images_only=True, retires="2027-04-01", usd=(1.25, 10, 0.125)),
    always("GPT-5.4 Pro, GPT-5.5 Pro", "gpt-5.4-pro", "gpt-5.5-pro", effort_default="", context_window=1_050_000,
        phases=True, structured_output="tool", usd=(30, 180), tiered=True, notes="Responses only"),
    always("GPT-5.2 Pro", "gpt-5.2-pro", effort_default="", usd=(21, 168), notes="Responses only"),
    always("GPT-5 Pro", "gpt-5-pro", max_output=272_000, efforts=("high",), effort_default="high", retires="2026-12-11",
        usd=(15, 120), notes="Responses only; output 128K in one source"),
    always("the floating chat alias", "chat-latest", "gpt-chat-latest", suffix="", thinking=("always",),
        efforts=("medium",), chat_tools="ok", usd=(5, 30, 0.5), source="ll;gp", confidence="low",
        notes="the effort is taken to be fixed"),
    retired("GPT-5.2 Codex", "gpt-5.2-codex", chat_tools="rejected", efforts=LOW_TO_XHIGH, source="doc;ll;v;gp",
        notes="Responses only; text.verbosity is fixed at medium, the effort is not"),
    retired("GPT-5.1 Codex Max", "gpt-5.1-codex-max", efforts=LOW_TO_XHIGH, continuity="no-encrypted-reasoning",
        user_images_only=True,
        notes="text.verbosity is fixed at medium, the effort is not"),
    retired("GPT-5.1 Codex", "gpt-5.1-codex", "gpt-5.1-codex-mini", efforts=LOW_TO_HIGH,
        continuity="no-encrypted-reasoning", user_images_only=True,
        notes="efforts as the API's own 400 lists them"),
    retired("GPT-5 Codex", "gpt-5-codex", efforts=LOW_TO_HIGH, user_images_only=True,
        notes="efforts as the API's own 400 lists them"),
    retired_chat("GPT-5.2 and 5.3 chat", "gpt-5.2-chat", "gpt-5.2-chat-latest", "gpt-5.3-chat", "gpt-5.3-chat-latest",
        suffix="", retires="2026-08-10"),
    retired_chat("GPT-5.1 chat", "gpt-5.1-chat", "gpt-5.1-chat-latest", suffix="", user_images_only=True,
        continuity="no-encrypted-reasoning"),
    retired_chat("GPT-5 chat", "gpt-5-chat", "gpt-5-chat-latest", thinking=("none",), sampling="ok", refuses=(),
        user_images_only=True, notes="does not reason"),
    gpt_5("GPT-5", "gpt-5", usd=(1.25, 10, 0.125)),
    gpt_5("GPT-5 mini", "gpt-5-mini", usd=(0.25, 2, 0.025)),
    gpt_5("GPT-5 nano", "gpt-5-nano", usd=(0.05, 0.4, 0.005)),
    always("GPT-5 search", "gpt-5-search-api", dialect="openai-chat", thinking=("none",), chat_tools="ok",
        chat_search=True, user_images_only=True, continuity="chat-only", usd=(1.25, 10, 0.125), source="ll;gp", confidence="low", notes="Chat Completions only"),
    restricted("Rosalind", "gpt-", suffix=rf"(?:6-rosalind{DATE}|rosalind-(?:research|discovery))",
        ids=("gpt-6-rosalind", "gpt-rosalind-research", "gpt-rosalind-discovery"), usd=(5, 25, 0.5)),
    restricted("GPT-5.5 Cyber", "gpt-5.5-cyber", "gpt-5.5-cyber-preview", configuration_update="rejected", usd=(12.5, 75, 1.25)),
    restricted("GPT-6 Cyber", "gpt-6-cyber"),
    o_series("o3-pro", "o3-pro", chat_tools="rejected", retires="2026-12-11", usd=(20, 80), notes="Responses only"),
    o_series("o3", "o3", retires="2026-12-11", usd=(2, 8, 0.5)),
    retired_o("o4-mini", "o4-mini", continuity="yes", usd=(1.1, 4.4, 0.275)),
    retired_o("o3-mini", "o3-mini", refuses=(), usd=(1.1, 4.4, 0.55)),
    retired_o("o1", "o1", refuses=(), usd=(15, 60, 7.5)),
    retired_o("o1-pro", "o1-pro", chat_tools="rejected", usd=(150, 600), notes="Responses only"),
    retired_o("Codex mini", "codex-mini-latest", suffix="", chat_tools="rejected", continuity="yes",
        usd=(1.5, 6, 0.375), source="doc;gp;sdk", confidence="medium",
        notes="Responses only; made from o4-mini, whose efforts it is taken to have; retired on that day or before"),
    retired_o("o1-mini, o1-preview", "o1-mini", "o1-preview", system_role=False, refuses=(), notes=RETIRED_BEFORE),
    retired_o("o3 deep research", "o3-deep-research", notes=RETIRED_BEFORE),
    retired_o("o4-mini deep research", "o4-mini-deep-research", continuity="yes", notes=RETIRED_BEFORE),
    o_series("another o1 or o3", "o1-", "o3-", suffix=".*", source="inf", confidence="low"),
    o_series("another o2 or o4", "o2-", "o4-", suffix=".*", continuity="yes", source="inf", confidence="low"),
    gpt_4("GPT-4.1", "gpt-4.1", context_window=1_047_576, max_output=32_768, usd=(2, 8, 0.5)),
    gpt_4("GPT-4.1 mini", "gpt-4.1-mini", context_window=1_047_576, max_output=32_768, usd=(0.4, 1.6, 0.1)),
    gpt_4("GPT-4o", "gpt-4o", "gpt-4o-2024-08-06", "gpt-4o-2024-11-20", suffix="", usd=(2.5, 10, 1.25)),
    gpt_4("GPT-4o mini", "gpt-4o-mini", usd=(0.15, 0.6, 0.075)),
    audio_only("GPT audio 1.5", "gpt-audio-1.5", retires="", usd=(2.5, 10)),
    audio_only("GPT audio", "gpt-audio", usd=(2.5, 10)),
    audio_only("GPT audio mini", "gpt-audio-mini", usd=(0.6, 2.4)),
    chat("gpt-oss", "gpt-oss-", "openai/gpt-oss-", suffix="(?:120b|20b).*", ids=("gpt-oss-120b", "gpt-oss-20b"),
        context_window=131_072, max_output=32_768, thinking=("effort", "always"), efforts=LOW_TO_HIGH,
        effort_default="medium", forced_tool_choice="rejected", images_in=False, documents_in=False,
        passback="tool_turns", continuity="yes", max_tokens_field="max_tokens", served=False, user_images_only=False,
        source="pa",
        confidence="medium",
        notes="open weights; forced choice is unreliable, and the reasoning field's name depends on the server"),
    retired_4o("GPT-4.1 nano", "gpt-4.1-nano", context_window=1_047_576, max_output=32_768, usd=(0.1, 0.4, 0.025)),
    retired_4o("GPT-4o of May 2024", "gpt-4o-2024-05-13", suffix="", max_output=4096, usd=(5, 15)),
    audio("GPT-4o audio previews", "gpt-4o-audio-preview", "gpt-4o-mini-audio-preview", retires="2026-05-07",
        confidence="medium", notes="one source has 2027-01-20"),
    retired_4o("GPT-4o search previews", "gpt-4o-search-preview", "gpt-4o-mini-search-preview", chat_search=True,
        notes=RETIRED_BEFORE),
    retired_4o("ChatGPT-4o", "chatgpt-4o-latest", suffix="", max_output=None,
        notes="retired on that day or before; sources disagree on the output"),
    retired_4("GPT-4 Turbo", "gpt-4-turbo", "gpt-4-1106", "gpt-4-0125", "gpt-4-vision", suffix=".*", max_output=4096),
    retired_4("GPT-4", "gpt-4", "gpt-4-0314", "gpt-4-0613", suffix="", context_window=8192, max_output=None),
    retired_4("other GPT-4", "gpt-4", suffix=r"(?!o|\.1).*", ids=(), context_window=None, max_output=None),
    retired_4("GPT-3.5", "gpt-3.5-", suffix=".*", context_window=16_385, max_output=4096),
    responses("Computer use", "computer-use-preview", effort_default="", context_window=8192, max_output=1024,
        thinking=("always",), structured_output="tool", chat_tools="rejected", retires="2026-10-23",
        notes="Responses only; nothing is published on its efforts; retired on that day or before"),
    unknown("another GPT-4o or GPT-4.1", "gpt-4o-", "gpt-4.1-", suffix=".*", continuity="no-encrypted-reasoning",
        notes="nothing else is known of it"),
    tuned("a fine-tuned GPT-4o mini", "ft:", suffix="(gpt-4o-mini[^:]*):.*", usd=(0.3, 1.2)),
    tuned("a fine-tuned GPT-4o", "ft:", suffix="(gpt-4o[^:]*):.*", usd=(3.75, 15)),
    tuned("a fine-tuned GPT-3.5", "ft:", suffix=r"(gpt-3\.5-turbo[^:]*):.*", usd=(3, 6)),
    tuned("a fine-tuned model", "ft:", suffix="([^:]+)(?::.*)?", source="ll", confidence="low",
        notes="taken to be like its base model"),
    later_5("another GPT-5.1", "gpt-5.1", suffix="(?:-.*)?", ids=(), continuity="no-encrypted-reasoning"),
    later_5("another GPT-5.0", "gpt-5.0", suffix="(?:-.*)?", ids=()),
    later_5("another GPT-5", "gpt-5-", suffix=".*"),
    later_gpt("a later model of OpenAI's", suffix=r"(?:gpt-(?:[5-9]|1\d)|o[5-9])(?:[.-].*)?", source="v;inf",
        notes="a rule for families to come: no sampling, no effort none or minimal"),
)}
