"""The Responses dialect as the simulator knows it."""

from __future__ import annotations

from tenuto.sim.responses.opening import open_request, read
from tenuto.sim.responses.replying import count
from tenuto.sim.responses.rules import CHECKS
from tenuto.sim.responses.writing import write
from tenuto.sim.voice import Voice

__all__ = ["VOICE"]

VOICE = Voice(open=open_request, checks=CHECKS, read=read, write=write, count=count)
