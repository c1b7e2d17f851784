"""For whom rules of Responses hold, in patterns of `row/model`."""

from __future__ import annotations

__all__ = ["ALL_TURNS", "HOLDS", "RECONFIGURED"]

HOLDS = r"""
OAR-REAS-01 || openai/* azure/*
OAR-REAS-02 || openai/* azure/*
OAR-REAS-03 || openai/* azure/*
OAR-REAS-04 || openai/* azure/* xai/*
OAR-REAS-05 || openai/* azure/*
OAR-REAS-06 || openai/* azure/* meta/*
OAR-REAS-07 || openai/* azure/*
OAR-REAS-08 || openai/* azure/*
OAR-REAS-09 || openai/* azure/* xai/*
OAR-REAS-11 || openai/?* azure/?*
OAR-REAS-12 || openai/gpt-3.5* openai/gpt-4* openai/chatgpt-4o* azure/gpt-35* azure/gpt-4*
OAR-ITEM-01 || openai/* azure/*
OAR-ITEM-02 || openai/* azure/*
OAR-ITEM-03 || openai/* azure/*
OAR-ITEM-04 || openai/* azure/*
OAR-ITEM-05 || openai/* azure/*
OAR-ITEM-06 || openai/* azure/*
OAR-ITEM-07 || openai/gpt-5.3-codex* openai/gpt-5.[4-9]* openai/gpt-[6-9]* openai/*daybreak* azure/gpt-5.3-codex* azure/gpt-5.[4-9]* azure/gpt-[6-9]*
OAR-ITEM-08 || openai/* azure/*
OAR-ITEM-09 || openai/* azure/*
OAR-ITEM-10 || openai/* azure/*
OAR-TOOL-01 || openai/* azure/*
OAR-TOOL-02 || openai/* azure/*
OAR-TOOL-03 || openai/* azure/*
OAR-TOOL-04 || openai/* azure/*
OAR-TOOL-05 || openai/* azure/*
OAR-TOOL-06 || openai/* azure/*
OAR-TOOL-07 || openai/* azure/*
OAR-TOOL-08 || openai/* azure/*
OAR-PARAM-01 || openai/?* azure/?*
OAR-PARAM-03 || openai/* azure/*
OAR-PARAM-04 || openai/* azure/*
OAR-PARAM-05 || openai/* azure/*
OAR-PARAM-06 || openai/* azure/* xai/*
OAR-PARAM-08 || openai/?*
OAR-PARAM-09 || openai/?* azure/?*
OAR-PARAM-10 || openai/* azure/*
OAR-XAI-01 || xai/*
OAR-XAI-02 || xai/*
"""

ALL_TURNS = ("*/gpt-5.6*", "*/gpt-5.[7-9]*", "*/gpt-[6-9]*", "*/gpt-rosalind*", "*/*daybreak*")
"""Models that heed the reasoning of all turns unless they are told otherwise; those before them heed the current one's."""
RECONFIGURED = ("*/gpt-[6-9]*", "*/gpt-rosalind*")
"""Models that can be told other settings in the midst of a conversation."""
