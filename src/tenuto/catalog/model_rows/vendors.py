"""Vendors of their own models that use the dialect of another vendor."""

from tenuto.catalog.model_rows import LOW_HIGH_MAX, LOW_TO_HIGH, LOW_TO_MAX, LOW_TO_XHIGH, ModelGroup, Rows

# The formatter would write one line per field.
# fmt: off
ROWS: Rows = {}
LATER = "a rule for families to come"

chat_model = ModelGroup(dialect="openai-chat", prefill="no_effect", audio_in=False, documents_in=False,
    passback="tool_turns", continuity="yes")

grok = ModelGroup(tiered=True, dialect="openai-responses", context_window=500_000, thinking=("effort", "always"),
    efforts=LOW_TO_HIGH, effort_default="high", refuses=("frequency_penalty", "presence_penalty", "stop"),
    prefill="no_effect", audio_in=False, documents_in=False, passback="always", continuity="yes",
    source="pa;ll;v;gp;doc")
grok_4 = grok.extend(suffix=".*", context_window=1_000_000, usd=(1.25, 2.5, 0.2))
ROWS["xai"] = (
    grok("Grok 4.6, 4.7", "grok-4.6", "grok-4.7", efforts=LOW_TO_XHIGH, usd=(2, 6, 0.5),
        notes="double from 200K tokens of prompt on; xhigh is documented, one source ends at high"),
    grok("Grok 4.5", "grok-4.5", "grok-4.5-latest", "grok-build-latest", usd=(2, 6, 0.3), confidence="high"),
    grok_4("Grok 4 without reasoning", "grok-4", suffix=".*-non-reasoning.*", ids=("grok-4.20-non-reasoning",),
        thinking=("none",), refuses=("frequency_penalty", "presence_penalty"), confidence="high"),
    grok_4("Grok 4.3 and ids that lead to it", "grok-",
        suffix=r"(?:latest|4-0709|(?:4\.3|4|3)(?:-latest)?|(?:4|4-1|3)-fast.*)", ids=("grok-4.3", "grok-4.3-latest",
        "grok-latest", "grok-4-0709", "grok-4", "grok-4-latest", "grok-4-fast", "grok-4-1-fast", "grok-3",
        "grok-3-latest", "grok-3-fast"), thinking=("effort",), efforts=("none", *LOW_TO_HIGH), effort_default="medium",
        notes="grok-latest is 4.6 unless the effort is none"),
    grok_4("Grok 4.20 multi-agent", "grok-4.20-multi-agent", efforts=(), forced_tool_choice="rejected", tools=False,
        parallel_tools=False, notes="Responses only; no function tools of the caller's"),
    grok_4("Grok 4.20", "grok-4.20", thinking=("always",), efforts=(), confidence="high"),
    grok("Grok Build and Code", "grok-", suffix=r"(?:build-0\.1|code-fast.*)", ids=("grok-build-0.1", "grok-code-fast"),
        context_window=256_000, thinking=("always",), efforts=(), usd=(1, 2, 0.2),
        notes="code-fast leads to build-0.1"),
    grok("Grok 3 mini", "grok-3-mini", tiered=False, suffix=".*", context_window=131_072, thinking=("effort",),
        efforts=("none", "low", "high"), effort_default="low", images_in=False, usd=(0.3, 0.5, 0.075)),
    grok("a later Grok", "grok-", suffix=r"(?:4\.(?:[89]|[1-9]\d)|[5-9]|\d\d)(?:[.-].*)?", source="inf",
        confidence="low", notes=LATER),
)

deepseek = chat_model.extend(context_window=1_000_000, max_output=393_216, thinking=("toggle", "effort"),
    efforts=LOW_HIGH_MAX, effort_default="high", sampling="only_without_reasoning",
    forced_tool_choice="not_with_thinking", prefill="flag:prefix", structured_output="prompt", images_in=False,
    reasoning_required=True, source="pa;ll;v;gp", confidence="high")
ROWS["deepseek"] = (
    deepseek("DeepSeek V4.1 Flash", "deepseek-", suffix=r"(?:flash|v4(?:\.1)?-flash(?:-\d{4})?)",
        ids=("deepseek-flash", "deepseek-v4-flash", "deepseek-v4.1-flash"), images_in=True, usd=(0.15, 0.6, 0.003),
        notes="off-peak price, doubled 01-04 and 06-10 UTC from Monday to Friday; prefix wants the /beta address"),
    deepseek("DeepSeek V4 Flash vision", "deepseek-v4-flash-vision-exp", images_in=True, usd=(0.15, 0.6, 0.003),
        confidence="medium", notes="off-peak price, as V4.1 Flash"),
    deepseek("DeepSeek V4 Pro", "deepseek-pro", "deepseek-v4-pro", suffix=r"(?:-\d{4})?", usd=(0.66, 1.98, 0.022),
        notes="off-peak price, as V4.1 Flash"),
    deepseek("DeepSeek V3 chat", "deepseek-chat", context_window=131_072, max_output=8192, thinking=("none",),
        sampling="ok", forced_tool_choice="ok", retires="2026-07-24", usd=(0.28, 0.42, 0.028), source="ll"),
    deepseek("DeepSeek R1 and reasoner", "deepseek-", suffix="(?:reasoner|r1.*)",
        ids=("deepseek-reasoner", "deepseek-r1"), context_window=131_072, max_output=65_536, thinking=("always",),
        efforts=(), sampling="ignored", forced_tool_choice="rejected", passback="never",
        continuity="reasoning-rejected", retires="2026-07-24", usd=(0.28, 0.42, 0.028), source="ll;pa"),
    deepseek("a later DeepSeek", "deepseek-", suffix=r"(?:v(?:[4-9]|\d\d)|flash|pro)(?:[.-].*)?", confidence="low",
        notes=LATER),
)

kimi = chat_model.extend(context_window=1_048_576, max_output=1_048_576, thinking=("effort", "always"),
    efforts=LOW_HIGH_MAX, effort_default="max", sampling="rejected", prefill="flag:partial", reasoning_required=True,
    source="v;pa;gp;doc")
kimi_k3_1 = kimi.extend(notes="pictures as base64 or ms:// only")
kimi_k2 = kimi.extend(confidence="high", max_output=262_144, context_window=262_144, efforts=(),
    forced_tool_choice="rejected", retires="2026-12-31")
moonshot_v1 = kimi.extend(confidence="high", context_window=131_072, max_output=131_072, images_in=False,
    notes="deprecated", thinking=("none",), sampling="ok", forced_tool_choice="rejected")
ROWS["moonshot"] = (
    kimi_k3_1("Kimi K3.1 Pro", "kimi-k3.1-pro", usd=(2, 10, 0.2, 2)),
    kimi_k3_1("Kimi K3.1 Pro highspeed", "kimi-k3.1-pro-highspeed", usd=(4, 20, 0.2, 4)),
    kimi("Kimi K3", "kimi-k3", suffix="(?:-.*)?", usd=(3, 15, 0.3, 3),
        notes="sources disagree on forced choice; writes 131,072 tokens unless told"),
    kimi_k2("Kimi K2.7 Code", "kimi-k2.7-code", thinking=("always",), usd=(0.95, 4, 0.19)),
    kimi_k2("Kimi K2.7 Code highspeed", "kimi-k2.7-code-highspeed", thinking=("always",), usd=(1.9, 8, 0.38)),
    kimi_k2("Kimi K2.6", "kimi-k2.6", suffix=".*", thinking=("toggle",), usd=(0.95, 4, 0.16),
        notes='thinking.keep "all" makes earlier turns count'),
    kimi_k2("Kimi K2 Thinking", "kimi-k2-thinking", "kimi-thinking", suffix=".*", max_output=32_768,
        thinking=("always",), images_in=False, usd=(0.6, 3, 0.1), confidence="low"),
    kimi_k2("Kimi K2.5", "kimi-k2.5", suffix=".*", max_output=32_768, thinking=("toggle",), usd=(0.6, 3, 0.1),
        confidence="low", notes="thinks unless it is turned off"),
    kimi_k2("Kimi K2 and older", "kimi-", suffix="(?:k2(?:-.*)?|latest)", ids=("kimi-k2", "kimi-latest"),
        max_output=32_768, thinking=("none",), sampling="ok", usd=(0.6, 3, 0.1), confidence="low",
        notes="k2-instruct sees no pictures"),
    moonshot_v1("Moonshot v1 8K", "moonshot-v1-8k", context_window=8192, max_output=8192, usd=(0.2, 2)),
    moonshot_v1("Moonshot v1 32K", "moonshot-v1-32k", context_window=32_768, max_output=32_768, usd=(1, 3)),
    moonshot_v1("Moonshot v1 128K", "moonshot-v1-128k", usd=(2, 5)),
    moonshot_v1("Moonshot v1", "moonshot-v1-", images_in=True, suffix=".*", confidence="medium",
        notes="deprecated; only the vision previews see pictures"),
    kimi("a later Kimi", "kimi-k", suffix=r"(?:3\.\d+|[4-9]|\d\d)(?:[.-].*)?", ids=(), max_output=131_072,
        forced_tool_choice="rejected", source="inf", confidence="low", notes=LATER),
)

glm = chat_model.extend(ignore_case=True, context_window=200_000, max_output=131_072, thinking=("effort", "always"),
    efforts=LOW_HIGH_MAX, effort_default="max", forced_tool_choice="rejected", structured_output="prompt",
    images_in=False, source="pa;ll;gp;doc")
glm_5_3 = glm.extend(context_window=1_048_576, notes="tool schemas want their $ref written out")
toggle = glm.extend(thinking=("toggle",), efforts=())
glm_4_5 = toggle.extend(context_window=128_000, max_output=32_768)
ROWS["zai"] = (
    glm_5_3("GLM-5.3 Flash", "glm-5.3-flash", images_in=True, usd=(0.15, 0.5, 0.03), confidence="high"),
    glm_5_3("GLM-5.3 FlashX", "glm-5.3-flashx", context_window=1_000_000, images_in=True, usd=(0.37, 1.25, 0.075)),
    glm_5_3("GLM-5.3", "glm-5.3", usd=(1.4, 4.4, 0.26), confidence="high"),
    glm("GLM-5.2", "glm-5.2", context_window=1_000_000, thinking=("toggle", "effort"), efforts=("minimal", *LOW_TO_MAX),
        effort_default="", usd=(1.4, 4.4, 0.26), confidence="high"),
    toggle("GLM-5.1", "glm-5.1", usd=(1.4, 4.4, 0.26), confidence="high"),
    toggle("GLM-5 Code", "glm-5-code", usd=(1.2, 5)),
    toggle("GLM-5", "glm-5", "glm-5-turbo", usd=(1, 3.2, 0.2), confidence="high"),
    toggle("GLM-4.7 Flash", "glm-4.7-flash", usd=(0, 0), notes="free"),
    toggle("GLM-4.7 FlashX", "glm-4.7-flashx", usd=(0.07, 0.4)),
    toggle("GLM-4.6, 4.7", "glm-4.6", "glm-4.7", usd=(0.6, 2.2, 0.11), confidence="high"),
    glm_4_5("GLM-4.6V", "glm-4.6v", images_in=True, usd=(0.3, 0.9)),
    glm_4_5("other GLM that see", "glm-4.5v", "glm-4.6v", suffix=".*", ids=("glm-4.5v",), images_in=True),
    glm_4_5("GLM-4.5", "glm-4.5", usd=(0.6, 2.2)),
    glm_4_5("GLM-4.5 Air", "glm-4.5-air", usd=(0.2, 1.1)),
    glm_4_5("other GLM-4.5", "glm-4.5-", suffix=".*"),
    glm("a later GLM", "glm-", suffix=r"(?:5\.[2-9]|5\.\d\d|[6-9]|\d\d)(?:[.-].*)?", confidence="low", notes=LATER),
)

minimax = chat_model.extend(ignore_case=True, effort_default="max", context_window=1_000_000, max_output=131_072,
    thinking=("always",), efforts=(), forced_tool_choice="rejected", refuses=("stop", "parallel_tool_calls"),
    structured_output="prompt", images_in=False, passback="always", source="gp;ll;doc")
ROWS["minimax"] = (
    minimax("MiniMax M3.1 Flash", "minimax-m3.1-flash", "minimax-m3.1-flash-preview", max_output=524_288,
        thinking=("effort", "always"), efforts=LOW_TO_MAX, images_in=True, usd=(0.15, 0.6, 0.015)),
    minimax("MiniMax M3", "minimax-m3", max_output=128_000, thinking=("toggle",), images_in=True, usd=(0.3, 1.2, 0.06),
        tiered=True),
    minimax("MiniMax M2.7 highspeed", "minimax-m2.7-highspeed", context_window=204_800, usd=(0.6, 2.4)),
    minimax("MiniMax M2.7", "minimax-m2.7", context_window=204_800, usd=(0.3, 1.2, 0.06, 0.375)),
    minimax("MiniMax M2 to M2.5", "minimax-m2", "minimax-m2-highspeed", "minimax-m2-lightning", "minimax-m2.1",
        "minimax-m2.1-highspeed", "minimax-m2.1-lightning", "minimax-m2.5", "minimax-m2.5-highspeed",
        "minimax-m2.5-lightning", context_window=204_800, max_output=8192, usd=(0.3, 1.2, 0.03, 0.375),
        notes="one source has a window of 1M"),
    minimax("another MiniMax", "minimax-m", suffix=r"(?:[2-9]|\d\d)(?:[.-].*)?", ids=(), confidence="low", notes=LATER),
)

mistral = ModelGroup(dialect="openai-chat", context_window=262_144, max_output=262_144, thinking=("none",),
    prefill="flag:prefix", system_mid="native", audio_in=False, continuity="no-reasoning", source="v;ll;gp;pa",
    confidence="high")
reasoning = mistral.extend(efforts=("none", "high"), effort_default="none", thinking=("effort",), passback="always",
    continuity="yes")
zai_glm = mistral.extend(context_window=1_048_576, max_output=131_072, thinking=("effort", "always"),
    efforts=LOW_HIGH_MAX, effort_default="max", documents_in=False, passback="always", continuity="yes")
ROWS["mistral"] = (
    mistral("Mistral Large 4", "mistral-large-4", "mistral-large-4-0", context_window=1_048_576, max_output=None,
        thinking=("effort", "always"), efforts=LOW_TO_HIGH, passback="always", continuity="yes", usd=(0.68, 2.09),
        usd_from={"2026-10-20": (1.36, 4.18, 0.14)}, notes="the end of the launch price is doubted by its own source"),
    mistral("Mistral Large 3", "mistral-large-latest", "mistral-large-2512", "mistral-large-3", usd=(0.5, 1.5, 0.05)),
    reasoning("Mistral Medium 3.5", "mistral-medium", "mistral-medium-latest", "mistral-medium-2604",
        "mistral-medium-3", "mistral-medium-3-5", "mistral-medium-3.5", "mistral-vibe-cli-latest",
        "mistral-vibe-cli-with-tools", "magistral-medium-latest", usd=(1.5, 7.5, 0.15),
        notes="content is a list of chunks while it thinks"),
    reasoning("Mistral Small 4",
        suffix="(?:mistral-small-(?:2603|latest|4.*)|mistral-vibe-cli-fast|magistral-small-latest)",
        ids=("mistral-small-2603", "mistral-small-latest", "mistral-small-4", "mistral-vibe-cli-fast",
        "magistral-small-latest"), usd=(0.15, 0.6, 0.015)),
    zai_glm("GLM-5.3 at Mistral", "zai-glm-5", "zai-glm-5-3", "zai-glm-latest", images_in=False, usd=(1.4, 4.4, 0.14)),
    zai_glm("GLM-5.3 Flash at Mistral", "zai-glm-5-3-flash", usd=(0.15, 0.5, 0.03), confidence="medium"),
    mistral("Ministral 14B", "ministral-14b-", "ministral-3-14b-", suffix=".*", usd=(0.2, 0.2, 0.02)),
    mistral("Ministral 8B", "ministral-8b-", "ministral-3-8b-", suffix=".*", usd=(0.15, 0.15, 0.015)),
    mistral("Ministral 3B", "ministral-3b-", "ministral-3-3b-", suffix=".*", context_window=131_072, max_output=131_072,
        usd=(0.1, 0.1, 0.01)),
    mistral("Codestral", "codestral-2508", "codestral-latest", "mistral-code-latest", "mistral-code-fim-latest",
        context_window=256_000, max_output=128_000, images_in=False, documents_in=False, usd=(0.3, 0.9, 0.03)),
    mistral("Voxtral Small", "voxtral-small-2507", "voxtral-small-latest", context_window=32_768, max_output=32_768,
        images_in=False, audio_in=True, documents_in=False, usd=(0.1, 0.4, 0.01)),
    reasoning("GLM-5.2 at Mistral", "glm-5-2", "zai-glm-5-2", effort_default="", thinking_default="no",
        context_window=None, max_output=None, confidence="low", notes="deprecated"),
    mistral("older Mistral models",
        suffix=r"(?:(?:devstral|labs|codestral|magistral|pixtral|open)-.*|mistral-(?:code-agent-latest|small"
        r"|(?:tiny|nemo|saba|7b).*|(?:small|medium|large)-2[0-5]\d\d))", context_window=None, max_output=None,
        confidence="low", notes="deprecated or retired"),
)

command = chat_model.extend(suffix=r"(?:-\d\d-\d{4})?", context_window=128_000, max_output=4096, thinking=("none",),
    system_mid="native", images_in=False, source="ll;gp;pa;sdk")
command_reasoning = command.extend(suffix="", thinking=("effort",), efforts=("none", "high"), effort_default="high",
    continuity="native-only")
ROWS["cohere"] = (
    command_reasoning("Command A+", "command-a-plus-05-2026", max_output=64_000, images_in=True),
    command_reasoning("Command A Reasoning", "command-a-reasoning-08-2025", context_window=256_000, max_output=32_000,
        confidence="low"),
    command("Command A Vision", "command-a-vision-07-2025", suffix="", max_output=8000, forced_tool_choice="rejected",
        tools=False, parallel_tools=False, images_in=True, confidence="low"),
    command("Command A", "command-a-03-2025", suffix="", context_window=256_000, max_output=8000, usd=(2.5, 10)),
    command("Command R+", "command-r-plus", usd=(2.5, 10)),
    command("Command R7B", "command-r7b", usd=(0.0375, 0.15)),
    command("Command R", "command-r", usd=(0.15, 0.6)),
)

qwen = chat_model.extend(suffix=".*", context_window=991_808, max_output=65_536, thinking=("toggle", "budget"),
    efforts=(), forced_tool_choice="not_with_thinking", passback="never", continuity="reasoning-ignored",
    source="ll;v;pa;doc")
instruct = qwen.extend(suffix=r".*-instruct(?:-\d{4})?", context_window=262_144, thinking=("none",),
    forced_tool_choice="ok", structured_output="prompt", passback=None, continuity="no-reasoning")
snapshot = qwen.extend(suffix="", images_in=False, context_window=None, max_output=None, thinking_default="no",
    structured_output="prompt")
ROWS["alibaba"] = (
    qwen("Qwen3.8 Max", "qwen3.8-max", max_output=131_072, thinking=("effort", "toggle"),
        efforts=("none", "minimal", *LOW_TO_MAX), effort_default="xhigh", usd=(2, 6, 0.25),
        notes="max_tokens does not bound the thinking"),
    qwen("Qwen3.8 Flash", "qwen3.8-flash", max_output=131_072, usd=(0.15, 0.47, 0.016, 0.2)),
    qwen("Qwen3.8 Omni Flash", "qwen3.8-omni-flash", max_output=131_072, thinking_default="no",
        structured_output="prompt", audio_in=True, usd=(0.15, 0.47, 0.016), confidence="low",
        notes="sound as a data URI"),
    qwen("Qwen3.7 Max", "qwen3.7-max", images_in=False, usd=(2.5, 7.5, 0.5, 3.125)),
    qwen("Qwen3.7 Plus and Flash", "qwen3.7-plus", "qwen3.7-flash"),
    qwen("Qwen3.5, 3.6", "qwen3.5-", "qwen3.6-", structured_output="prompt"),
    qwen("Qwen3 Thinking, QwQ", suffix=r"(?:qwen3-.*-thinking(?:-\d{4})?|qwq-.*)", context_window=None, max_output=None,
        thinking=("always",), forced_tool_choice="rejected", structured_output="prompt", images_in=False,
        streamed_thinking_only=True, notes="answers as a stream only"),
    qwen("Qwen3 open models", "qwen3-", suffix=r"\d+(?:\.\d+)?b(?:-a\d+b)?(?:-\d{4})?", ids=(), context_window=None,
        max_output=None, structured_output="prompt", images_in=False, streamed_thinking_only=True),
    instruct("Qwen Coder", "qwen", suffix="(?:3?-?|-3-)coder.*", ids=("qwen3-coder", "qwen-3-coder"),
        context_window=997_952, images_in=False, notes="tool schemas want their $defs written out"),
    instruct("Qwen3 Next Instruct", "qwen3-next-80b-", images_in=False, usd=(0.15, 1.2)),
    instruct("Qwen3 Instruct", "qwen3-", notes="only the vl ids see pictures"),
    snapshot("Qwen Plus", "qwen-plus", usd=(0.4, 1.2)),
    snapshot("Qwen Turbo", "qwen-turbo", usd=(0.05, 0.2)),
    snapshot("Qwen Max", "qwen-max", usd=(1.6, 6.4)),
    snapshot("Qwen Plus, Flash, Turbo, Max", "qwen", images_in=True,
        suffix=r"(?:-(?:plus|flash|turbo|max).*|3-(?:max|vl-plus).*)",
        ids=("qwen-flash", "qwen3-max", "qwen3-vl-plus"), notes="windows from 30K to 1M by snapshot"),
)

muse = ModelGroup(dialect="openai-responses", context_window=1_048_576, max_output=131_072,
    thinking=("effort", "always"), efforts=("minimal", *LOW_TO_MAX), effort_default="high",
    forced_tool_choice="rejected", refuses=("stop",), prefill="no_effect", audio_in=False, passback="always",
    continuity="yes", source="pa;ll;gp;doc", confidence="high")
ROWS["meta"] = (
    muse("Muse Wonder 1.0", "muse-wonder-1.0", usd=(4, 20, 0.2),
        notes="tool choice auto only, none is a 400 as well; phase goes back"),
    muse("Muse Spark contributor", "muse-spark-1.", suffix=r"\d-contributor", usd=(0.1, 0.2, 0.002),
        notes="cheaper because the vendor may train on it"),
    muse("Muse Spark", "muse-spark-1.", suffix=r"\d", usd=(1.25, 4.25, 0.15),
        notes="tool choice auto only; sources disagree on effort max"),
    muse("another Muse", "muse-", suffix=".*", confidence="low", notes=LATER),
)

sonar = ModelGroup(dialect="openai-chat", context_window=128_000, thinking=("none",), forced_tool_choice="rejected",
    prefill="rejected", tools=False, parallel_tools=False, audio_in=False, continuity="no-reasoning", source="ll;gp")
sonar_reasoning = sonar.extend(usd=(2, 8), thinking=("effort", "always"), efforts=LOW_TO_HIGH, effort_default="medium",
    passback="never")
ROWS["perplexity"] = (
    sonar("Sonar", "sonar", usd=(1, 1), notes="tools are typed in the SDK; libraries leave them out"),
    sonar("Sonar Pro", "sonar-pro", "sonar-pro-search", context_window=200_000, max_output=8000, usd=(3, 15)),
    sonar_reasoning("Sonar Reasoning Pro", "sonar-reasoning", "sonar-reasoning-pro", continuity="think-tags"),
    sonar_reasoning("Sonar Deep Research", "sonar-deep-research", continuity="stateless-search"),
    sonar("models of its Agent API", suffix="(?:perplexity|anthropic|openai|google|xai|preset)/.*",
        dialect="openai-responses", context_window=None, sampling="rejected", forced_tool_choice="ok", tools=True,
        parallel_tools=True, confidence="low", notes="POST /v1/responses only; costs what the vendor asks"),
)
