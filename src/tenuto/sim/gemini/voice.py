"""Gemini's voice."""

from __future__ import annotations

from tenuto.sim.gemini.opening import count, open_request, read
from tenuto.sim.gemini.rules import CHECKS
from tenuto.sim.gemini.writing import write
from tenuto.sim.voice import Voice

__all__ = ["VOICE"]

VOICE = Voice(open=open_request, checks=CHECKS, read=read, write=write, count=count)
