"""Predict what a provider does with a request, without the network."""

from tenuto.audit.api import Auditable, audit, audit_body
from tenuto.audit.report import BlockOutcome, Finding, OutcomeKind, Report, Severity

__all__ = ["Auditable", "BlockOutcome", "Finding", "OutcomeKind", "Report", "Severity", "audit", "audit_body"]
