"""For whom rules of Gemini's dialect hold, in patterns of `row/model`."""

from __future__ import annotations

__all__ = ["HOLDS"]

_OLD = "*/gemini-1* */gemini-2* */gemini-exp* */gemini-pro */gemini-pro-vision* */gemini-pro-1* */gemini-flash-1* */learnlm*"
_NEW = "*/gemini-3* */gemini-[4-9]* */gemini-pro-latest */gemini-flash-latest */gemini-flash-lite-latest"
_NEWER = "*/gemini-3.[5-9]* */gemini-3.[1-9][0-9]* */gemini-[4-9]* */gemini-flash-latest */gemini-flash-lite-latest"
_LEAST_LOW = (
    "*/gemini-3-pro* */gemini-3.1-pro* */gemini-3.[78]-flash* */gemini-4* */gemini-pro-latest */gemini-flash-latest"
)

HOLDS = f"""
GEM-SIG-01 || */ {_NEW}
GEM-SIG-03 || */ {_NEW}
GEM-SIG-05 || */ {_NEW}
GEM-SIG-06 || */ {_NEW}
GEM-SIG-07 || {_NEWER}
GEM-SIG-09 || */gemini-2*
GEM-TURN-05 || {_OLD}
GEM-TURN-06 || {_NEWER}
GEM-PARAM-02 || {_OLD}
GEM-PARAM-05 || {_LEAST_LOW}
GEM-PARAM-08 || */gemini-2*
GEM-PARAM-11 || google/* gemini/* vertex/*
GEM-MEDIA-03 || {_OLD}
"""
