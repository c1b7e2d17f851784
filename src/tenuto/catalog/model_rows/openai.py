"""GPT and the o-series."""

from __future__ import annotations

__all__ = ["ROWS"]

ROWS = r"""
[openai] dialect=openai-responses window=1_050_000 output=128_000 thinking=effort default=yes efforts=none|low|medium*|high|xhigh|max sampling=only_without_reasoning prefill=no_effect system=native audio=no chat_tools=effort_none passback=always continuity=yes
gpt-6-astra<date> | GPT-6 Astra | thinking=effort|always default=always efforts=low|medium*|high|xhigh|max sampling=rejected refuses=stop chat_tools=rejected | 10/50/1/12.5* | pa;ll;v;gp;sdk | high | double for input and half more for output from 272K tokens of prompt on; 922K tokens of input at most; modes standard and pro
gpt-6\.1-sol<date> | GPT-6.1 Sol | thinking=effort|always default=always efforts=low|medium*|high|xhigh|max sampling=rejected refuses=stop chat_tools=rejected | 2/10/0.1/2.5* | pa;ll;v;gp;sdk | high | -
gpt-6\.1-terra<date> | GPT-6.1 Terra | - | 1/5/0.05/1.25* | pa;v;gp;sdk | high | -
gpt-6-sol<date> | GPT-6 Sol | - | 2/10/0.2/2.5* | pa;ll;v;gp;sdk | high | the refusal of tools on Chat Completions was seen live
gpt-6-luna<date> | GPT-6 Luna | - | 0.1/0.5/0.01/0.125* | pa;ll;v;gp;sdk | high | -
(?:gpt-5\.6(?:-sol)?|(?:gpt-)?daybreak-blue-latest)<date> | GPT-5.6 Sol, Daybreak Blue | - | 4/20/0.4/5* | pa;ll;v;gp;sdk | high | effort max on Responses only
gpt-5\.6-terra<date> | GPT-5.6 Terra | - | 2/12/0.2/2.5* | pa;ll;v;gp;sdk | high | -
gpt-5\.6-luna<date> | GPT-5.6 Luna | - | 0.2/1.2/0.02/0.25* | pa;ll;v;gp;sdk | high | -
(?:gpt-5\.6-cyber|(?:gpt-)?daybreak-red-latest)<date> | GPT-5.6 Cyber, Daybreak Red | window=400_000 | 12.5/75/1.25/15.625 | ll;gp;sdk | medium | -
gpt-5\.5<date> | GPT-5.5 | efforts=none|low|medium*|high|xhigh | 5/30/0.5* | pa;ll;v;gp;sdk | high | one source has a window of 1.0M
gpt-5\.4<date> | GPT-5.4 | efforts=none*|low|medium|high|xhigh default=no | 2.5/15/0.25* | pa;ll;v;gp;sdk | high | -
gpt-5\.4-mini<date> | GPT-5.4 mini | window=400_000 efforts=none*|low|medium|high|xhigh default=no | 0.75/4.5/0.075 | pa;ll;v;gp;sdk | high | -
gpt-5\.4-nano<date> | GPT-5.4 nano | window=400_000 efforts=none*|low|medium|high|xhigh default=no retires=2027-04-01 | 0.2/1.25/0.02 | pa;ll;v;gp;sdk | high | no tool_search
gpt-5\.3-codex<date> | GPT-5.3 Codex | window=400_000 efforts=none*|low|medium|high|xhigh default=no chat_tools=rejected retires=2027-04-01 | 1.75/14/0.175 | pa;ll;v;gp;sdk | high | Responses only; phase from here on
gpt-5\.2<date> | GPT-5.2 | window=400_000 efforts=none*|low|medium|high|xhigh default=no chat_tools=ok | 1.75/14/0.175 | pa;ll;v;gp;sdk | high | -
gpt-5\.1<date> | GPT-5.1 | window=400_000 efforts=none*|low|medium|high default=no chat_tools=ok continuity=no-encrypted-reasoning retires=2027-04-01 | 1.25/10/0.125 | pa;ll;v;gp;sdk | high | -

[openai] dialect=openai-responses window=400_000 output=128_000 thinking=effort|always default=always efforts=medium|high|xhigh sampling=rejected refuses=stop prefill=no_effect system=native audio=no chat_tools=rejected passback=always continuity=yes
gpt-5\.[45]-pro<date> | GPT-5.4 Pro, GPT-5.5 Pro | window=1_050_000 format=tool | 30/180* | pa;ll;v;gp;sdk | high | Responses only
gpt-5\.2-pro<date> | GPT-5.2 Pro | - | 21/168 | pa;ll;v;gp;sdk | high | Responses only
gpt-5-pro<date> | GPT-5 Pro | output=272_000 efforts=high* continuity=yes retires=2026-12-11 | 15/120 | pa;ll;v;gp;sdk | high | Responses only; output 128K in one source
(?:gpt-)?chat-latest | the floating chat alias | thinking=always efforts=medium* chat_tools=ok | 5/30/0.5 | ll;gp | low | the effort is taken to be fixed
gpt-5\.2-codex<date> | GPT-5.2 Codex | efforts=low|medium*|high|xhigh retires=2026-07-23 | - | doc;ll;v;gp | high | Responses only; text.verbosity is fixed at medium, the effort is not
gpt-5\.1-codex-max<date> | GPT-5.1 Codex Max | efforts=low|medium*|high|xhigh chat_tools=ok continuity=no-encrypted-reasoning retires=2026-07-23 | - | doc;pa;ll;v;gp;sdk | high | text.verbosity is fixed at medium, the effort is not
gpt-5\.1-codex(?:-mini)?<date> | GPT-5.1 Codex | efforts=low|medium*|high chat_tools=ok continuity=no-encrypted-reasoning retires=2026-07-23 | - | doc;pa;ll;v;gp;sdk | high | efforts as the API's own 400 lists them
gpt-5-codex<date> | GPT-5 Codex | efforts=low|medium*|high chat_tools=ok continuity=yes retires=2026-07-23 | - | doc;pa;ll;v;gp;sdk | high | efforts as the API's own 400 lists them
gpt-5\.[23]-chat(?:-latest)? | GPT-5.2 and 5.3 chat | window=128_000 output=16_384 thinking=always efforts=medium* chat_tools=ok retires=2026-08-10 | - | doc;pa;ll;v;gp;sdk | high | -
gpt-5\.1-chat(?:-latest)? | GPT-5.1 chat | window=128_000 output=16_384 thinking=always efforts=medium* chat_tools=ok continuity=no-encrypted-reasoning retires=2026-07-23 | - | doc;pa;ll;v;gp;sdk | high | -
gpt-5-chat(?:-latest)?<date> | GPT-5 chat | window=128_000 output=16_384 thinking=none default=no efforts=- sampling=ok refuses=- chat_tools=ok passback=- continuity=no-reasoning retires=2026-07-23 | - | doc;pa;ll;v;gp;sdk | high | does not reason
gpt-5<date> | GPT-5 | efforts=minimal|low|medium*|high chat_tools=ok continuity=yes retires=2026-12-11 | 1.25/10/0.125 | pa;ll;v;gp;sdk | high | -
gpt-5-mini<date> | GPT-5 mini | efforts=minimal|low|medium*|high chat_tools=ok continuity=yes retires=2026-12-11 | 0.25/2/0.025 | pa;ll;v;gp;sdk | high | -
gpt-5-nano<date> | GPT-5 nano | efforts=minimal|low|medium*|high chat_tools=ok continuity=yes retires=2026-12-11 | 0.05/0.4/0.005 | pa;ll;v;gp;sdk | high | -
gpt-5-search-api<date> | GPT-5 search | dialect=openai-chat thinking=none default=no efforts=- chat_tools=ok passback=- continuity=chat-only | 1.25/10/0.125 | ll;gp | low | Chat Completions only
gpt-6-rosalind<date>|gpt-rosalind-(?:research|discovery) | Rosalind | window=- output=- efforts=low|medium*|high|xhigh|max | 5/25/0.5 | sdk;ll | low | restricted; taken to be like Astra
gpt-5\.5-cyber(?:-preview)?<date> | GPT-5.5 Cyber | window=- output=- efforts=low|medium*|high|xhigh|max | 12.5/75/1.25 | sdk;ll | low | restricted; taken to be like Astra
gpt-6-cyber<date> | GPT-6 Cyber | window=- output=- efforts=low|medium*|high|xhigh|max | - | sdk;ll | low | restricted; taken to be like Astra

[openai] dialect=openai-responses window=200_000 output=100_000 thinking=effort|always default=always efforts=low|medium*|high sampling=rejected refuses=stop prefill=no_effect system=native parallel=no audio=no passback=always continuity=no-encrypted-reasoning
o3-pro<date> | o3-pro | chat_tools=rejected retires=2026-12-11 | 20/80 | pa;ll;v;gp;sdk | high | Responses only
o3<date> | o3 | retires=2026-12-11 | 2/8/0.5 | pa;ll;v;gp;sdk | high | -
o4-mini<date> | o4-mini | retires=2026-10-23 continuity=yes | 1.1/4.4/0.275 | pa;ll;v;gp;sdk | high | some remain on Azure
o3-mini<date> | o3-mini | retires=2026-10-23 | 1.1/4.4/0.55 | pa;ll;v;gp;sdk | high | some remain on Azure
o1<date> | o1 | retires=2026-10-23 | 15/60/7.5 | pa;ll;v;gp;sdk | high | some remain on Azure
o1-pro<date> | o1-pro | chat_tools=rejected retires=2026-10-23 | 150/600 | pa;ll;v;gp;sdk | high | Responses only
codex-mini-latest | Codex mini | chat_tools=rejected retires=2026-10-23 continuity=yes | 1.5/6/0.375 | doc;gp;sdk | medium | Responses only; made from o4-mini, whose efforts it is taken to have; retired on that day or before
(?:o1-mini|o1-preview|o3-deep-research)<date> | more of o1 and o3 | retires=2026-10-23 | - | pa;ll;v;gp;sdk | high | retired on that day or before
o4-mini-deep-research<date> | o4-mini deep research | retires=2026-10-23 continuity=yes | - | pa;ll;v;gp;sdk | high | retired on that day or before
o[13]-.* | another o1 or o3 | - | - | inf | low | -
o[24]-.* | another o2 or o4 | continuity=yes | - | inf | low | -

[openai] dialect=openai-chat window=128_000 output=16_384 thinking=none default=no efforts=- prefill=no_effect system=native audio=no continuity=no-encrypted-reasoning
gpt-4\.1<date> | GPT-4.1 | window=1_047_576 output=32_768 retires=2027-01-14 | 2/8/0.5 | pa;ll;v;gp;sdk | high | Responses takes it too
gpt-4\.1-mini<date> | GPT-4.1 mini | window=1_047_576 output=32_768 retires=2027-01-14 | 0.4/1.6/0.1 | pa;ll;v;gp;sdk | high | Responses takes it too
gpt-4o(?:-2024-(?:08-06|11-20))? | GPT-4o | retires=2027-01-14 | 2.5/10/1.25 | pa;ll;v;gp;sdk | high | Responses takes it too
gpt-4o-mini<date> | GPT-4o mini | retires=2027-01-14 | 0.15/0.6/0.075 | pa;ll;v;gp;sdk | high | Responses takes it too
gpt-audio-1\.5<date> | GPT audio 1.5 | format=tool images=no audio=yes documents=no modalities=text|audio continuity=no-reasoning | 2.5/10 | pa;ll;v;gp;sdk | high | Responses takes no audio
gpt-audio<date> | GPT audio | format=tool images=no audio=yes documents=no modalities=text|audio retires=2027-01-20 continuity=no-reasoning | 2.5/10 | pa;ll;v;gp;sdk | high | Responses takes no audio
gpt-audio-mini<date> | GPT audio mini | format=tool images=no audio=yes documents=no modalities=text|audio retires=2027-01-20 continuity=no-reasoning | 0.6/2.4 | pa;ll;v;gp;sdk | high | Responses takes no audio
(?:openai/)?gpt-oss-(?:120b|20b).* | gpt-oss | window=131_072 output=32_768 thinking=effort|always default=always efforts=low|medium*|high forced=rejected images=no documents=no passback=tool_turns continuity=yes max_tokens=max_tokens served=no | - | pa | medium | open weights; forced choice is unreliable, and the reasoning field's name depends on the server
gpt-4\.1-nano<date> | GPT-4.1 nano | window=1_047_576 output=32_768 format=tool retires=2026-10-23 | 0.1/0.4/0.025 | pa;ll;v;gp;sdk | high | -
gpt-4o-2024-05-13 | GPT-4o of May 2024 | output=4096 format=tool retires=2026-10-23 | 5/15 | pa;ll;v;gp;sdk | high | -
gpt-4o(?:-mini)?-audio-preview<date> | GPT-4o audio previews | format=tool images=no audio=yes documents=no modalities=text|audio retires=2026-05-07 | - | pa;ll;v;gp;sdk | medium | one source has 2027-01-20
gpt-4o(?:-mini)?-search-preview<date> | GPT-4o search previews | format=tool retires=2026-10-23 | - | pa;ll;v;gp;sdk | high | retired on that day or before
chatgpt-4o-latest | ChatGPT-4o | output=- format=tool retires=2026-10-23 | - | pa;ll;v;gp;sdk | high | retired on that day or before; sources disagree on the output
gpt-4-(?:turbo|1106|0125|vision).* | GPT-4 Turbo | output=4096 format=tool retires=2026-10-23 continuity=no-reasoning | - | pa;ll;v;gp;sdk | high | retired on that day or before
gpt-4(?:-0314|-0613)? | GPT-4 | window=8192 output=- format=tool retires=2026-10-23 continuity=no-reasoning | - | pa;ll;v;gp;sdk | high | retired on that day or before
gpt-4(?!o|\.1).* | other GPT-4 | window=- output=- format=tool retires=2026-10-23 continuity=no-reasoning | - | pa;ll;v;gp;sdk | high | retired on that day or before
gpt-3\.5-.* | GPT-3.5 | window=16_385 output=4096 format=tool retires=2026-10-23 continuity=no-reasoning | - | pa;ll;v;gp;sdk | high | retired on that day or before

[openai] dialect=openai-responses window=8192 output=1024 thinking=always default=always prefill=no_effect system=native format=tool audio=no passback=always continuity=yes
computer-use-preview<date> | Computer use | chat_tools=rejected retires=2026-10-23 | - | pa;ll;v;gp;sdk | high | Responses only; nothing is published on its efforts; retired on that day or before

[openai] dialect=openai-chat system=native
gpt-4o-.*|gpt-4\.1-.* | another GPT-4o or GPT-4.1 | continuity=no-encrypted-reasoning | - | inf | low | nothing else is known of it

[openai] of=openai
ft:(gpt-4o-mini[^:]*):.* | a fine-tuned GPT-4o mini | - | 0.3/1.2 | gp | medium | shut down with its base model
ft:(gpt-4o[^:]*):.* | a fine-tuned GPT-4o | - | 3.75/15 | gp | medium | shut down with its base model
ft:(gpt-3\.5-turbo[^:]*):.* | a fine-tuned GPT-3.5 | - | 3/6 | gp | medium | shut down with its base model
ft:([^:]+)(?::.*)? | a fine-tuned model | - | - | ll | low | taken to be like its base model

[openai] dialect=openai-responses window=1_050_000 output=128_000 thinking=effort|always default=always efforts=low|medium*|high|xhigh|max sampling=rejected refuses=stop prefill=no_effect system=native audio=no chat_tools=rejected passback=always continuity=yes
gpt-5\.1(?:-.*)? | another GPT-5.1 | efforts=low|medium*|high chat_tools=ok continuity=no-encrypted-reasoning | - | inf | low | -
gpt-5\.0(?:-.*)? | another GPT-5.0 | efforts=low|medium*|high chat_tools=ok continuity=yes | - | inf | low | -
gpt-5-.* | another GPT-5 | efforts=low|medium*|high chat_tools=ok continuity=yes | - | inf | low | -
(?:gpt-(?:[5-9]|1\d)|o[5-9])(?:[.-].*)? | a later model of OpenAI's | - | - | v;inf | low | a rule for families to come: no sampling, no effort none or minimal
"""
