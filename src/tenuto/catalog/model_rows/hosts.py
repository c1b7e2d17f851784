"""Hosts of other vendors' models, and `ANY_HOST`: rows that apply to a model on any host."""

from tenuto.catalog.model_rows import ANY_HOST, DATE, LOW_TO_HIGH, LOW_TO_MAX, LOW_TO_XHIGH, ModelGroup, ModelRow, usd

# The formatter would write one line per field.
# fmt: off

groq = ModelGroup(dialect="openai-chat", context_window=131_072, thinking=("effort", "always"),
    thinking_default="always", efforts=LOW_TO_HIGH, effort_default="medium", prefill="no_effect", system_mid="native",
    images_in=False, audio_in=False, documents_in=False, passback="tool_turns", continuity="yes", source="ll;gp;pa;v",
    confidence="high")

GROQ = (
    groq("gpt-oss 120B at Groq", "openai/gpt-oss-120b", max_output=65_536, price=usd(0.15, 0.6, 0.075),
        notes="a json_schema does not go with tools"),
    groq("gpt-oss 20B at Groq", "openai/gpt-oss-20b", "openai/gpt-oss-safeguard-20b", max_output=65_536,
        price=usd(0.075, 0.3, 0.0375)),
    groq("Qwen 3.8 27B at Groq", "qwen/qwen3.6-27b", "qwen/qwen3.8-27b", max_output=16_384, thinking=("effort",),
        thinking_default="yes", efforts=("none", "default", *LOW_TO_HIGH), effort_default="default", images_in=True,
        price=usd(0.8, 4), confidence="medium", notes="low to high are typed for 3.8 only"),
    groq("Groq Compound", "compound", "groq/compound", suffix="(?:-beta)?(?:-mini)?",
        ids=("compound", "compound-mini", "compound-beta", "compound-beta-mini"), max_output=8192, thinking=("none",),
        thinking_default="no", efforts=(), forced_tool_choice="rejected", structured_output="prompt", tools=False,
        parallel_tools=False, passback="never", continuity="no-reasoning", confidence="low",
        notes="runs its own tools only"),
    groq("Llama at Groq", "llama-", "meta-llama/llama-", suffix=".*", ids=(), context_window=None, images_in=True,
        thinking=("none",), thinking_default="no", efforts=(), structured_output="prompt", passback="never",
        continuity="no-reasoning", confidence="low", notes="no longer in every list; the guard models take no tools"),
)

cerebras = ModelGroup(dialect="openai-chat", context_window=131_072, max_output=32_768, prefill="no_effect",
    images_in=False, audio_in=False, documents_in=False, passback="tool_turns", continuity="yes", source="ll;gp;pa",
    confidence="high")

CEREBRAS = (
    cerebras("gpt-oss 120B at Cerebras", "gpt-oss-120b", thinking=("effort", "always"), thinking_default="always",
        efforts=LOW_TO_HIGH, effort_default="medium", forced_tool_choice="rejected", price=usd(0.35, 0.75),
        notes="disable_reasoning is a 400"),
    cerebras("Qwen 3.8 27B at Cerebras", "qwen-3.8-27b", context_window=65_536, thinking=("toggle",),
        thinking_default="yes", efforts=(), images_in=True, price=usd(0.99, 1.49), confidence="medium"),
)

sambanova = ModelGroup(dialect="openai-chat", max_output=131_072, thinking=("always",), thinking_default="always",
    prefill="no_effect", images_in=False, audio_in=False, documents_in=False, continuity="yes", source="ll",
    confidence="medium")

SAMBANOVA = (
    sambanova("MiniMax M2.7 at SambaNova", "MiniMax-M2.7", context_window=196_608, efforts=(),
        structured_output="prompt", passback="always", price=usd(0.6, 2.4)),
    sambanova("gpt-oss 120B at SambaNova", "gpt-oss-120b", context_window=131_072, thinking=("effort", "always"),
        efforts=LOW_TO_HIGH, effort_default="medium", passback="tool_turns", price=usd(0.22, 0.59)),
)

together = ModelGroup(dialect="openai-chat", context_window=1_048_576, thinking=("effort", "always"),
    thinking_default="always", efforts=("low", "high", "max"), effort_default="max", prefill="no_effect",
    images_in=False, audio_in=False, documents_in=False, passback="tool_turns", continuity="yes", source="ll;gp",
    confidence="medium")
together_deepseek = together.extend(thinking=("toggle", "effort"), thinking_default="yes",
    efforts=("low", "high", "max"), effort_default="high", sampling="ignored", forced_tool_choice="rejected")
together_glm = together.extend(context_window=1_048_575, max_output=128_000, efforts=("low", "medium", "high", "max"),
    effort_default="max")
together_qwen = together.extend(context_window=1_000_000, thinking=("toggle",), thinking_default="yes", efforts=())
together_gpt_oss = together.extend(context_window=131_072, efforts=LOW_TO_HIGH, effort_default="medium")

TOGETHER = (
    together_deepseek("DeepSeek V4.1 Flash at Together", "deepseek-ai/DeepSeek-V4.1-Flash", suffix=r"(?:-\d{4})?",
        images_in=True, price=usd(0.3, 1.2, 0.006)),
    together_deepseek("DeepSeek V4 Pro at Together", "deepseek-ai/DeepSeek-V4-Pro", suffix=r"(?:-\d{4})?",
        price=usd(1.32, 3.96, 0.13)),
    together("Kimi K3 at Together", "moonshotai/Kimi-K3", suffix=".*", images_in=True, price=usd(3, 15, 0.3)),
    together_glm("GLM-5.3 at Together", "zai-org/GLM-5.3", price=usd(1.4, 4.4, 0.26),
        notes="reasoning comes in reasoning_content"),
    together_glm("GLM-5.3 Flash at Together", "zai-org/GLM-5.3-Flash", images_in=True, price=usd(0.15, 0.5, 0.03)),
    together("MiniMax M3.1 Flash at Together", "MiniMaxAI/MiniMax-M3.1-Flash", thinking=("always",), efforts=(),
        price=usd(0.15, 0.6, 0.015)),
    together_gpt_oss("gpt-oss 120B at Together", "openai/gpt-oss-120b", price=usd(0.15, 0.6)),
    together_gpt_oss("gpt-oss 20B at Together", "openai/gpt-oss-20b", retires="2026-09-15", price=usd(0.15, 0.6)),
    together_qwen("Qwen 3.8 2.4T at Together", "Qwen/Qwen3.8-2.4T-A95B", suffix=".*", price=usd(2, 6),
        confidence="low"),
    together_qwen("Qwen 3.8 at Together", "Qwen/Qwen3.8-", suffix=".*", ids=(), price=usd(0.15, 0.47),
        confidence="low"),
    together("Llama at Together", "meta-llama/", suffix=".*", ids=(), images_in=True, context_window=131_072,
        thinking=("none",), thinking_default="no", efforts=(), passback=None, continuity="no-reasoning",
        price=usd(0.88, 0.88), notes="3.3-70B-Turbo ended on 2026-10-22"),
)

fireworks = ModelGroup(dialect="openai-chat", context_window=1_048_576, thinking=("effort", "always"),
    thinking_default="always", efforts=("low", "high", "max"), effort_default="max", prefill="no_effect",
    images_in=False, audio_in=False, documents_in=False, passback="tool_turns", continuity="yes", source="ll;gp",
    confidence="medium")
fireworks_gpt_oss = fireworks.extend(context_window=131_072, max_output=32_768, efforts=LOW_TO_HIGH,
    effort_default="medium")

FIREWORKS = (
    fireworks("DeepSeek V4.1 Flash at Fireworks", "accounts/fireworks/models/deepseek-v4p1-flash",
        "accounts/fireworks/routers/deepseek-v4p1-flash", suffix=".*", effort_default="high", max_output=393_216,
        thinking=("toggle", "effort"), thinking_default="yes", forced_tool_choice="not_with_thinking", images_in=True,
        price=usd(0.3, 1.2, 0.006)),
    fireworks("Kimi K3 at Fireworks", "accounts/fireworks/models/kimi-k3", "accounts/fireworks/routers/kimi-k3",
        suffix=".*", context_window=1_040_000, images_in=True, price=usd(3, 15, 0.3)),
    fireworks("GLM-5.3 at Fireworks", "accounts/fireworks/models/glm-5p3", "accounts/fireworks/models/glm-5p3-fast",
        "accounts/fireworks/models/glm-5p3-us", "accounts/fireworks/routers/glm-5p3",
        "accounts/fireworks/routers/glm-5p3-fast", "accounts/fireworks/routers/glm-5p3-us", max_output=131_072,
        price=usd(1.4, 4.4, 0.26)),
    fireworks("GLM-5.3 Flash at Fireworks", "accounts/fireworks/models/glm-5p3-flash",
        "accounts/fireworks/routers/glm-5p3-flash", suffix=".*", max_output=131_072, images_in=True,
        price=usd(0.15, 0.5, 0.03)),
    fireworks("MiniMax M3 at Fireworks", "accounts/fireworks/models/minimax-m3",
        "accounts/fireworks/routers/minimax-m3", suffix=".*", context_window=524_288, thinking=("toggle",),
        thinking_default="yes", efforts=(), price=usd(0.3, 1.2, 0.06)),
    fireworks_gpt_oss("gpt-oss 120B at Fireworks", "accounts/fireworks/models/gpt-oss-120b",
        "accounts/fireworks/routers/gpt-oss-120b", suffix=".*", retires="2026-11-07", price=usd(0.15, 0.6, 0.015)),
    fireworks_gpt_oss("gpt-oss at Fireworks", "accounts/fireworks/models/gpt-oss-",
        "accounts/fireworks/routers/gpt-oss-", suffix=".*", ids=(), price=usd(0.15, 0.6, 0.015)),
)

openrouter = ModelGroup(path="~", suffix="([^:]+)(?::.*)?", dialect="openai-chat", thinking=("effort",),
    efforts=("none", "minimal", *LOW_TO_MAX), system_mid="native", chat_tools="ok", passback="always",
    interleaved_beta=False, source="pa", confidence="medium")

OPENROUTER = (
    openrouter("Claude without forced choice, at OpenRouter", "anthropic/",
        suffix=r"(claude-(?:fable-5\.[12]|mythos-5\.[12]|opus-5\.5|sonnet-5\.5)[^:]*)(?::.*)?",
        ids=("anthropic/claude-fable-5.1", "anthropic/claude-fable-5.2", "anthropic/claude-mythos-5.1",
            "anthropic/claude-mythos-5.2", "anthropic/claude-opus-5.5", "anthropic/claude-sonnet-5.5"),
        vendor="anthropic", forced_tool_choice="rejected", notes="prices from /api/v1/models"),
    openrouter("Claude at OpenRouter", "anthropic/", ids=(), vendor="anthropic",
        forced_tool_choice="not_with_thinking", notes="forced choice turns thinking off"),
    openrouter("a reasoning model of OpenAI's at OpenRouter", "openai/",
        suffix=r"((?:gpt-(?:[5-9]|\d\d)|o\d)[^:]*)(?::.*)?", ids=(), vendor="openai",
        notes="-pro ids stand for reasoning.mode pro"),
    openrouter("gpt-oss at OpenRouter", "openai/", suffix="(gpt-oss[^:]*)(?::.*)?", ids=("openai/gpt-oss",),
        vendor="openai", efforts=LOW_TO_HIGH),
    openrouter("another model of OpenAI's at OpenRouter", "openai/", ids=(), vendor="openai",
        thinking=("none",), efforts=(), passback=None),
    openrouter("Gemini at OpenRouter", "google/", suffix="(gemini-[^:]+)(?::.*)?", ids=(), vendor="google"),
    openrouter("DeepSeek at OpenRouter", "deepseek/", ids=(), vendor="deepseek",
        forced_tool_choice="not_with_thinking", prefill="no_effect"),
    openrouter("Kimi at OpenRouter", "moonshotai/", ids=(), vendor="moonshot",
        forced_tool_choice="not_with_thinking", prefill="no_effect"),
    openrouter("Grok at OpenRouter", "x-ai/", ids=(), vendor="xai", prefill="no_effect"),
    openrouter("GLM at OpenRouter", "z-ai/", ids=(), vendor="zai", forced_tool_choice="ok",
        prefill="no_effect"),
    openrouter("MiniMax at OpenRouter", "minimax/", ids=(), vendor="minimax",
        forced_tool_choice="ok", prefill="no_effect"),
)

azure = ModelGroup(source="pa;ll", confidence="medium")

AZURE = (
    azure("GPT-6 Astra on Azure", suffix=rf"(gpt-6-astra{DATE})", ids=("gpt-6-astra",), vendor="openai",
        efforts=LOW_TO_XHIGH, effort_default="medium", notes="effort max is off here"),
    azure("a deployment named like its model", suffix="(.+)", vendor="openai",
        notes="a deployment's name says nothing; one that reads like a model of OpenAI's is taken for it"),
)

vertex = ModelGroup(source="pa;gp;ll", confidence="medium")

VERTEX = (
    vertex("Gemini 2.5 on Vertex", suffix=r"(?:publishers/google/models/)?(gemini-2\.5-.*)", vendor="google",
        refuses=()),
    vertex("Gemini on Vertex", suffix="(?:publishers/google/models/)?((?:gemini|gemma)-.*)", vendor="google",
        notes="streams arguments; no includeServerSideToolInvocations"),
    vertex("Claude on Vertex", suffix="(?:publishers/anthropic/models/)?(claude-.*)", vendor="anthropic",
        notes=":rawPredict, anthropic_version in the body; no files, no container ids"),
    vertex("open models on Vertex", suffix=".*-maas", dialect="openai-chat", thinking=("none",), thinking_default="no",
        efforts=(), prefill="no_effect", system_mid="native", images_in=False, audio_in=False, documents_in=False,
        continuity="no-reasoning", notes="below endpoints/openapi"),
)

nvidia = ModelGroup(dialect="openai-chat", source="ll", confidence="low")

NVIDIA = (
    nvidia("Nemotron at NVIDIA", "nvidia/", suffix=".*nemotron.*", ids=(), context_window=262_144, thinking=("toggle",),
        thinking_default="yes", efforts=(), prefill="no_effect", images_in=False, audio_in=False, documents_in=False,
        passback="tool_turns", continuity="yes"),
)

ollama = ModelGroup(dialect="openai-chat", forced_tool_choice="ignored", prefill="no_effect", images_in=False,
    audio_in=False, documents_in=False, passback="tool_turns", continuity="yes", source="pa", confidence="medium")

OLLAMA = (
    ollama("gpt-oss at Ollama", "gpt-oss", suffix=".*", context_window=131_072, thinking=("effort", "always"),
        thinking_default="always", efforts=LOW_TO_HIGH, effort_default="medium"),
    ollama("reasoning models at Ollama", suffix="(?:qwen3|deepseek-(?:r1|v)|gemma4|glm|kimi|minimax|nemotron).*",
        thinking=("toggle", "effort"), thinking_default="yes", efforts=("none", *LOW_TO_HIGH), images_in=True,
        confidence="low"),
)

anywhere = ModelGroup(source="inf", confidence="low")
tool_turns = anywhere.extend(passback="tool_turns", continuity="yes")

ANYWHERE = (
    anywhere("Claude, elsewhere", suffix="(?:[^/]+/)*(claude-[^/:]+)(?::.*)?", vendor="anthropic", dialect=None,
        system_mid="unverified", notes="a gateway passes the refusals of its vendor on"),
    anywhere("a model of OpenAI's, elsewhere", suffix=r"(?:[^/]+/)*((?:gpt-\d|o\d|chatgpt-)[^/:]*)(?::.*)?",
        vendor="openai", dialect=None, notes="a gateway passes the refusals of its vendor on"),
    anywhere("Gemini, elsewhere", suffix="(?:[^/]+/)*(gemini-[^/:]+)(?::.*)?", vendor="google", dialect=None,
        system_mid="unverified", notes="a gateway passes the refusals of its vendor on"),
    anywhere("Grok, elsewhere", suffix="(?:[^/]+/)*(grok-[^/:]+)(?::.*)?", vendor="xai", dialect=None,
        notes="a gateway passes the refusals of its vendor on"),
    anywhere("DeepSeek R1, elsewhere", suffix="(?i:.*deepseek-r1.*)", passback="never", continuity="reasoning-rejected",
        source="doc;inf"),
    tool_turns("DeepSeek V3.1 and later, elsewhere", suffix="(?i:.*deepseek-v(?:3[.p][1-9]|[4-9]).*)", source="doc",
        confidence="medium", notes="reasoning is wanted back with tool calls"),
    tool_turns("Kimi K2.5 and later, elsewhere", suffix="(?i:.*kimi-k(?:2[.p][5-9]|2-thinking|[3-9]).*)",
        source="doc", confidence="medium", notes="reasoning is wanted back with tool calls"),
    tool_turns("GLM-4.5 and later, elsewhere", suffix="(?i:.*glm-(?:4[.p][5-9]|[5-9]).*)", source="doc",
        confidence="medium", notes="reasoning is wanted back with tool calls"),
    anywhere("MiniMax M2 and later, elsewhere", suffix="(?i:.*minimax-m[2-9].*)", passback="always", continuity="yes",
        source="doc", confidence="medium", notes="reasoning is wanted back whole"),
    tool_turns("gpt-oss, elsewhere", suffix="(?i:.*gpt-oss.*)", thinking=("effort", "always"),
        thinking_default="always", efforts=LOW_TO_HIGH, effort_default="medium", source="doc;pa", confidence="medium",
        notes="reasoning is wanted back within the turn"),
)

ROWS: dict[str, tuple[ModelRow, ...]] = {
    "groq": GROQ, "cerebras": CEREBRAS, "sambanova": SAMBANOVA, "together": TOGETHER, "fireworks": FIREWORKS,
    "openrouter": OPENROUTER, "azure": AZURE, "vertex": VERTEX, "nvidia": NVIDIA, "ollama": OLLAMA, ANY_HOST: ANYWHERE,
}
