"""Gemini's voice."""

from __future__ import annotations

from tenuto.sim import listing
from tenuto.sim.gemini.opening import count, open_request, read
from tenuto.sim.gemini.rules import CHECKS
from tenuto.sim.gemini.writing import write
from tenuto.sim.voice import Voice

__all__ = ["VOICE"]

VOICE = Voice(
    open=open_request,
    checks=CHECKS,
    read=read,
    write=write,
    count=count,
    stream_in_body=False,
    array_without_sse=True,
    listed_dialects=("gemini",),
    model_entry=listing.gemini_entry,
    model_list=listing.gemini_list,
)
