"""What would the provider say? An audit tells it beforehand, without any network."""

from __future__ import annotations

from tenuto.audit.auditing import Auditable, audit, audit_body
from tenuto.audit.report import BlockFate, Fate, Finding, Report, Severity

__all__ = ["Auditable", "BlockFate", "Fate", "Finding", "Report", "Severity", "audit", "audit_body"]
