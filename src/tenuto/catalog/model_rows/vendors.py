"""Vendors of their own models that use the dialect of another vendor."""

from tenuto.catalog.model_rows import LOW_TO_HIGH, LOW_TO_MAX, LOW_TO_XHIGH, ModelGroup, ModelRow, usd

# The formatter would write one line per field.
# fmt: off

grok = ModelGroup(dialect="openai-responses", context_window=500_000, thinking=("effort", "always"),
    thinking_default="always", efforts=LOW_TO_HIGH, effort_default="high",
    refuses=("frequency_penalty", "presence_penalty", "stop"), prefill="no_effect", audio_in=False, documents_in=False,
    passback="always", continuity="yes", source="pa;ll;v;gp;doc", confidence="medium")

XAI = (
    grok("Grok 4.6, 4.7", "grok-4.6", "grok-4.7", efforts=LOW_TO_XHIGH, effort_default="high",
        price=usd(2, 6, 0.5, tiered=True),
        notes="double from 200K tokens of prompt on; xhigh is documented, one source ends at high"),
    grok("Grok 4.5", "grok-4.5", "grok-4.5-latest", "grok-build-latest", price=usd(2, 6, 0.3, tiered=True),
        confidence="high"),
    grok("Grok 4.3 and ids that lead to it", "grok-",
        suffix=r"(?:latest|4-0709|(?:4\.3|4|3)(?:-latest)?|(?:4|4-1|3)-fast.*)",
        ids=("grok-4.3", "grok-4.3-latest", "grok-latest", "grok-4-0709", "grok-4", "grok-4-latest", "grok-4-fast",
            "grok-4-1-fast", "grok-3", "grok-3-latest", "grok-3-fast"), context_window=1_000_000, thinking=("effort",),
        thinking_default="yes", efforts=("none", *LOW_TO_HIGH), effort_default="medium",
        price=usd(1.25, 2.5, 0.2, tiered=True), notes="grok-latest is 4.6 unless the effort is none"),
    grok("Grok 4.20 multi-agent", "grok-4.20-multi-agent", suffix=".*", context_window=1_000_000, efforts=(),
        forced_tool_choice="rejected", tools=False, parallel_tools=False, price=usd(1.25, 2.5, 0.2, tiered=True),
        notes="Responses only; no function tools of the caller's"),
    grok("Grok 4.20 without reasoning", "grok-4.20", suffix=".*-non-reasoning.*", ids=("grok-4.20-non-reasoning",),
        context_window=1_000_000, thinking=("none",), thinking_default="no", efforts=(),
        refuses=("frequency_penalty", "presence_penalty"), passback=None, continuity="no-reasoning",
        price=usd(1.25, 2.5, 0.2, tiered=True), confidence="high"),
    grok("Grok 4.20", "grok-4.20", suffix=".*", context_window=1_000_000, thinking=("always",), efforts=(),
        price=usd(1.25, 2.5, 0.2, tiered=True), confidence="high"),
    grok("Grok Build and Code", "grok-", suffix=r"(?:build-0\.1|code-fast.*)",
        ids=("grok-build-0.1", "grok-code-fast"), context_window=256_000, thinking=("always",), efforts=(),
        price=usd(1, 2, 0.2, tiered=True), notes="code-fast leads to build-0.1"),
    grok("Grok 3 mini", "grok-3-mini", suffix=".*", context_window=131_072, thinking=("effort",),
        thinking_default="yes", efforts=("none", "low", "high"), effort_default="low", images_in=False,
        price=usd(0.3, 0.5, 0.075)),
    grok("a later Grok", "grok-", suffix=r"(?:4\.(?:[89]|[1-9]\d)|[5-9]|\d\d)(?:[.-].*)?", ids=(), source="inf",
        confidence="low", notes="a rule for families to come"),
)

deepseek = ModelGroup(dialect="openai-chat", context_window=1_000_000, max_output=393_216,
    thinking=("toggle", "effort"), thinking_default="yes", efforts=("low", "high", "max"), effort_default="high",
    sampling="only_without_reasoning", forced_tool_choice="not_with_thinking", prefill="flag:prefix",
    structured_output="prompt", audio_in=False, documents_in=False, images_in=False, passback="tool_turns",
    continuity="yes", source="pa;ll;v;gp", confidence="high")

DEEPSEEK = (
    deepseek("DeepSeek V4.1 Flash", "deepseek-", suffix=r"(?:flash|v4(?:\.1)?-flash(?:-\d{4})?)",
        ids=("deepseek-flash", "deepseek-v4-flash", "deepseek-v4.1-flash"), images_in=True, price=usd(0.15, 0.6, 0.003),
        notes="off-peak price, doubled 01-04 and 06-10 UTC from Monday to Friday; prefix wants the /beta address"),
    deepseek("DeepSeek V4 Flash vision", "deepseek-v4-flash-vision-exp", images_in=True, price=usd(0.15, 0.6, 0.003),
        confidence="medium", notes="off-peak price, as V4.1 Flash"),
    deepseek("DeepSeek V4 Pro", "deepseek-pro", "deepseek-v4-pro", suffix=r"(?:-\d{4})?", price=usd(0.66, 1.98, 0.022),
        notes="off-peak price, as V4.1 Flash"),
    deepseek("DeepSeek V3 chat", "deepseek-chat", context_window=131_072, max_output=8192, thinking=("none",),
        thinking_default="no", efforts=(), sampling="ok", forced_tool_choice="ok", passback=None,
        continuity="no-reasoning", retires="2026-07-24", price=usd(0.28, 0.42, 0.028), source="ll"),
    deepseek("DeepSeek R1 and reasoner", "deepseek-", suffix="(?:reasoner|r1.*)",
        ids=("deepseek-reasoner", "deepseek-r1"), context_window=131_072, max_output=65_536, thinking=("always",),
        thinking_default="always", efforts=(), sampling="ignored", forced_tool_choice="rejected", passback="never",
        continuity="reasoning-rejected", retires="2026-07-24", price=usd(0.28, 0.42, 0.028), source="ll;pa"),
    deepseek("a later DeepSeek", "deepseek-", suffix=r"(?:v(?:[4-9]|\d\d)|flash|pro)(?:[.-].*)?", ids=(),
        confidence="low", notes="a rule for families to come"),
)

kimi = ModelGroup(dialect="openai-chat", context_window=1_048_576, max_output=1_048_576, thinking=("effort", "always"),
    thinking_default="always", efforts=("low", "high", "max"), effort_default="max", sampling="rejected",
    prefill="flag:partial", audio_in=False, documents_in=False, passback="tool_turns", continuity="yes",
    source="v;pa;gp;doc", confidence="high")
kimi_k2 = kimi.extend(context_window=262_144, efforts=(), forced_tool_choice="rejected", retires="2026-12-31")
moonshot_v1 = kimi.extend(thinking=("none",), thinking_default="no", efforts=(), sampling="ok",
    forced_tool_choice="rejected", passback=None, continuity="no-reasoning")

MOONSHOT = (
    kimi("Kimi K3.1 Pro", "kimi-k3.1-pro", price=usd(2, 10, 0.2, 2), confidence="medium",
        notes="pictures as base64 or ms:// only"),
    kimi("Kimi K3.1 Pro highspeed", "kimi-k3.1-pro-highspeed", price=usd(4, 20, 0.2, 4), confidence="medium",
        notes="pictures as base64 or ms:// only"),
    kimi("Kimi K3", "kimi-k3", suffix="(?:-.*)?", price=usd(3, 15, 0.3, 3), confidence="medium",
        notes="sources disagree on forced choice; writes 131,072 tokens unless told"),
    kimi_k2("Kimi K2.7 Code", "kimi-k2.7-code", max_output=262_144, thinking=("always",), price=usd(0.95, 4, 0.19)),
    kimi_k2("Kimi K2.7 Code highspeed", "kimi-k2.7-code-highspeed", max_output=262_144, thinking=("always",),
        price=usd(1.9, 8, 0.38)),
    kimi_k2("Kimi K2.6", "kimi-k2.6", suffix=".*", max_output=262_144, thinking=("toggle",), thinking_default="yes",
        price=usd(0.95, 4, 0.16), notes='thinking.keep "all" makes earlier turns count'),
    kimi_k2("Kimi K2 Thinking", "kimi-k2-thinking", "kimi-thinking", suffix=".*", max_output=32_768,
        thinking=("always",), images_in=False, price=usd(0.6, 3, 0.1), confidence="low"),
    kimi_k2("Kimi K2.5 and older", "kimi-", suffix=r"(?:k2\.5.*|k2(?:-.*)?|latest)",
        ids=("kimi-k2.5", "kimi-k2", "kimi-latest"), max_output=32_768, thinking=("toggle",), thinking_default="yes",
        price=usd(0.6, 3, 0.1), confidence="low", notes="k2-instruct never is_thinking_enabled and sees no pictures"),
    moonshot_v1("Moonshot v1 8K", "moonshot-v1-8k", context_window=8192, max_output=8192, images_in=False,
        price=usd(0.2, 2), notes="deprecated"),
    moonshot_v1("Moonshot v1 32K", "moonshot-v1-32k", context_window=32_768, max_output=32_768, images_in=False,
        price=usd(1, 3), notes="deprecated"),
    moonshot_v1("Moonshot v1 128K", "moonshot-v1-128k", context_window=131_072, max_output=131_072, images_in=False,
        price=usd(2, 5), notes="deprecated"),
    moonshot_v1("Moonshot v1", "moonshot-v1-", suffix=".*", ids=(), context_window=131_072, max_output=131_072,
        confidence="medium", notes="deprecated; only the vision previews see pictures"),
    kimi("a later Kimi", "kimi-k", suffix=r"(?:3\.\d+|[4-9]|\d\d)(?:[.-].*)?", ids=(), max_output=131_072,
        forced_tool_choice="rejected", source="inf", confidence="low", notes="a rule for families to come"),
)

glm = ModelGroup(ignore_case=True, dialect="openai-chat", context_window=200_000, max_output=131_072,
    thinking=("effort", "always"), thinking_default="always", efforts=("low", "high", "max"), effort_default="max",
    forced_tool_choice="rejected", prefill="no_effect", structured_output="prompt", images_in=False, audio_in=False,
    documents_in=False, passback="tool_turns", continuity="yes", source="pa;ll;gp;doc", confidence="medium")
toggle = glm.extend(thinking=("toggle",), thinking_default="yes", efforts=())
glm_4_5 = toggle.extend(context_window=128_000, max_output=32_768)

ZAI = (
    glm("GLM-5.3 Flash", "glm-5.3-flash", context_window=1_048_576, images_in=True, price=usd(0.15, 0.5, 0.03),
        confidence="high", notes="tool schemas want their $ref written out"),
    glm("GLM-5.3 FlashX", "glm-5.3-flashx", context_window=1_000_000, images_in=True, price=usd(0.37, 1.25, 0.075),
        notes="tool schemas want their $ref written out"),
    glm("GLM-5.3", "glm-5.3", context_window=1_048_576, price=usd(1.4, 4.4, 0.26), confidence="high",
        notes="tool schemas want their $ref written out"),
    glm("GLM-5.2", "glm-5.2", context_window=1_000_000, thinking=("toggle", "effort"), thinking_default="yes",
        efforts=("minimal", *LOW_TO_MAX), price=usd(1.4, 4.4, 0.26), confidence="high"),
    toggle("GLM-5.1", "glm-5.1", price=usd(1.4, 4.4, 0.26), confidence="high"),
    toggle("GLM-5 Code", "glm-5-code", price=usd(1.2, 5)),
    toggle("GLM-5", "glm-5", "glm-5-turbo", price=usd(1, 3.2, 0.2), confidence="high"),
    toggle("GLM-4.7 Flash", "glm-4.7-flash", price=usd(0, 0), notes="free"),
    toggle("GLM-4.7 FlashX", "glm-4.7-flashx", price=usd(0.07, 0.4)),
    toggle("GLM-4.6, 4.7", "glm-4.6", "glm-4.7", price=usd(0.6, 2.2, 0.11), confidence="high"),
    glm_4_5("GLM-4.6V", "glm-4.6v", images_in=True, price=usd(0.3, 0.9)),
    glm_4_5("other GLM that see", "glm-4.5v", "glm-4.6v", suffix=".*", ids=("glm-4.5v",), images_in=True),
    glm_4_5("GLM-4.5", "glm-4.5", price=usd(0.6, 2.2)),
    glm_4_5("GLM-4.5 Air", "glm-4.5-air", price=usd(0.2, 1.1)),
    glm_4_5("other GLM-4.5", "glm-4.5-", suffix=".*", ids=()),
    glm("a later GLM", "glm-", suffix=r"(?:5\.[2-9]|5\.\d\d|[6-9]|\d\d)(?:[.-].*)?", ids=(), confidence="low",
        notes="a rule for families to come"),
)

minimax = ModelGroup(ignore_case=True, dialect="openai-chat", context_window=1_000_000, max_output=131_072,
    thinking=("always",), thinking_default="always", efforts=(), forced_tool_choice="rejected",
    refuses=("stop", "parallel_tool_calls"), prefill="no_effect", structured_output="prompt", images_in=False,
    audio_in=False, documents_in=False, passback="always", continuity="yes", source="gp;ll;doc", confidence="medium")

MINIMAX = (
    minimax("MiniMax M3.1 Flash", "minimax-m3.1-flash", "minimax-m3.1-flash-preview", max_output=524_288,
        thinking=("effort", "always"), efforts=LOW_TO_MAX, effort_default="max", images_in=True,
        price=usd(0.15, 0.6, 0.015)),
    minimax("MiniMax M3", "minimax-m3", max_output=128_000, thinking=("toggle",), thinking_default="yes",
        images_in=True, price=usd(0.3, 1.2, 0.06, tiered=True)),
    minimax("MiniMax M2.7 highspeed", "minimax-m2.7-highspeed", context_window=204_800, price=usd(0.6, 2.4)),
    minimax("MiniMax M2.7", "minimax-m2.7", context_window=204_800, price=usd(0.3, 1.2, 0.06, 0.375)),
    minimax("MiniMax M2 to M2.5", "minimax-m2", "minimax-m2-highspeed", "minimax-m2-lightning", "minimax-m2.1",
        "minimax-m2.1-highspeed", "minimax-m2.1-lightning", "minimax-m2.5", "minimax-m2.5-highspeed",
        "minimax-m2.5-lightning", context_window=204_800, max_output=8192, price=usd(0.3, 1.2, 0.03, 0.375),
        notes="one source has a window of 1M"),
    minimax("another MiniMax", "minimax-m", suffix=r"(?:[2-9]|\d\d)(?:[.-].*)?", ids=(), confidence="low",
        notes="a rule for families to come"),
)

mistral = ModelGroup(dialect="openai-chat", context_window=262_144, max_output=262_144, thinking=("none",),
    thinking_default="no", efforts=(), prefill="flag:prefix", system_mid="native", audio_in=False,
    continuity="no-reasoning", source="v;ll;gp;pa", confidence="high")
reasoning = mistral.extend(thinking=("effort",), passback="always", continuity="yes")
hosted_glm = mistral.extend(context_window=1_048_576, max_output=131_072, thinking=("effort", "always"),
    thinking_default="always", efforts=("low", "high", "max"), effort_default="max", documents_in=False,
    passback="always", continuity="yes")

MISTRAL = (
    mistral("Mistral Large 4", "mistral-large-4", "mistral-large-4-0", context_window=1_048_576, max_output=None,
        thinking=("effort", "always"), thinking_default="always", efforts=LOW_TO_HIGH, passback="always",
        continuity="yes", price=(usd(0.68, 2.09), usd(1.36, 4.18, 0.14, since="2026-10-20")),
        notes="the end of the launch price is doubted by its own source"),
    mistral("Mistral Large 3", "mistral-large-latest", "mistral-large-2512", "mistral-large-3",
        price=usd(0.5, 1.5, 0.05)),
    reasoning("Mistral Medium 3.5", "mistral-medium", "mistral-medium-latest", "mistral-medium-2604",
        "mistral-medium-3", "mistral-medium-3-5", "mistral-medium-3.5", "mistral-vibe-cli-latest",
        "mistral-vibe-cli-with-tools", "magistral-medium-latest", efforts=("none", "high"), effort_default="none",
        price=usd(1.5, 7.5, 0.15), notes="content is a list of chunks while it is_thinking_enabled"),
    reasoning("Mistral Small 4",
        suffix="(?:mistral-small-(?:2603|latest|4.*)|mistral-vibe-cli-fast|magistral-small-latest)",
        ids=("mistral-small-2603", "mistral-small-latest", "mistral-small-4", "mistral-vibe-cli-fast",
            "magistral-small-latest"), efforts=("none", "high"), effort_default="none", price=usd(0.15, 0.6, 0.015)),
    hosted_glm("GLM-5.3 at Mistral", "zai-glm-5", "zai-glm-5-3", "zai-glm-latest", images_in=False,
        price=usd(1.4, 4.4, 0.14)),
    hosted_glm("GLM-5.3 Flash at Mistral", "zai-glm-5-3-flash", price=usd(0.15, 0.5, 0.03), confidence="medium"),
    mistral("Ministral 14B", "ministral-14b-", "ministral-3-14b-", suffix=".*", ids=(), price=usd(0.2, 0.2, 0.02)),
    mistral("Ministral 8B", "ministral-8b-", "ministral-3-8b-", suffix=".*", ids=(), price=usd(0.15, 0.15, 0.015)),
    mistral("Ministral 3B", "ministral-3b-", "ministral-3-3b-", suffix=".*", ids=(), context_window=131_072,
        max_output=131_072, price=usd(0.1, 0.1, 0.01)),
    mistral("Codestral", "codestral-2508", "codestral-latest", "mistral-code-latest", "mistral-code-fim-latest",
        context_window=256_000, max_output=128_000, images_in=False, documents_in=False, price=usd(0.3, 0.9, 0.03)),
    mistral("Voxtral Small", "voxtral-small-2507", "voxtral-small-latest", context_window=32_768, max_output=32_768,
        images_in=False, audio_in=True, documents_in=False, price=usd(0.1, 0.4, 0.01)),
    reasoning("GLM-5.2 at Mistral", "glm-5-2", "zai-glm-5-2", context_window=None, max_output=None,
        efforts=("none", "high"), confidence="low", notes="deprecated"),
    mistral("older Mistral models",
        suffix=r"(?:(?:devstral|labs|codestral|magistral|pixtral|open)-.*|mistral-(?:code-agent-latest|small"
            r"|(?:tiny|nemo|saba|7b).*|(?:small|medium|large)-2[0-5]\d\d))",
        context_window=None, max_output=None, confidence="low", notes="deprecated or retired"),
)

command = ModelGroup(dialect="openai-chat", context_window=128_000, max_output=4096, thinking=("none",),
    thinking_default="no", efforts=(), prefill="no_effect", system_mid="native", images_in=False, audio_in=False,
    documents_in=False, continuity="no-reasoning", source="ll;gp;pa;sdk", confidence="medium")
command_reasoning = command.extend(thinking=("effort",), thinking_default="yes", efforts=("none", "high"),
    effort_default="high", passback="tool_turns", continuity="native-only")

COHERE = (
    command_reasoning("Command A+", "command-a-plus-05-2026", max_output=64_000, images_in=True),
    command_reasoning("Command A Reasoning", "command-a-reasoning-08-2025", context_window=256_000, max_output=32_000,
        confidence="low"),
    command("Command A Vision", "command-a-vision-07-2025", max_output=8000, forced_tool_choice="rejected", tools=False,
        parallel_tools=False, images_in=True, confidence="low"),
    command("Command A", "command-a-03-2025", context_window=256_000, max_output=8000, price=usd(2.5, 10)),
    command("Command R+", "command-r-plus", suffix=r"(?:-\d\d-\d{4})?", price=usd(2.5, 10)),
    command("Command R7B", "command-r7b", suffix=r"(?:-\d\d-\d{4})?", price=usd(0.0375, 0.15)),
    command("Command R", "command-r", suffix=r"(?:-\d\d-\d{4})?", price=usd(0.15, 0.6)),
)

qwen = ModelGroup(dialect="openai-chat", context_window=991_808, max_output=65_536, thinking=("toggle", "budget"),
    thinking_default="yes", efforts=(), forced_tool_choice="not_with_thinking", prefill="no_effect", audio_in=False,
    documents_in=False, passback="never", continuity="reasoning-ignored", source="ll;v;pa;doc", confidence="medium")
instruct = qwen.extend(thinking=("none",), thinking_default="no", forced_tool_choice="ok", structured_output="prompt",
    passback=None, continuity="no-reasoning")
snapshot = qwen.extend(context_window=None, max_output=None, thinking_default="no", structured_output="prompt")

ALIBABA = (
    qwen("Qwen3.8 Max", "qwen3.8-max", suffix=".*", max_output=131_072, thinking=("effort", "toggle"),
        efforts=("none", "minimal", *LOW_TO_MAX), effort_default="xhigh", price=usd(2, 6, 0.25),
        notes="max_tokens does not bound the thinking"),
    qwen("Qwen3.8 Flash", "qwen3.8-flash", suffix=".*", max_output=131_072, price=usd(0.15, 0.47, 0.016, 0.2)),
    qwen("Qwen3.8 Omni Flash", "qwen3.8-omni-flash", suffix=".*", max_output=131_072, thinking_default="no",
        structured_output="prompt", audio_in=True, price=usd(0.15, 0.47, 0.016), confidence="low",
        notes="sound as a data URI"),
    qwen("Qwen3.7 Max", "qwen3.7-max", suffix=".*", images_in=False, price=usd(2.5, 7.5, 0.5, 3.125)),
    qwen("Qwen3.7 Plus and Flash", "qwen3.7-plus", "qwen3.7-flash", suffix=".*"),
    qwen("Qwen3.5, 3.6", "qwen3.5-", "qwen3.6-", suffix=".*", ids=(), structured_output="prompt"),
    qwen("Qwen3 Thinking, QwQ", suffix=r"(?:qwen3-.*-thinking(?:-\d{4})?|qwq-.*)", context_window=None, max_output=None,
        thinking=("always",), thinking_default="always", forced_tool_choice="rejected", structured_output="prompt",
        images_in=False, notes="answers as a stream only"),
    instruct("Qwen Coder", "qwen", suffix="(?:3?-?|-3-)coder.*", ids=("qwen3-coder", "qwen-3-coder"),
        context_window=997_952, images_in=False, notes="tool schemas want their $defs written out"),
    instruct("Qwen3 Next Instruct", "qwen3-next-80b-", suffix=r".*-instruct(?:-\d{4})?", ids=(), context_window=262_144,
        images_in=False, price=usd(0.15, 1.2)),
    instruct("Qwen3 Instruct", "qwen3-", suffix=r".*-instruct(?:-\d{4})?", ids=(), context_window=262_144,
        notes="only the vl ids see pictures"),
    snapshot("Qwen Plus", "qwen-plus", images_in=False, price=usd(0.4, 1.2)),
    snapshot("Qwen Turbo", "qwen-turbo", images_in=False, price=usd(0.05, 0.2)),
    snapshot("Qwen Max", "qwen-max", images_in=False, price=usd(1.6, 6.4)),
    snapshot("Qwen Plus, Flash, Turbo, Max", "qwen",
        suffix=r"(?:-(?:plus|flash|turbo|max).*|3-(?:max|vl-plus).*|3-\d+b-a\d+b)",
        ids=("qwen-flash", "qwen3-max", "qwen3-vl-plus"), notes="windows from 30K to 1M by snapshot"),
)

muse = ModelGroup(dialect="openai-responses", context_window=1_048_576, max_output=131_072,
    thinking=("effort", "always"), thinking_default="always", efforts=("minimal", *LOW_TO_MAX), effort_default="high",
    forced_tool_choice="rejected", refuses=("stop",), prefill="no_effect", audio_in=False, passback="always",
    continuity="yes", source="pa;ll;gp;doc", confidence="high")

META = (
    muse("Muse Wonder 1.0", "muse-wonder-1.0", price=usd(4, 20, 0.2),
        notes="tool choice auto only, none is a 400 as well; phase goes back"),
    muse("Muse Spark contributor", "muse-spark-1.", suffix=r"\d-contributor", ids=(), price=usd(0.1, 0.2, 0.002),
        notes="cheaper because the vendor may train on it"),
    muse("Muse Spark", "muse-spark-1.", suffix=r"\d", ids=(), price=usd(1.25, 4.25, 0.15),
        notes="tool choice auto only; sources disagree on effort max"),
    muse("another Muse", "muse-", suffix=".*", ids=(), confidence="low", notes="a rule for families to come"),
)

sonar = ModelGroup(dialect="openai-chat", context_window=128_000, thinking=("none",), thinking_default="no", efforts=(),
    forced_tool_choice="rejected", prefill="rejected", tools=False, parallel_tools=False, audio_in=False,
    continuity="no-reasoning", source="ll;gp", confidence="medium")
sonar_reasoning = sonar.extend(thinking=("effort", "always"), thinking_default="always", efforts=LOW_TO_HIGH,
    effort_default="medium", passback="never")

PERPLEXITY = (
    sonar("Sonar", "sonar", price=usd(1, 1), notes="tools are typed in the SDK; libraries leave them out"),
    sonar("Sonar Pro", "sonar-pro", "sonar-pro-search", context_window=200_000, max_output=8000, price=usd(3, 15)),
    sonar_reasoning("Sonar Reasoning Pro", "sonar-reasoning", "sonar-reasoning-pro", continuity="think-tags",
        price=usd(2, 8)),
    sonar_reasoning("Sonar Deep Research", "sonar-deep-research", continuity="stateless-search", price=usd(2, 8)),
    sonar("models of its Agent API", suffix="(?:perplexity|anthropic|openai|google|xai|preset)/.*",
        dialect="openai-responses", context_window=None, sampling="rejected", forced_tool_choice="ok", tools=True,
        parallel_tools=True, confidence="low", notes="POST /v1/responses only; costs what the vendor asks"),
)

ROWS: dict[str, tuple[ModelRow, ...]] = {
    "xai": XAI, "deepseek": DEEPSEEK, "moonshot": MOONSHOT, "zai": ZAI, "minimax": MINIMAX, "mistral": MISTRAL,
    "cohere": COHERE, "alibaba": ALIBABA, "meta": META, "perplexity": PERPLEXITY,
}
