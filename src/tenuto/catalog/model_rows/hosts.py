"""Hosts of other vendors' models, and `[*]`: what holds for a model wherever it is served."""

from __future__ import annotations

__all__ = ["ROWS"]

ROWS = r"""
[groq] dialect=openai-chat window=131_072 thinking=effort|always default=always efforts=low|medium*|high prefill=no_effect system=native images=no audio=no documents=no passback=tool_turns continuity=yes others=yes
openai/gpt-oss-120b | gpt-oss 120B at Groq | output=65_536 | 0.15/0.6/0.075 | ll;gp;pa;v | high | a json_schema does not go with tools
openai/gpt-oss-(?:safeguard-)?20b | gpt-oss 20B at Groq | output=65_536 | 0.075/0.3/0.0375 | ll;gp;pa;v | high | -
qwen/qwen3\.[68]-27b | Qwen 3.8 27B at Groq | output=16_384 thinking=effort default=yes efforts=none|default*|low|medium|high images=yes | 0.8/4 | ll;gp;pa;v | medium | low to high are typed for 3.8 only
(?:groq/)?compound(?:-beta)?(?:-mini)? | Groq Compound | output=8192 thinking=none default=no efforts=- forced=rejected format=prompt tools=no parallel=no passback=never continuity=no-reasoning | - | ll;gp;pa;v | low | runs its own tools only
(?:meta-llama/)?llama-.* | Llama at Groq | window=- images=yes thinking=none default=no efforts=- format=prompt passback=never continuity=no-reasoning | - | ll;gp;pa;v | low | no longer in every list; the guard models take no tools

[cerebras] dialect=openai-chat window=131_072 output=32_768 prefill=no_effect images=no audio=no documents=no passback=tool_turns continuity=yes others=yes
gpt-oss-120b | gpt-oss 120B at Cerebras | thinking=effort|always default=always efforts=low|medium*|high forced=rejected | 0.35/0.75 | ll;gp;pa | high | disable_reasoning is a 400
qwen-3\.8-27b | Qwen 3.8 27B at Cerebras | window=65_536 thinking=toggle default=yes efforts=- images=yes | 0.99/1.49 | ll;gp;pa | medium | -

[sambanova] dialect=openai-chat output=131_072 thinking=always default=always prefill=no_effect images=no audio=no documents=no continuity=yes others=yes
MiniMax-M2\.7 | MiniMax M2.7 at SambaNova | window=196_608 efforts=- format=prompt passback=always | 0.6/2.4 | ll | medium | -
gpt-oss-120b | gpt-oss 120B at SambaNova | window=131_072 thinking=effort|always efforts=low|medium*|high passback=tool_turns | 0.22/0.59 | ll | medium | -

[together] dialect=openai-chat window=1_048_576 thinking=effort|always default=always efforts=low|high|max* prefill=no_effect images=no audio=no documents=no passback=tool_turns continuity=yes others=yes
deepseek-ai/DeepSeek-V4\.1-Flash(?:-\d{4})? | DeepSeek V4.1 Flash at Together | thinking=toggle|effort default=yes efforts=low|high*|max sampling=ignored forced=rejected images=yes | 0.3/1.2/0.006 | ll;gp | medium | -
deepseek-ai/DeepSeek-V4-Pro(?:-\d{4})? | DeepSeek V4 Pro at Together | thinking=toggle|effort default=yes efforts=low|high*|max sampling=ignored forced=rejected | 1.32/3.96/0.13 | ll;gp | medium | -
moonshotai/Kimi-K3.* | Kimi K3 at Together | images=yes | 3/15/0.3 | ll;gp | medium | -
zai-org/GLM-5\.3 | GLM-5.3 at Together | window=1_048_575 output=128_000 efforts=low|medium|high|max* | 1.4/4.4/0.26 | ll;gp | medium | reasoning comes in reasoning_content
zai-org/GLM-5\.3-Flash | GLM-5.3 Flash at Together | window=1_048_575 output=128_000 efforts=low|medium|high|max* images=yes | 0.15/0.5/0.03 | ll;gp | medium | -
MiniMaxAI/MiniMax-M3\.1-Flash | MiniMax M3.1 Flash at Together | thinking=always efforts=- | 0.15/0.6/0.015 | ll;gp | medium | -
openai/gpt-oss-120b | gpt-oss 120B at Together | window=131_072 efforts=low|medium*|high | 0.15/0.6 | ll;gp | medium | -
openai/gpt-oss-20b | gpt-oss 20B at Together | window=131_072 efforts=low|medium*|high retires=2026-09-15 | 0.15/0.6 | ll;gp | medium | -
Qwen/Qwen3\.8-2\.4T-A95B.* | Qwen 3.8 2.4T at Together | window=1_000_000 thinking=toggle default=yes efforts=- | 2/6 | ll;gp | low | -
Qwen/Qwen3\.8-.* | Qwen 3.8 at Together | window=1_000_000 thinking=toggle default=yes efforts=- | 0.15/0.47 | ll;gp | low | -
meta-llama/.* | Llama at Together | images=yes window=131_072 thinking=none default=no efforts=- passback=- continuity=no-reasoning | 0.88/0.88 | ll;gp | medium | 3.3-70B-Turbo ended on 2026-10-22

[fireworks] dialect=openai-chat window=1_048_576 thinking=effort|always default=always efforts=low|high|max* prefill=no_effect images=no audio=no documents=no passback=tool_turns continuity=yes others=yes
accounts/fireworks/(?:models|routers)/deepseek-v4p1-flash.* | DeepSeek V4.1 Flash at Fireworks | output=393_216 thinking=toggle|effort default=yes efforts=low|high*|max forced=not_with_thinking images=yes | 0.3/1.2/0.006 | ll;gp | medium | -
accounts/fireworks/(?:models|routers)/kimi-k3.* | Kimi K3 at Fireworks | window=1_040_000 images=yes | 3/15/0.3 | ll;gp | medium | -
accounts/fireworks/(?:models|routers)/glm-5p3(?:-fast|-us)? | GLM-5.3 at Fireworks | output=131_072 | 1.4/4.4/0.26 | ll;gp | medium | -
accounts/fireworks/(?:models|routers)/glm-5p3-flash.* | GLM-5.3 Flash at Fireworks | output=131_072 images=yes | 0.15/0.5/0.03 | ll;gp | medium | -
accounts/fireworks/(?:models|routers)/minimax-m3.* | MiniMax M3 at Fireworks | window=524_288 thinking=toggle default=yes efforts=- | 0.3/1.2/0.06 | ll;gp | medium | -
accounts/fireworks/(?:models|routers)/gpt-oss-120b.* | gpt-oss 120B at Fireworks | window=131_072 output=32_768 efforts=low|medium*|high retires=2026-11-07 | 0.15/0.6/0.015 | ll;gp | medium | -
accounts/fireworks/(?:models|routers)/gpt-oss-.* | gpt-oss at Fireworks | window=131_072 output=32_768 efforts=low|medium*|high | 0.15/0.6/0.015 | ll;gp | medium | -

[openrouter] dialect=openai-chat thinking=effort efforts=none|minimal|low|medium|high|xhigh|max system=native chat_tools=ok passback=always interleaved=no others=yes
~?anthropic/(claude-(?:fable-5\.[12]|mythos-5\.[12]|opus-5\.5|sonnet-5\.5)[^:]*)(?::.*)? | Claude without forced choice, at OpenRouter | of=anthropic forced=rejected | - | pa | medium | prices from /api/v1/models
~?anthropic/([^:]+)(?::.*)? | Claude at OpenRouter | of=anthropic forced=not_with_thinking | - | pa | medium | forced choice turns thinking off
~?openai/((?:gpt-(?:[5-9]|\d\d)|o\d)[^:]*)(?::.*)? | a reasoning model of OpenAI's at OpenRouter | of=openai | - | pa | medium | -pro ids stand for reasoning.mode pro
~?openai/(gpt-oss[^:]*)(?::.*)? | gpt-oss at OpenRouter | of=openai efforts=low|medium|high | - | pa | medium | -
~?openai/([^:]+)(?::.*)? | another model of OpenAI's at OpenRouter | of=openai thinking=none efforts=- passback=- | - | pa | medium | -
~?google/(gemini-[^:]+)(?::.*)? | Gemini at OpenRouter | of=google | - | pa | medium | -
~?deepseek/([^:]+)(?::.*)? | DeepSeek at OpenRouter | of=deepseek forced=not_with_thinking prefill=no_effect | - | pa | medium | -
~?moonshotai/([^:]+)(?::.*)? | Kimi at OpenRouter | of=moonshot forced=not_with_thinking prefill=no_effect | - | pa | medium | -
~?x-ai/([^:]+)(?::.*)? | Grok at OpenRouter | of=xai prefill=no_effect | - | pa | medium | -
~?z-ai/([^:]+)(?::.*)? | GLM at OpenRouter | of=zai forced=ok prefill=no_effect | - | pa | medium | -
~?minimax/([^:]+)(?::.*)? | MiniMax at OpenRouter | of=minimax forced=ok prefill=no_effect | - | pa | medium | -

[azure] of=openai others=yes
(gpt-6-astra<date>) | GPT-6 Astra on Azure | efforts=low|medium*|high|xhigh | - | pa;ll | medium | effort max is off here
(.+) | a deployment named like its model | - | - | pa;ll | medium | a deployment's name says nothing; one that reads like a model of OpenAI's is taken for it

[vertex] others=yes
(?:publishers/google/models/)?(gemini-2\.5-.*) | Gemini 2.5 on Vertex | of=google refuses=- | - | pa;gp;ll | medium | -
(?:publishers/google/models/)?((?:gemini|gemma)-.*) | Gemini on Vertex | of=google | - | pa;gp;ll | medium | streams arguments; no includeServerSideToolInvocations
(?:publishers/anthropic/models/)?(claude-.*) | Claude on Vertex | of=anthropic | - | pa;gp;ll | medium | :rawPredict, anthropic_version in the body; no files, no container ids
.*-maas | open models on Vertex | dialect=openai-chat thinking=none default=no efforts=- prefill=no_effect system=native images=no audio=no documents=no continuity=no-reasoning | - | pa;gp;ll | medium | below endpoints/openapi

[nvidia] dialect=openai-chat others=yes
nvidia/.*nemotron.* | Nemotron at NVIDIA | window=262_144 thinking=toggle default=yes efforts=- prefill=no_effect images=no audio=no documents=no passback=tool_turns continuity=yes | - | ll | low | -

[ollama] price=0/0 dialect=openai-chat forced=ignored prefill=no_effect images=no audio=no documents=no passback=tool_turns continuity=yes others=yes
gpt-oss.* | gpt-oss at Ollama | window=131_072 thinking=effort|always default=always efforts=low|medium*|high | - | pa | medium | -
(?:qwen3|deepseek-(?:r1|v)|gemma4|glm|kimi|minimax|nemotron).* | reasoning models at Ollama | thinking=toggle|effort default=yes efforts=none|low|medium|high images=yes | - | pa | low | -

[huggingface] others=yes
[lmstudio] price=0/0 others=yes
[vllm] price=0/0 others=yes
[llamacpp] price=0/0 others=yes
[github] others=yes

[*]
(?:[^/]+/)*(claude-[^/:]+)(?::.*)? | Claude, elsewhere | of=anthropic dialect=- system=- | - | inf | low | its vendor's refusals hold behind a gateway too
(?:[^/]+/)*((?:gpt-\d|o\d|chatgpt-)[^/:]*)(?::.*)? | a model of OpenAI's, elsewhere | of=openai dialect=- | - | inf | low | its vendor's refusals hold behind a gateway too
(?:[^/]+/)*(gemini-[^/:]+)(?::.*)? | Gemini, elsewhere | of=google dialect=- system=- | - | inf | low | its vendor's refusals hold behind a gateway too
(?:[^/]+/)*(grok-[^/:]+)(?::.*)? | Grok, elsewhere | of=xai dialect=- | - | inf | low | its vendor's refusals hold behind a gateway too
(?i:.*deepseek-r1.*) | DeepSeek R1, elsewhere | passback=never continuity=reasoning-rejected | - | doc;inf | low | -
(?i:.*deepseek-v(?:3[.p][1-9]|[4-9]).*) | DeepSeek V3.1 and later, elsewhere | passback=tool_turns continuity=yes | - | doc | medium | reasoning is wanted back with tool calls
(?i:.*kimi-k(?:2[.p][5-9]|2-thinking|[3-9]).*) | Kimi K2.5 and later, elsewhere | passback=tool_turns continuity=yes | - | doc | medium | reasoning is wanted back with tool calls
(?i:.*glm-(?:4[.p][5-9]|[5-9]).*) | GLM-4.5 and later, elsewhere | passback=tool_turns continuity=yes | - | doc | medium | reasoning is wanted back with tool calls
(?i:.*minimax-m[2-9].*) | MiniMax M2 and later, elsewhere | passback=always continuity=yes | - | doc | medium | reasoning is wanted back whole
(?i:.*gpt-oss.*) | gpt-oss, elsewhere | thinking=effort|always default=always efforts=low|medium*|high passback=tool_turns continuity=yes | - | doc;pa | medium | reasoning is wanted back within the turn
"""
