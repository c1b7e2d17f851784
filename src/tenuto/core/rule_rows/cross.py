"""Rules of the cross dialect."""

from __future__ import annotations

__all__ = ["ROWS"]

ROWS = r"""
XP-01 || next || any provider, with a history from another || ledger || ids of calls have characters or a length that this provider does not take || 400 || - || none || - || refused || for each request map the ids one to one, calls and answers alike, and leave the stored history as it is || practice, 2026-08, opencodex#1767
XP-02 || next || any provider || ledger || a reasoning token goes to another than the one who gave it: another issuer, platform, endpoint, account or set of models || 400 || - || none || - || refused || leave the token out before sending and report each one; who speaks the same dialect is not the same issuer || practice, 2026-09, oh-my-pi#6379,#12006; openclaw#91205
XP-03 || next || DeepSeek and Kimi, with a history from another || body || messages of the assistant that make calls have no `reasoning_content` || 400 || - || none || /messages/{i} || refused || give each of them an empty one || practice, 2026-07, hermes#34519
XP-04 || next || Gemini 3 and newer, with a history from another || body || calls of the current turn have no signature || 400 || - || none || /contents/{i} || refused || set the documented stand-in on the first call of each step, and report it || recorded, 2026, 17 recorded parts
XP-05 || later || chains of providers that stand in for one another || ledger || what was made for the first provider is sent to the next || 400 || - || none || / || refused || make the request anew for each attempt || practice, 2026-06, pydantic-ai#4882; hermes#33795
XP-06 || later || any provider || ledger || a filter that hides secrets changed a token, which then is refused for ever || 400 || - || none || - || refused || keep tokens out of the reach of such filters || practice, 2026-07, openclaw#102244,#90093
XP-07 || later || any provider || ledger || a turn that was broken off is sent back as it is: unsigned, with open calls, with half of the arguments || 400 || - || none || - || refused || mark it where it broke, then leave it out or complete it || practice, 2026-07, pydantic-ai#5532,#7597
XP-08 || later || any provider || ledger || a history was shortened between a call and its answer, or inside the latest signed turn || 400 || - || none || - || refused || cut only where a turn is complete || practice, 2026-09, openclaw#90108; pi#8667
XP-09 || later || any provider with a prompt cache or with tokens bound to what came before them || ledger || arguments, tools or the system text were written anew, with other spaces or in another order || - || - || none || - || warned || keep the text as it came || practice, 2026-07, unsloth#10845; dspy#10216
"""
