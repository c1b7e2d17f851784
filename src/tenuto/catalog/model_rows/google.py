"""Gemini and Gemma."""

from __future__ import annotations

__all__ = ["ROWS"]

ROWS = r"""
[google] dialect=gemini window=1_048_576 output=65_536 thinking=level|always default=always efforts=low|medium*|high sampling=ignored refuses=frequency_penalty,presence_penalty prefill=rejected system=top_only passback=always continuity=yes
(?:models/)?gemini-4-argon-cyber-permissive.* | Gemini 4 Argon cyber | efforts=low|medium|high* | 2/10/0.1, 2026-12-01 4/20/0.2 | doc | medium | -
(?:models/)?gemini-4-argon(?:-preview.*|-\d.*)? | Gemini 4 Argon | - | 2/10/0.1, 2026-12-01 4/20/0.2 | pa;ll;v;gp | medium | levels were probed, the rest is inferred; unstreamed 32,768 tokens a request; a continuationToken goes on to 1,048,576
(?:models/)?gemini-4-carbon(?:-preview.*|-\d.*)? | Gemini 4 Carbon | - | 2/10/0.1, 2026-12-01 4/20/0.2 | doc;v;sdk | medium | paid tier only
(?:models/)?gemini-3\.8-flash(?!.*(?:tts|live|lite)).*|(?:models/)?gemini-flash-latest | Gemini 3.8 Flash | thinking=level default=yes | 0.75/3.75/0.075, 2027-01-01 1.5/7.5/0.15 | pa;ll;v;gp | medium | refusals carried over from 3.6
(?:models/)?gemini-3\.7-flash(?!.*(?:tts|live|lite)).* | Gemini 3.7 Flash | thinking=level default=yes | 0.75/3.75/0.075, 2027-01-01 1.5/7.5/0.15 | pa;ll;v;gp | medium | refusals carried over from 3.6
(?:models/)?gemini-3\.6-flash(?!.*(?:tts|live|lite)).* | Gemini 3.6 Flash | thinking=level default=yes efforts=minimal|low|medium*|high | 0.75/3.75/0.075, 2027-01-01 1.5/7.5/0.15 | doc;pa;ll;gp | high | -
(?:models/)?(?:gemini-3\.5-flash-lite.*|gemini-flash-lite-latest) | Gemini 3.5 Flash-Lite | thinking=level default=yes efforts=minimal*|low|medium|high | 0.3/2.5/0.03 | doc;pa;ll;gp | medium | refusals carried over from 3.6

[google] dialect=gemini window=1_048_576 output=65_536 thinking=level default=yes efforts=minimal|low|medium*|high system=top_only passback=always continuity=yes
(?:models/)?gemini-3\.5-flash(?!-lite)(?!.*(?:tts|live)).* | Gemini 3.5 Flash | - | 1.5/9/0.15 | pa;ll;v;gp | high | made for temperature 1.0
(?:models/)?(?:gemini-3\.1-pro-preview(?:-customtools)?|gemini-pro-latest) | Gemini 3.1 Pro | thinking=level|always default=always efforts=low|medium|high* | 2/12/0.2* | pa;ll;v;gp | high | dearer from 200K tokens of prompt on; Vertex alone takes a budget of 0
(?:models/)?gemini-3-pro-preview.* | Gemini 3 Pro | thinking=level|always default=always efforts=low|high* retires=2026-03-09 | 2/12/0.2* | pa;ll;v;gp;doc | high | a 404 points to 3.1
(?:models/)?gemini-3\.1-flash-lite(?:-preview.*)? | Gemini 3.1 Flash-Lite | efforts=minimal*|low|medium|high retires=2027-05-07 | 0.25/1.5/0.025 | pa;ll;v;gp | high | -
(?:models/)?gemini-3-flash(?:-preview.*)? | Gemini 3 Flash | efforts=minimal|low|medium|high* | 0.5/3/0.05 | pa;ll;v;gp | high | -
(?:models/)?gemini-robotics-er-2-preview | Gemini Robotics-ER 2 | window=131_072 | 1/5/0.1 | pa;ll;v;gp | medium | twice this is listed for later, without a day

[google] dialect=gemini window=131_072 output=32_768 thinking=level default=yes efforts=minimal|high forced=rejected system=top_only format=none tools=no parallel=no audio=no modalities=text|image passback=always continuity=yes
(?:models/)?gemini-3-pro-image(?:-preview.*)? | Gemini 3 Pro Image | window=65_536 thinking=level|always default=always efforts=low|high | 2/12 | doc;pa;ll;v;gp | medium | pictures carry a thoughtSignature
(?:models/)?gemini-3\.1-flash-image(?:-preview.*)? | Gemini 3.1 Flash Image | - | 0.5/3 | pa;ll;v;gp | medium | -
(?:models/)?gemini-3\.1-flash-lite-image.* | Gemini 3.1 Flash-Lite Image | - | 0.25/1.5 | pa;ll;v;gp | medium | -
(?:models/)?gemini-nano-banana-2\.1.* | Nano Banana 2.1 | thinking=none default=no efforts=- passback=- continuity=no-reasoning | 1.5/7.5 | pa;ll;v;gp | low | -
(?:models/)?gemini-2\.5-flash-image.* | Gemini 2.5 Flash Image | window=65_536 thinking=none default=no efforts=- passback=- continuity=no-thought-signatures | 0.3/2.5 | pa;ll;v;gp | medium | any thinkingConfig is a 400

[google] dialect=gemini window=1_048_576 output=65_536 thinking=budget default=yes efforts=- refuses=frequency_penalty,presence_penalty system=top_only passback=tool_turns continuity=no-thought-signatures
(?:models/)?gemini-2\.5-pro(?!.*tts)(?:-preview.*|-exp.*|-\d{3})? | Gemini 2.5 Pro | thinking=budget|always default=always budget=128-32_768 | 1.25/10/0.125* | pa;ll;v;gp | high | -1 lets it choose; a level is a 400; structured output does not go with tools
(?:models/)?gemini-2\.5-flash-lite(?!.*tts).* | Gemini 2.5 Flash-Lite | default=no budget=512-24_576 | 0.1/0.4/0.01 | pa;ll;v;gp | high | 0 turns it off, -1 lets it choose
(?:models/)?gemini-2\.5-flash(?!-lite|-image)(?!.*(?:tts|audio|live)).* | Gemini 2.5 Flash | budget=0-24_576 | 0.3/2.5/0.03 | pa;ll;v;gp | high | -1 lets it choose; a level is a 400

[google] dialect=gemini window=8192 output=16_384 thinking=none default=no efforts=- forced=rejected system=top_only format=none tools=no parallel=no images=no audio=no documents=no modalities=audio continuity=no-reasoning
(?:models/)?gemini-3\.8-flash-tts.* | Gemini 3.8 Flash TTS | - | 0.5/9 | pa;ll;v;gp | medium | modality AUDIO only; an introductory price
(?:models/)?gemini-3\.8-flash-lite-tts.* | Gemini 3.8 Flash-Lite TTS | - | 0.5/6 | pa;ll;v;gp | medium | modality AUDIO only; an introductory price
(?:models/)?gemini-2\.5-pro-preview-tts | Gemini 2.5 Pro TTS preview | retires=2026-11-17 | 1/20 | pa;ll;v;gp | medium | modality AUDIO only
(?:models/)?gemini-2\.5-pro-tts | Gemini 2.5 Pro TTS | - | 1/20 | pa;ll;v;gp | medium | modality AUDIO only
(?:models/)?gemini-2\.5-flash(?:-lite)?(?:-preview)?-tts | Gemini 2.5 Flash TTS | - | 0.5/10 | gp | medium | modality AUDIO only
(?:models/)?gemini-(?!.*live).*-tts(?:-preview.*)? | Gemini TTS | - | - | pa;ll;v;gp | medium | modality AUDIO only

[google] dialect=gemini thinking=none default=no efforts=- system=top_only continuity=no-reasoning
(?:models/)?gemini-.*native-audio.* | Gemini native audio | format=none tools=no modalities=audio continuity=no-thought-signatures | - | doc;ll | low | modality AUDIO only; not served by generateContent
(?:models/)?gemini-(?:2\..*live.*|live-2.*) | Gemini 2 Live | format=none tools=no continuity=no-thought-signatures | - | ll | low | not served by generateContent
(?:models/)?(?:gemini-omni-.*|deep-research-.*|gemini-.*live.*|gemini-robotics-er-2-streaming.*|lyria-.*) | Interactions and Live | format=none tools=no | - | ll | low | not served by generateContent
(?:models/)?gemini-2\.0.* | Gemini 2.0 | window=1_048_576 output=8192 continuity=no-thought-signatures retires=2026-06-01 | - | doc;pa;ll;v;gp | high | any thinkingConfig is a 400
(?:models/)?gemini-2\.5-computer-use.* | Gemini 2.5 Computer Use | continuity=no-thought-signatures retires=2026-06-01 | - | pa;ll;v;gp;doc | high | any thinkingConfig is a 400
(?:models/)?gemini-1\.5-pro.* | Gemini 1.5 Pro | window=2_097_152 output=8192 continuity=no-thought-signatures retires=2025-09-24 | - | doc;pa;ll;v;gp | high | retired on that day or before; any thinkingConfig is a 400
(?:models/)?gemini-1\.5-flash.* | Gemini 1.5 Flash | window=1_048_576 output=8192 continuity=no-thought-signatures retires=2025-09-24 | - | doc;pa;ll;v;gp | high | retired on that day or before; any thinkingConfig is a 400
(?:models/)?(?:gemini-(?:1\.|exp).*|gemini-pro(?:-vision.*)?|learnlm.*) | Gemini 1 and experiments | continuity=no-thought-signatures retires=2025-09-24 | - | pa;ll;v;gp | high | retired on that day or before; any thinkingConfig is a 400
(?:models/)?gemma-4-.* | Gemma 4 | window=262_144 output=32_768 audio=no documents=no | - | pa;ll;v;gp | low | sources disagree on reasoning: no thinkingConfig is sent
(?:models/)?gemma-.* | Gemma 3 and older | window=131_072 output=8192 system=rejected format=prompt audio=no documents=no | - | pa;ll;v;gp | medium | no systemInstruction: it goes in front of the first user turn

[google] dialect=gemini system=top_only
(?:models/)?gemini-(?:2.*|(?:flash|pro)-1\.5.*) | another Gemini 1 or 2 | continuity=no-thought-signatures | - | inf | low | nothing else is known of it

[google] dialect=gemini window=1_048_576 output=65_536 thinking=level|always default=always efforts=low|medium*|high sampling=ignored refuses=frequency_penalty,presence_penalty prefill=rejected system=top_only passback=always continuity=yes
(?:models/)?gemini-(?:3(?:\.\d+)?|[4-9](?:\.\d+)?|\d\d)(?:-.*)? | a later Gemini | - | - | inf | low | a rule for families to come
"""
