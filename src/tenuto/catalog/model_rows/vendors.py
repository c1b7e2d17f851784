"""Vendors of their own models whose dialect is another's."""

from __future__ import annotations

__all__ = ["ROWS"]

ROWS = r"""
[xai] dialect=openai-responses window=500_000 thinking=effort|always default=always efforts=low|medium|high* refuses=frequency_penalty,presence_penalty,stop prefill=no_effect audio=no documents=no passback=always continuity=yes
grok-4\.[67] | Grok 4.6, 4.7 | efforts=low|medium|high*|xhigh | 2/6/0.5* | pa;ll;v;gp;doc | medium | double from 200K tokens of prompt on; xhigh is documented, one source ends at high
grok-4\.5(?:-latest)?|grok-build-latest | Grok 4.5 | - | 2/6/0.3* | pa;ll;v;gp;doc | high | -
grok-4\.3(?:-latest)?|grok-latest|grok-4-0709|grok-4(?:-latest)?|grok-4(?:-1)?-fast.*|grok-3(?:-latest|-fast.*)? | Grok 4.3 and ids that lead to it | window=1_000_000 thinking=effort default=yes efforts=none|low|medium*|high | 1.25/2.5/0.2* | pa;ll;v;gp;doc | medium | grok-latest is 4.6 unless the effort is none
grok-4\.20-multi-agent.* | Grok 4.20 multi-agent | window=1_000_000 efforts=- forced=rejected tools=no parallel=no | 1.25/2.5/0.2* | pa;ll;v;gp;doc | medium | Responses only; no function tools of the caller's
grok-4\.20.*-non-reasoning.* | Grok 4.20 without reasoning | window=1_000_000 thinking=none default=no efforts=- refuses=frequency_penalty,presence_penalty passback=- continuity=no-reasoning | 1.25/2.5/0.2* | pa;ll;v;gp;doc | high | -
grok-4\.20.* | Grok 4.20 | window=1_000_000 thinking=always efforts=- | 1.25/2.5/0.2* | pa;ll;v;gp;doc | high | -
grok-build-0\.1|grok-code-fast.* | Grok Build and Code | window=256_000 thinking=always efforts=- | 1/2/0.2* | pa;ll;v;gp;doc | medium | code-fast leads to build-0.1
grok-3-mini.* | Grok 3 mini | window=131_072 thinking=effort default=yes efforts=none|low*|high images=no | 0.3/0.5/0.075 | pa;ll;v;gp;doc | medium | -
grok-(?:4\.(?:[89]|[1-9]\d)|[5-9]|\d\d)(?:[.-].*)? | a later Grok | - | - | inf | low | a rule for families to come

[deepseek] dialect=openai-chat window=1_000_000 output=393_216 thinking=toggle|effort default=yes efforts=low|high*|max sampling=only_without_reasoning forced=not_with_thinking prefill=flag:prefix format=prompt audio=no documents=no images=no passback=tool_turns continuity=yes
deepseek-flash|deepseek-v4(?:\.1)?-flash(?:-\d{4})? | DeepSeek V4.1 Flash | images=yes | 0.15/0.6/0.003 | pa;ll;v;gp | high | off-peak price, doubled 01-04 and 06-10 UTC from Monday to Friday; prefix wants the /beta address
deepseek-v4-flash-vision-exp | DeepSeek V4 Flash vision | images=yes | 0.15/0.6/0.003 | pa;ll;v;gp | medium | off-peak price, as V4.1 Flash
deepseek-(?:v4-)?pro(?:-\d{4})? | DeepSeek V4 Pro | - | 0.66/1.98/0.022 | pa;ll;v;gp | high | off-peak price, as V4.1 Flash
deepseek-chat | DeepSeek V3 chat | window=131_072 output=8192 thinking=none default=no efforts=- sampling=ok forced=ok passback=- continuity=no-reasoning retires=2026-07-24 | 0.28/0.42/0.028 | ll | high | -
deepseek-(?:reasoner|r1.*) | DeepSeek R1 and reasoner | window=131_072 output=65_536 thinking=always default=always efforts=- sampling=ignored forced=rejected passback=never continuity=reasoning-rejected retires=2026-07-24 | 0.28/0.42/0.028 | ll;pa | high | -
deepseek-(?:v(?:[4-9]|\d\d)|flash|pro)(?:[.-].*)? | a later DeepSeek | - | - | pa;ll;v;gp | low | a rule for families to come

[moonshot] dialect=openai-chat window=1_048_576 output=1_048_576 thinking=effort|always default=always efforts=low|high|max* sampling=rejected prefill=flag:partial audio=no documents=no passback=tool_turns continuity=yes
kimi-k3\.1-pro | Kimi K3.1 Pro | - | 2/10/0.2/2 | v;pa;gp;doc | medium | pictures as base64 or ms:// only
kimi-k3\.1-pro-highspeed | Kimi K3.1 Pro highspeed | - | 4/20/0.2/4 | v;pa;gp;doc | medium | pictures as base64 or ms:// only
kimi-k3(?:-.*)? | Kimi K3 | - | 3/15/0.3/3 | v;pa;gp;doc | medium | sources disagree on forced choice; writes 131,072 tokens unless told
kimi-k2\.7-code | Kimi K2.7 Code | window=262_144 output=262_144 thinking=always efforts=- forced=rejected retires=2026-12-31 | 0.95/4/0.19 | v;pa;gp;doc | high | -
kimi-k2\.7-code-highspeed | Kimi K2.7 Code highspeed | window=262_144 output=262_144 thinking=always efforts=- forced=rejected retires=2026-12-31 | 1.9/8/0.38 | v;pa;gp;doc | high | -
kimi-k2\.6.* | Kimi K2.6 | window=262_144 output=262_144 thinking=toggle default=yes efforts=- forced=rejected retires=2026-12-31 | 0.95/4/0.16 | v;pa;gp;doc | high | thinking.keep "all" makes earlier turns count
kimi-k2-thinking.*|kimi-thinking.* | Kimi K2 Thinking | window=262_144 output=32_768 thinking=always efforts=- forced=rejected images=no retires=2026-12-31 | 0.6/3/0.1 | v;pa;gp;doc | low | -
kimi-(?:k2\.5.*|k2(?:-.*)?|latest) | Kimi K2.5 and older | window=262_144 output=32_768 thinking=toggle default=yes efforts=- forced=rejected retires=2026-12-31 | 0.6/3/0.1 | v;pa;gp;doc | low | k2-instruct never thinks and sees no pictures
moonshot-v1-8k | Moonshot v1 8K | window=8192 output=8192 thinking=none default=no efforts=- sampling=ok forced=rejected images=no passback=- continuity=no-reasoning | 0.2/2 | v;pa;gp;doc | high | deprecated
moonshot-v1-32k | Moonshot v1 32K | window=32_768 output=32_768 thinking=none default=no efforts=- sampling=ok forced=rejected images=no passback=- continuity=no-reasoning | 1/3 | v;pa;gp;doc | high | deprecated
moonshot-v1-128k | Moonshot v1 128K | window=131_072 output=131_072 thinking=none default=no efforts=- sampling=ok forced=rejected images=no passback=- continuity=no-reasoning | 2/5 | v;pa;gp;doc | high | deprecated
moonshot-v1-.* | Moonshot v1 | window=131_072 output=131_072 thinking=none default=no efforts=- sampling=ok forced=rejected passback=- continuity=no-reasoning | - | v;pa;gp;doc | medium | deprecated; only the vision previews see pictures
kimi-k(?:3\.\d+|[4-9]|\d\d)(?:[.-].*)? | a later Kimi | output=131_072 forced=rejected | - | inf | low | a rule for families to come

[zai] dialect=openai-chat window=200_000 output=131_072 thinking=effort|always default=always efforts=low|high|max* forced=rejected prefill=no_effect format=prompt images=no audio=no documents=no passback=tool_turns continuity=yes
(?i:glm-5\.3-flash) | GLM-5.3 Flash | window=1_048_576 images=yes | 0.15/0.5/0.03 | pa;ll;gp;doc | high | tool schemas want their $ref written out
(?i:glm-5\.3-flashx) | GLM-5.3 FlashX | window=1_000_000 images=yes | 0.37/1.25/0.075 | pa;ll;gp;doc | medium | tool schemas want their $ref written out
(?i:glm-5\.3) | GLM-5.3 | window=1_048_576 | 1.4/4.4/0.26 | pa;ll;gp;doc | high | tool schemas want their $ref written out
(?i:glm-5\.2) | GLM-5.2 | window=1_000_000 thinking=toggle|effort default=yes efforts=minimal|low|medium|high|xhigh|max | 1.4/4.4/0.26 | pa;ll;gp;doc | high | -
(?i:glm-5\.1) | GLM-5.1 | thinking=toggle default=yes efforts=- | 1.4/4.4/0.26 | pa;ll;gp;doc | high | -
(?i:glm-5-code) | GLM-5 Code | thinking=toggle default=yes efforts=- | 1.2/5 | pa;ll;gp;doc | medium | -
(?i:glm-5(?:-turbo)?) | GLM-5 | thinking=toggle default=yes efforts=- | 1/3.2/0.2 | pa;ll;gp;doc | high | -
(?i:glm-4\.7-flash) | GLM-4.7 Flash | thinking=toggle default=yes efforts=- | 0/0 | pa;ll;gp;doc | medium | free
(?i:glm-4\.7-flashx) | GLM-4.7 FlashX | thinking=toggle default=yes efforts=- | 0.07/0.4 | pa;ll;gp;doc | medium | -
(?i:glm-4\.[67]) | GLM-4.6, 4.7 | thinking=toggle default=yes efforts=- | 0.6/2.2/0.11 | pa;ll;gp;doc | high | -
(?i:glm-4\.6v) | GLM-4.6V | window=128_000 output=32_768 thinking=toggle default=yes efforts=- images=yes | 0.3/0.9 | pa;ll;gp;doc | medium | -
(?i:glm-4\.[56]v.*) | other GLM that see | window=128_000 output=32_768 thinking=toggle default=yes efforts=- images=yes | - | pa;ll;gp;doc | medium | -
(?i:glm-4\.5) | GLM-4.5 | window=128_000 output=32_768 thinking=toggle default=yes efforts=- | 0.6/2.2 | pa;ll;gp;doc | medium | -
(?i:glm-4\.5-air) | GLM-4.5 Air | window=128_000 output=32_768 thinking=toggle default=yes efforts=- | 0.2/1.1 | pa;ll;gp;doc | medium | -
(?i:glm-4\.5-.*) | other GLM-4.5 | window=128_000 output=32_768 thinking=toggle default=yes efforts=- | - | pa;ll;gp;doc | medium | -
(?i:glm-(?:5\.[2-9]|5\.\d\d|[6-9]|\d\d)(?:[.-].*)?) | a later GLM | - | - | pa;ll;gp;doc | low | a rule for families to come

[minimax] dialect=openai-chat window=1_000_000 output=131_072 thinking=always default=always efforts=- forced=rejected refuses=stop,parallel_tool_calls prefill=no_effect format=prompt images=no audio=no documents=no passback=always continuity=yes
(?i:minimax-m3\.1-flash(?:-preview)?) | MiniMax M3.1 Flash | output=524_288 thinking=effort|always efforts=low|medium|high|xhigh|max* images=yes | 0.15/0.6/0.015 | gp;ll;doc | medium | -
(?i:minimax-m3) | MiniMax M3 | output=128_000 thinking=toggle default=yes images=yes | 0.3/1.2/0.06* | gp;ll;doc | medium | -
(?i:minimax-m2\.7-highspeed) | MiniMax M2.7 highspeed | window=204_800 | 0.6/2.4 | gp;ll;doc | medium | -
(?i:minimax-m2\.7) | MiniMax M2.7 | window=204_800 | 0.3/1.2/0.06/0.375 | gp;ll;doc | medium | -
(?i:minimax-m2(?:\.[15])?(?:-highspeed|-lightning)?) | MiniMax M2 to M2.5 | window=204_800 output=8192 | 0.3/1.2/0.03/0.375 | gp;ll;doc | medium | one source has a window of 1M
(?i:minimax-m(?:[2-9]|\d\d)(?:[.-].*)?) | another MiniMax | - | - | gp;ll;doc | low | a rule for families to come

[mistral] dialect=openai-chat window=262_144 output=262_144 thinking=none default=no efforts=- prefill=flag:prefix system=native audio=no continuity=no-reasoning
mistral-large-4(?:-0)? | Mistral Large 4 | window=1_048_576 output=- thinking=effort|always default=always efforts=low|medium|high passback=always continuity=yes | 0.68/2.09, 2026-10-20 1.36/4.18/0.14 | v;ll;gp;pa | high | the end of the launch price is doubted by its own source
mistral-large-(?:latest|2512|3) | Mistral Large 3 | - | 0.5/1.5/0.05 | v;ll;gp;pa | high | -
mistral-medium(?:-latest|-2604|-3|-3-5|-3\.5)?|mistral-vibe-cli-(?:latest|with-tools)|magistral-medium-latest | Mistral Medium 3.5 | thinking=effort efforts=none*|high passback=always continuity=yes | 1.5/7.5/0.15 | v;ll;gp;pa | high | content is a list of chunks while it thinks
mistral-small-(?:2603|latest|4.*)|mistral-vibe-cli-fast|magistral-small-latest | Mistral Small 4 | thinking=effort efforts=none*|high passback=always continuity=yes | 0.15/0.6/0.015 | v;ll;gp;pa | high | -
zai-glm-(?:5|5-3|latest) | GLM-5.3 at Mistral | window=1_048_576 output=131_072 thinking=effort|always default=always efforts=low|high|max* images=no documents=no passback=always continuity=yes | 1.4/4.4/0.14 | v;ll;gp;pa | high | -
zai-glm-5-3-flash | GLM-5.3 Flash at Mistral | window=1_048_576 output=131_072 thinking=effort|always default=always efforts=low|high|max* documents=no passback=always continuity=yes | 0.15/0.5/0.03 | v;ll;gp;pa | medium | -
ministral-(?:3-)?14b-.* | Ministral 14B | - | 0.2/0.2/0.02 | v;ll;gp;pa | high | -
ministral-(?:3-)?8b-.* | Ministral 8B | - | 0.15/0.15/0.015 | v;ll;gp;pa | high | -
ministral-(?:3-)?3b-.* | Ministral 3B | window=131_072 output=131_072 | 0.1/0.1/0.01 | v;ll;gp;pa | high | -
codestral-(?:2508|latest)|mistral-code(?:-fim)?-latest | Codestral | window=256_000 output=128_000 images=no documents=no | 0.3/0.9/0.03 | v;ll;gp;pa | high | -
voxtral-small-(?:2507|latest) | Voxtral Small | window=32_768 output=32_768 images=no audio=yes documents=no | 0.1/0.4/0.01 | v;ll;gp;pa | high | -
(?:zai-)?glm-5-2 | GLM-5.2 at Mistral | window=- output=- thinking=effort efforts=none|high passback=always continuity=yes | - | v;ll;gp;pa | low | deprecated
devstral-.*|mistral-code-agent-latest|labs-.*|mistral-small|codestral-.*|magistral-.*|pixtral-.*|open-.*|mistral-(?:tiny|nemo|saba|7b).*|mistral-(?:small|medium|large)-2[0-5]\d\d | older Mistral models | window=- output=- | - | v;ll;gp;pa | low | deprecated or retired

[cohere] dialect=openai-chat window=128_000 output=4096 thinking=none default=no efforts=- prefill=no_effect system=native images=no audio=no documents=no continuity=no-reasoning
command-a-plus-05-2026 | Command A+ | output=64_000 thinking=effort default=yes efforts=none|high* images=yes passback=tool_turns continuity=native-only | - | ll;gp;pa;sdk | medium | -
command-a-reasoning-08-2025 | Command A Reasoning | window=256_000 output=32_000 thinking=effort default=yes efforts=none|high* passback=tool_turns continuity=native-only | - | ll;gp;pa;sdk | low | -
command-a-vision-07-2025 | Command A Vision | output=8000 forced=rejected tools=no parallel=no images=yes | - | ll;gp;pa;sdk | low | -
command-a-03-2025 | Command A | window=256_000 output=8000 | 2.5/10 | ll;gp;pa;sdk | medium | -
command-r-plus(?:-\d\d-\d{4})? | Command R+ | - | 2.5/10 | ll;gp;pa;sdk | medium | -
command-r7b(?:-\d\d-\d{4})? | Command R7B | - | 0.0375/0.15 | ll;gp;pa;sdk | medium | -
command-r(?:-\d\d-\d{4})? | Command R | - | 0.15/0.6 | ll;gp;pa;sdk | medium | -

[alibaba] dialect=openai-chat window=991_808 output=65_536 thinking=toggle|budget default=yes efforts=- forced=not_with_thinking prefill=no_effect audio=no documents=no passback=never continuity=reasoning-ignored
qwen3\.8-max.* | Qwen3.8 Max | output=131_072 thinking=effort|toggle efforts=none|minimal|low|medium|high|xhigh*|max | 2/6/0.25 | ll;v;pa;doc | medium | max_tokens does not bound the thinking
qwen3\.8-flash.* | Qwen3.8 Flash | output=131_072 | 0.15/0.47/0.016/0.2 | ll;v;pa;doc | medium | -
qwen3\.8-omni-flash.* | Qwen3.8 Omni Flash | output=131_072 default=no format=prompt audio=yes | 0.15/0.47/0.016 | ll;v;pa;doc | low | sound as a data URI
qwen3\.7-max.* | Qwen3.7 Max | images=no | 2.5/7.5/0.5/3.125 | ll;v;pa;doc | medium | -
qwen3\.7-(?:plus|flash).* | Qwen3.7 Plus and Flash | - | - | ll;v;pa;doc | medium | -
qwen3\.[56]-.* | Qwen3.5, 3.6 | format=prompt | - | ll;v;pa;doc | medium | -
qwen3-.*-thinking(?:-\d{4})?|qwq-.* | Qwen3 Thinking, QwQ | window=- output=- thinking=always default=always forced=rejected format=prompt images=no | - | ll;v;pa;doc | medium | answers as a stream only
qwen3?-?coder.*|qwen-3-coder.* | Qwen Coder | window=997_952 thinking=none default=no forced=ok format=prompt images=no passback=- continuity=no-reasoning | - | ll;v;pa;doc | medium | tool schemas want their $defs written out
qwen3-next-80b-.*-instruct(?:-\d{4})? | Qwen3 Next Instruct | window=262_144 thinking=none default=no forced=ok format=prompt images=no passback=- continuity=no-reasoning | 0.15/1.2 | ll;v;pa;doc | medium | -
qwen3-.*-instruct(?:-\d{4})? | Qwen3 Instruct | window=262_144 thinking=none default=no forced=ok format=prompt passback=- continuity=no-reasoning | - | ll;v;pa;doc | medium | only the vl ids see pictures
qwen-plus | Qwen Plus | window=- output=- default=no format=prompt images=no | 0.4/1.2 | ll;v;pa;doc | medium | -
qwen-turbo | Qwen Turbo | window=- output=- default=no format=prompt images=no | 0.05/0.2 | ll;v;pa;doc | medium | -
qwen-max | Qwen Max | window=- output=- default=no format=prompt images=no | 1.6/6.4 | ll;v;pa;doc | medium | -
qwen-(?:plus|flash|turbo|max).*|qwen3-max.*|qwen3-\d+b-a\d+b|qwen3-vl-plus.* | Qwen Plus, Flash, Turbo, Max | window=- output=- default=no format=prompt | - | ll;v;pa;doc | medium | windows from 30K to 1M by snapshot

[meta] dialect=openai-responses window=1_048_576 output=131_072 thinking=effort|always default=always efforts=minimal|low|medium|high*|xhigh|max forced=rejected refuses=stop prefill=no_effect audio=no passback=always continuity=yes
muse-wonder-1\.0 | Muse Wonder 1.0 | - | 4/20/0.2 | pa;ll;gp;doc | high | tool choice auto only, none is a 400 as well; phase goes back
muse-spark-1\.\d-contributor | Muse Spark contributor | - | 0.1/0.2/0.002 | pa;ll;gp;doc | high | cheaper because the vendor may train on it
muse-spark-1\.\d | Muse Spark | - | 1.25/4.25/0.15 | pa;ll;gp;doc | high | tool choice auto only; sources disagree on effort max
muse-.* | another Muse | - | - | pa;ll;gp;doc | low | a rule for families to come

[perplexity] dialect=openai-chat window=128_000 thinking=none default=no efforts=- forced=rejected prefill=rejected tools=no parallel=no audio=no continuity=no-reasoning
sonar | Sonar | - | 1/1 | ll;gp | medium | tools are typed in the SDK; libraries leave them out
sonar-pro(?:-search)? | Sonar Pro | window=200_000 output=8000 | 3/15 | ll;gp | medium | -
sonar-reasoning(?:-pro)? | Sonar Reasoning Pro | thinking=effort|always default=always efforts=low|medium*|high passback=never continuity=think-tags | 2/8 | ll;gp | medium | -
sonar-deep-research | Sonar Deep Research | thinking=effort|always default=always efforts=low|medium*|high passback=never continuity=stateless-search | 2/8 | ll;gp | medium | -
(?:perplexity|anthropic|openai|google|xai|preset)/.* | models of its Agent API | dialect=openai-responses window=- thinking=none sampling=rejected forced=ok tools=yes parallel=yes | - | ll;gp | low | POST /v1/responses only; costs what the vendor asks
"""
