"""Reasoning in the form of `reasoning_details`: typed items, replay contracts, codecs, views of any reply."""

from tenuto.reasoning.items import MissingSignaturesForStrictProvider as MissingSignaturesForStrictProvider
from tenuto.reasoning.items import OpenRouterReasoningCodec as OpenRouterReasoningCodec
from tenuto.reasoning.items import ReasoningCodec as ReasoningCodec
from tenuto.reasoning.items import ReasoningEncrypted as ReasoningEncrypted
from tenuto.reasoning.items import ReasoningFormat as ReasoningFormat
from tenuto.reasoning.items import ReasoningItem as ReasoningItem
from tenuto.reasoning.items import ReasoningOther as ReasoningOther
from tenuto.reasoning.items import ReasoningServerToolCall as ReasoningServerToolCall
from tenuto.reasoning.items import ReasoningSummary as ReasoningSummary
from tenuto.reasoning.items import ReasoningText as ReasoningText
from tenuto.reasoning.items import ReplayAudit as ReplayAudit
from tenuto.reasoning.items import ReplayContract as ReplayContract
from tenuto.reasoning.items import ReplayViolation as ReplayViolation
from tenuto.reasoning.items import audit_replay as audit_replay
from tenuto.reasoning.items import contract_for as contract_for
from tenuto.reasoning.items import from_openrouter_value as from_openrouter_value
from tenuto.reasoning.items import parse_items as parse_items
from tenuto.reasoning.views import AnthropicReasoningCodec as AnthropicReasoningCodec
from tenuto.reasoning.views import GeminiReasoningCodec as GeminiReasoningCodec
from tenuto.reasoning.views import ResponsesReasoningCodec as ResponsesReasoningCodec
from tenuto.reasoning.views import to_details as to_details
from tenuto.reasoning.views import with_details as with_details
from tenuto.reasoning.views import without_details as without_details
