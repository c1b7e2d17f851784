"""Rules that hold across providers: no check of their own holds them, but those of the dialects do."""

from __future__ import annotations

__all__ = ["UNCHECKED"]

UNCHECKED = {
    "XP-01": "held where the ids arrive: ANT-TOOL-05, OAR-ITEM-03, OAC-OAI-03, OAC-MIS-01",
    "XP-02": "held where the token arrives: ANT-THINK-02, OAR-REAS-05, GEM-SIG-02",
    "XP-03": "held by OAC-DS-01 and OAC-KIMI-01",
    "XP-04": "held by GEM-SIG-01 and GEM-SIG-03",
    "XP-05": "held by whatever rule of the second provider it breaks, most often ANT-THINK-02, OAR-REAS-05, GEM-SIG-02",
    "XP-06": "held where the token arrives: ANT-THINK-02, OAR-REAS-05, GEM-SIG-02",
    "XP-07": "held by ANT-THINK-01, ANT-TOOL-01, ANT-TOOL-12, OAR-REAS-03, GEM-TURN-02",
    "XP-08": "held by ANT-TOOL-02, ANT-THINK-04, ANT-THINK-08, OAR-TOOL-02, GEM-TURN-02",
    "XP-09": "held for models that bind their tokens by ANT-THINK-08; no cache is kept here",
}
