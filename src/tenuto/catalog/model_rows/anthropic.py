"""Claude."""

from __future__ import annotations

__all__ = ["ROWS"]

ROWS = r"""
[anthropic] dialect=anthropic-messages window=1_000_000 output=128_000 thinking=always default=always efforts=low|medium|high*|xhigh|max sampling=rejected forced=rejected prefill=rejected system=native audio=no passback=always continuity=yes
claude-(?:fable|mythos)-5-2<date> | Claude Fable 5.2, Mythos 5.2 | bound=yes | - | sdk;v | low | only the ids are published; taken to be like 5.1
claude-fable-5-1<date> | Claude Fable 5.1 | bound=yes | 10/50/0.25/12.5 | pa;ll;v;gp | high | history may only be appended to
claude-mythos-5-1<date> | Claude Mythos 5.1 | - | 10/50/0.25/12.5 | pa;ll | medium | by invitation; documented to run no prefix check
claude-opus-5-5<date> | Claude Opus 5.5 | efforts=low|medium*|high|xhigh|max bound=yes | 4/20/0.2/5 | pa;ll;v;gp | high | text between tools comes as thinking
claude-sonnet-5-5<date> | Claude Sonnet 5.5 | thinking=adaptive|between_tools default=yes off=high bound=yes | 2/10/0.1/2.5 | pa;ll;v;gp | high | between_tools is how it is turned off, and takes no effort above high
claude-haiku-5-5<date> | Claude Haiku 5.5 | thinking=adaptive|disabled default=yes efforts=low|medium*|high|xhigh|max off=high forced=ok bound=yes | 0.1/0.5/0.01/0.125* | pa;ll;v;gp | high | five times the price from 100K tokens of prompt on; a system message behind tool results wants a text block before it
claude-opus-5<date> | Claude Opus 5 | thinking=adaptive|disabled default=yes off=high forced=ok | 5/25/0.5/6.25 | pa;ll;v;gp | medium | one source has a budget accepted, two have it refused
claude-sonnet-5<date> | Claude Sonnet 5 | thinking=adaptive|disabled default=yes forced=ok system=ignored | 2/10/0.2/2.5 | pa;ll;v;gp | high | a system message in mid-conversation gets a 200 and is not obeyed
claude-(?:fable|mythos)-5<date> | Claude Fable 5, Mythos 5 | forced=ok | 10/50/1/12.5 | pa;ll;v;gp | high | forced choice was probed: 200
claude-mythos-preview<date> | Claude Mythos Preview | forced=ok system=rejected retires=2026-06-30 | 10/50/1/12.5 | sdk;ll | medium | -
claude-opus-4-8<date> | Claude Opus 4.8 | thinking=adaptive|disabled default=no forced=ok | 5/25/0.5/6.25 | pa;ll;v;gp | high | -
claude-opus-4-7<date> | Claude Opus 4.7 | thinking=adaptive|disabled default=no forced=ok system=rejected | 5/25/0.5/6.25 | pa;ll;v;gp | high | -

[anthropic] dialect=anthropic-messages window=1_000_000 output=128_000 thinking=adaptive|budget|disabled default=no efforts=low|medium|high*|max budget=1024-127_999 forced=not_with_thinking prefill=rejected system=rejected audio=no passback=always continuity=yes
claude-opus-4-6<date> | Claude Opus 4.6 | - | 5/25/0.5/6.25 | pa;ll;v;gp | high | budget is deprecated; forced choice goes with adaptive and is refused with a budget
claude-sonnet-4-6<date> | Claude Sonnet 4.6 | interleaved=yes | 3/15/0.3/3.75 | pa;ll;v;gp | high | output 64K in older tables; the header counts only with a budget

[anthropic] dialect=anthropic-messages window=200_000 output=64_000 thinking=budget|disabled default=no efforts=- budget=1024-63_999 forced=not_with_thinking system=rejected audio=no passback=always continuity=yes interleaved=yes
claude-opus-4-5<date> | Claude Opus 4.5 | efforts=low|medium|high* exclusive=temperature,top_p | 5/25/0.5/6.25 | pa;ll;v;gp | high | -
claude-sonnet-4-5<date> | Claude Sonnet 4.5 | exclusive=temperature,top_p retires=2026-11-30 | 3/15/0.3/3.75* | pa;ll;v;gp;sdk | high | -
claude-haiku-4-5<date> | Claude Haiku 4.5 | exclusive=temperature,top_p | 1/5/0.1/1.25 | pa;ll;v;gp | high | -
claude-opus-4-1<date> | Claude Opus 4.1 | exclusive=temperature,top_p output=32_000 budget=1024-31_999 continuity=yes | 15/75/1.5/18.75 | pa;v;gp | medium | out of the SDK since 2026-08; prompt and max_tokens beyond the window are a 400
claude-opus-4(?:-0)?<date> | Claude Opus 4 | output=32_000 budget=1024-31_999 format=tool continuity=no-interleaving retires=2026-06-15 | 15/75/1.5/18.75 | sdk;v;gp | high | some clouds still serve it
claude-sonnet-4(?:-0)?<date> | Claude Sonnet 4 | format=tool continuity=no-interleaving retires=2026-06-15 | 3/15/0.3/3.75 | sdk;v;gp | high | some clouds still serve it
claude-3-7-sonnet.* | Claude Sonnet 3.7 | format=tool interleaved=no continuity=no-interleaving retires=2026-02-19 | 3/15/0.3/3.75 | sdk;v;gp | high | some clouds still serve it

[anthropic] dialect=anthropic-messages window=200_000 output=8192 thinking=none default=no efforts=- system=rejected format=tool audio=no continuity=no-interleaving
claude-3-5-haiku(?:-latest|<date>) | Claude Haiku 3.5 | retires=2026-02-19 | 0.8/4/0.08/1 | sdk;gp | high | -
claude-3-5-sonnet(?:-latest|<date>) | Claude Sonnet 3.5 | retires=2025-10-28 | 3/15/0.3/3.75 | gp;doc | medium | -
claude-3-opus(?:-latest|<date>) | Claude Opus 3 | output=4096 retires=2026-01-05 | 15/75/1.5/18.75 | sdk;gp | high | -
claude-3-sonnet<date> | Claude Sonnet 3 | output=4096 retires=2025-07-21 | 3/15/0.3/3.75 | sdk;gp | high | -
claude-3-haiku<date> | Claude Haiku 3 | output=4096 retires=2026-04-20 | 0.25/1.25/0.03/0.3 | gp;inf | medium | -
claude-3[-.].* | another Claude 3 | output=4096 | - | inf | low | -
claude-2(?:\.\d)? | Claude 2 | output=4096 tools=no images=no documents=no retires=2025-07-21 | - | sdk | high | -
claude-(?:1(?:\.\d)?(?:-100k)?|instant-.*|v\d.*) | Claude 1 and Instant | output=4096 tools=no images=no documents=no retires=2024-11-06 | - | sdk | high | -

[anthropic] dialect=anthropic-messages window=1_000_000 output=128_000 thinking=adaptive default=yes efforts=low|medium|high*|xhigh|max sampling=rejected forced=rejected prefill=rejected system=native audio=no passback=always continuity=yes
claude-[a-z]+-(?:4-(?:[6-9]|\d\d)|[5-9]|\d\d)(?:[-@].*)? | a later Claude | - | - | v;inf | low | a rule for families to come: no sampling, no prefill, no forced choice, no disabled; GET /v1/models knows better
"""
