"""Hosts of other vendors' models, and `ANY_HOST`: rows that apply to a model on any host."""

from tenuto.catalog.model_rows import ANY_HOST, DATE, LOW_HIGH_MAX, LOW_TO_HIGH, LOW_TO_MAX, ModelGroup, Rows

# The formatter would write one line per field.
# fmt: off
ROWS: Rows = {}

open_model = ModelGroup(dialect="openai-chat", context_window=131_072, thinking=("effort", "always"),
    efforts=LOW_TO_HIGH, effort_default="medium", prefill="no_effect", images_in=False, audio_in=False,
    documents_in=False, passback="tool_turns", continuity="yes", source="ll;gp")
large = open_model.extend(suffix=".*", context_window=1_048_576, efforts=LOW_HIGH_MAX, effort_default="max")

groq = open_model.extend(system_mid="native", source="ll;gp;pa;v", confidence="high")
ROWS["groq"] = (
    groq("gpt-oss 120B at Groq", "openai/gpt-oss-120b", max_output=65_536, usd=(0.15, 0.6, 0.075),
        notes="a json_schema does not go with tools"),
    groq("gpt-oss 20B at Groq", "openai/gpt-oss-20b", "openai/gpt-oss-safeguard-20b", max_output=65_536,
        usd=(0.075, 0.3, 0.0375)),
    groq("Qwen 3.8 27B at Groq", "qwen/qwen3.6-27b", "qwen/qwen3.8-27b", max_output=16_384, thinking=("effort",),
        efforts=("none", "default", *LOW_TO_HIGH), effort_default="default", images_in=True, usd=(0.8, 4),
        confidence="medium", notes="low to high are typed for 3.8 only"),
    groq("Groq Compound", "compound", "groq/compound", suffix="(?:-beta)?(?:-mini)?",
        ids=("compound", "compound-mini", "compound-beta", "compound-beta-mini"), max_output=8192, thinking=("none",),
        forced_tool_choice="rejected", structured_output="prompt", tools=False, parallel_tools=False, passback="never",
        confidence="low", notes="runs its own tools only"),
    groq("Llama at Groq", "llama-", "meta-llama/llama-", suffix=".*", context_window=None, images_in=True,
        thinking=("none",), structured_output="prompt", passback="never", confidence="low",
        notes="no longer in every list; the guard models take no tools"),
    groq("other models at Groq", "moonshotai/kimi-k2-instruct", "gemma", "mistral-", "mixtral-", "allam-", suffix=".*",
        ids=(), context_window=None, thinking=("none",), structured_output="prompt", passback="never",
        confidence="low", notes="no longer served"),
)

cerebras = open_model.extend(max_output=32_768, source="ll;gp;pa", confidence="high")
ROWS["cerebras"] = (
    cerebras("gpt-oss 120B at Cerebras", "gpt-oss-120b", forced_tool_choice="rejected", usd=(0.35, 0.75),
        notes="disable_reasoning is a 400"),
    cerebras("Qwen 3.8 27B at Cerebras", "qwen-3.8-27b", context_window=65_536, thinking=("toggle",), efforts=(),
        images_in=True, usd=(0.99, 1.49), confidence="medium"),
)

sambanova = open_model.extend(max_output=131_072, source="ll")
ROWS["sambanova"] = (
    sambanova("MiniMax M2.7 at SambaNova", "MiniMax-M2.7", context_window=196_608, thinking=("always",), efforts=(),
        structured_output="prompt", passback="always", usd=(0.6, 2.4)),
    sambanova("gpt-oss 120B at SambaNova", "gpt-oss-120b", usd=(0.22, 0.59)),
)

deepseek = large.extend(suffix=r"(?:-\d{4})?", thinking=("toggle", "effort"), effort_default="high", sampling="ignored",
    forced_tool_choice="rejected")
glm = large.extend(suffix="", context_window=1_048_575, max_output=128_000, efforts=("low", "medium", "high", "max"))
qwen = large.extend(confidence="low", context_window=1_000_000, thinking=("toggle",), efforts=())
ROWS["together"] = (
    deepseek("DeepSeek V4.1 Flash at Together", "deepseek-ai/DeepSeek-V4.1-Flash", images_in=True,
        usd=(0.3, 1.2, 0.006)),
    deepseek("DeepSeek V4 Pro at Together", "deepseek-ai/DeepSeek-V4-Pro", usd=(1.32, 3.96, 0.13)),
    large("Kimi K3 at Together", "moonshotai/Kimi-K3", images_in=True, usd=(3, 15, 0.3)),
    glm("GLM-5.3 at Together", "zai-org/GLM-5.3", usd=(1.4, 4.4, 0.26), notes="reasoning comes in reasoning_content"),
    glm("GLM-5.3 Flash at Together", "zai-org/GLM-5.3-Flash", images_in=True, usd=(0.15, 0.5, 0.03)),
    large("MiniMax M3.1 Flash at Together", "MiniMaxAI/MiniMax-M3.1-Flash", suffix="", thinking=("always",), efforts=(),
        usd=(0.15, 0.6, 0.015)),
    open_model("gpt-oss 120B at Together", "openai/gpt-oss-120b", usd=(0.15, 0.6)),
    open_model("gpt-oss 20B at Together", "openai/gpt-oss-20b", retires="2026-09-15", usd=(0.15, 0.6)),
    qwen("Qwen 3.8 2.4T at Together", "Qwen/Qwen3.8-2.4T-A95B", usd=(2, 6)),
    qwen("Qwen 3.8 at Together", "Qwen/Qwen3.8-", usd=(0.15, 0.47)),
    large("Llama at Together", "meta-llama/", images_in=True, context_window=131_072, thinking=("none",),
        usd=(0.88, 0.88), notes="3.3-70B-Turbo ended on 2026-10-22"),
)

gpt_oss = open_model.extend(suffix=".*", max_output=32_768)

def at_fireworks(*names: str) -> tuple[str, ...]:
    return tuple(f"accounts/fireworks/{kind}/{name}" for kind in ("models", "routers") for name in names)

ROWS["fireworks"] = (
    large("DeepSeek V4.1 Flash at Fireworks", *at_fireworks("deepseek-v4p1-flash"), effort_default="high",
        max_output=393_216, thinking=("toggle", "effort"), forced_tool_choice="not_with_thinking", images_in=True,
        usd=(0.3, 1.2, 0.006)),
    large("Kimi K3 at Fireworks", *at_fireworks("kimi-k3"), context_window=1_040_000, images_in=True, usd=(3, 15, 0.3)),
    large("GLM-5.3 at Fireworks", *at_fireworks("glm-5p3", "glm-5p3-fast", "glm-5p3-us"), suffix="", max_output=131_072,
        usd=(1.4, 4.4, 0.26)),
    large("GLM-5.3 Flash at Fireworks", *at_fireworks("glm-5p3-flash"), max_output=131_072, images_in=True,
        usd=(0.15, 0.5, 0.03)),
    large("MiniMax M3 at Fireworks", *at_fireworks("minimax-m3"), context_window=524_288, thinking=("toggle",),
        efforts=(), usd=(0.3, 1.2, 0.06)),
    gpt_oss("gpt-oss 120B at Fireworks", *at_fireworks("gpt-oss-120b"), retires="2026-11-07", usd=(0.15, 0.6, 0.015)),
    gpt_oss("gpt-oss at Fireworks", *at_fireworks("gpt-oss-"), usd=(0.15, 0.6, 0.015)),
)

openrouter = ModelGroup(path="~", suffix="([^:]+)(?::.*)?", dialect="openai-chat", thinking=("effort",),
    efforts=("none", "minimal", *LOW_TO_MAX), system_mid="native", chat_tools="ok", passback="always",
    interleaved_beta=False, source="pa")
relayed = openrouter.extend(prefill="no_effect")
ROWS["openrouter"] = (
    openrouter("Claude without forced choice, at OpenRouter", "anthropic/",
        suffix=r"(claude-(?:fable-5\.[12]|mythos-5\.[12]|opus-5\.5|sonnet-5\.5)[^:]*)(?::.*)?",
        ids=("anthropic/claude-fable-5.1", "anthropic/claude-fable-5.2", "anthropic/claude-mythos-5.1",
        "anthropic/claude-mythos-5.2", "anthropic/claude-opus-5.5", "anthropic/claude-sonnet-5.5"), vendor="anthropic",
        forced_tool_choice="rejected", reasoning_format="anthropic-claude-v1", notes="prices from /api/v1/models"),
    openrouter("Claude at OpenRouter", "anthropic/", vendor="anthropic", forced_tool_choice="not_with_thinking",
        reasoning_format="anthropic-claude-v1", notes="forced choice turns thinking off"),
    openrouter("a reasoning model of OpenAI's at OpenRouter", "openai/",
        suffix=r"((?:gpt-(?:[5-9]|\d\d)|o\d)[^:]*)(?::.*)?", vendor="openai", reasoning_format="openai-responses-v1",
        notes="-pro ids stand for reasoning.mode pro"),
    openrouter("gpt-oss at OpenRouter", "openai/", suffix="(gpt-oss[^:]*)(?::.*)?", ids=("openai/gpt-oss",),
        vendor="openai", efforts=LOW_TO_HIGH),
    openrouter("another model of OpenAI's at OpenRouter", "openai/", vendor="openai", thinking=("none",), efforts=(),
        passback=None, reasoning_format="openai-responses-v1"),
    openrouter("Gemini 3 and later at OpenRouter", "google/", suffix=r"(gemini-(?:[3-9]|\d\d)[^:]*)(?::.*)?",
        vendor="google", reasoning_format="google-gemini-v1", signed_calls="required"),
    openrouter("Gemini at OpenRouter", "google/", suffix="(gemini-[^:]+)(?::.*)?", vendor="google",
        reasoning_format="google-gemini-v1"),
    relayed("DeepSeek R1 at OpenRouter", "deepseek/", suffix="(deepseek-r1[^:]*)(?::.*)?", ids=("deepseek/deepseek-r1",),
        vendor="deepseek", forced_tool_choice="rejected", reasoning_required=False),
    relayed("DeepSeek at OpenRouter", "deepseek/", vendor="deepseek", forced_tool_choice="not_with_thinking",
        reasoning_required=False),
    relayed("Kimi at OpenRouter", "moonshotai/", vendor="moonshot", forced_tool_choice="not_with_thinking"),
    relayed("Grok at OpenRouter", "x-ai/", vendor="xai"),
    relayed("GLM at OpenRouter", "z-ai/", vendor="zai", forced_tool_choice="ok"),
    relayed("MiniMax at OpenRouter", "minimax/", vendor="minimax", forced_tool_choice="ok"),
    openrouter("models without tools at OpenRouter", tools=False, parallel_tools=False, thinking=(), efforts=(), passback=None,
        suffix=r"(?:perplexity/sonar.*|(?:gryphe|sao10k|undi95)/.*|google/gemma-[12].*|meta-llama/llama-guard.*|.*-base(?::\w+)?)",
        ids=(), confidence="low"),
    openrouter("QwQ at OpenRouter", "qwen/qwq", suffix=".*", ids=(), forced_tool_choice="rejected", images_in=False,
        confidence="low"),
)

azure = ModelGroup(source="pa;ll")
ROWS["azure"] = (
    azure("GPT-6 Astra on Azure", suffix=rf"(gpt-6-astra{DATE})", ids=("gpt-6-astra",), vendor="openai",
        efforts=(*LOW_TO_HIGH, "xhigh"), effort_default="medium", notes="effort max is off here"),
    azure("a deployment named like its model", suffix="(.+)", vendor="openai",
        notes="a deployment's name says nothing; one that reads like a model of OpenAI's is taken for it"),
)

vertex = ModelGroup(source="pa;gp;ll")
ROWS["vertex"] = (
    vertex("Gemini 2.5 on Vertex", suffix=r"(?:publishers/google/models/)?(gemini-2\.5-.*)", vendor="google",
        refuses=()),
    vertex("Gemini on Vertex", suffix="(?:publishers/google/models/)?((?:gemini|gemma)-.*)", vendor="google",
        notes="streams arguments; no includeServerSideToolInvocations"),
    vertex("Claude on Vertex", suffix="(?:publishers/anthropic/models/)?(claude-.*)", vendor="anthropic",
        notes=":rawPredict, anthropic_version in the body; no files, no container ids"),
    open_model("open models on Vertex", suffix=".*-maas", context_window=None, thinking=("none",), system_mid="native",
        source="pa;gp;ll", notes="below endpoints/openapi"),
)

ROWS["nvidia"] = (
    open_model("Nemotron at NVIDIA", "nvidia/", suffix=".*nemotron.*", context_window=262_144, thinking=("toggle",),
        efforts=(), source="ll", confidence="low"),
)

ollama = open_model.extend(forced_tool_choice="ignored", source="pa")
ROWS["ollama"] = (
    ollama("gpt-oss at Ollama", "gpt-oss", suffix=".*"),
    ollama("reasoning models at Ollama", suffix="(?:qwen3|deepseek-(?:r1|v)|gemma4|glm|kimi|minimax|nemotron).*",
        thinking=("toggle", "effort"), context_window=None, efforts=("none", *LOW_TO_HIGH), effort_default="",
        images_in=True, confidence="low"),
)

anywhere = ModelGroup(source="inf", confidence="low", developer_role=False)
gateway = anywhere.extend(dialect=None, developer_role=True, notes="a gateway passes the refusals of its vendor on")
tool_turns = anywhere.extend(passback="tool_turns", continuity="yes", source="doc", confidence="medium",
    notes="reasoning is wanted back with tool calls")
ROWS[ANY_HOST] = (
    gateway("Claude, elsewhere", suffix="(?:[^/]+/)*(claude-[^/:]+)(?::.*)?", vendor="anthropic",
        system_mid="unverified"),
    gateway("a model of OpenAI's, elsewhere", suffix=r"(?:[^/]+/)*((?:gpt-\d|o\d|chatgpt-)[^/:]*)(?::.*)?",
        vendor="openai"),
    gateway("Gemini, elsewhere", suffix="(?:[^/]+/)*(gemini-[^/:]+)(?::.*)?", vendor="google", system_mid="unverified"),
    gateway("Grok, elsewhere", suffix="(?:[^/]+/)*(grok-[^/:]+)(?::.*)?", vendor="xai", developer_role=False),
    anywhere("DeepSeek R1, elsewhere", suffix="(?i:.*deepseek-r1.*)", passback="never", continuity="reasoning-rejected",
        source="doc;inf"),
    tool_turns("DeepSeek V3.1 and later, elsewhere", suffix="(?i:.*deepseek-v(?:3[.p][1-9]|[4-9]).*)"),
    tool_turns("Kimi K2.5 and later, elsewhere", suffix="(?i:.*kimi-k(?:2[.p][5-9]|2-thinking|[3-9]).*)"),
    tool_turns("GLM-4.5 and later, elsewhere", suffix="(?i:.*glm-(?:4[.p][5-9]|[5-9]).*)"),
    anywhere("MiniMax M2 and later, elsewhere", suffix="(?i:.*minimax-m[2-9].*)", passback="always", continuity="yes",
        source="doc", confidence="medium", notes="reasoning is wanted back whole"),
    tool_turns("gpt-oss, elsewhere", suffix="(?i:.*gpt-oss.*)", thinking=("effort", "always"), efforts=LOW_TO_HIGH,
        effort_default="medium", source="doc;pa", notes="reasoning is wanted back within the turn"),
)
