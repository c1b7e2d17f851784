"""Keys that a host of Gemini's dialect does not know at their place."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tenuto.audit.gemini_parts import camel, escaped, snake
from tenuto.audit.looking import Broken, Checks, Sent, once

__all__ = ["CHECKS"]

CHECKS = Checks()

_SHAPES = """
request: contents>content systemInstruction>content tools>tool toolConfig>toolConfig safetySettings>safety
  generationConfig>generation cachedContent model serviceTier continuationToken store- labels+ modelArmorConfig+
  outputConfig+
content: role parts>part
part: text thought thoughtSignature inlineData>blob fileData>file functionCall>call functionResponse>answer
  executableCode>code codeExecutionResult>ran toolCall>toolCall- toolResponse>toolResponse- videoMetadata mediaResolution
  partMetadata- mediaProcessing audioTranscription speechMetadata
blob: mimeType data displayName
file: mimeType fileUri displayName
call: id name args partialArgs+ willContinue+
answer: id name response parts>answerPart scheduling willContinue-
answerPart: inlineData>blob fileData>file mediaProcessing
code: id language code
ran: id outcome output
toolCall: id toolType args
toolResponse: id toolType response
tool: functionDeclarations>function googleSearch googleSearchRetrieval googleMaps codeExecution urlContext computerUse
  fileSearch- mcpServers retrieval+ enterpriseWebSearch+ parallelAiSearch+ exaAiSearch+
function: name description parameters parametersJsonSchema response responseJsonSchema behavior
toolConfig: functionCallingConfig>calling retrievalConfig includeServerSideToolInvocations-
calling: mode allowedFunctionNames streamFunctionCallArguments+
safety: category threshold method+
generation: temperature topP topK candidateCount maxOutputTokens stopSequences seed presencePenalty frequencyPenalty
  responseLogprobs logprobs responseMimeType responseSchema responseJsonSchema _responseJsonSchema responseFormat
  responseModalities mediaResolution speechConfig imageConfig thinkingConfig>thinking audioTranscriptionConfig
  enableAffectiveDialog enableEnhancedCivicAnswers translationConfig routingConfig+ modelConfig+ modelSelectionConfig+
  audioTimestamp+
thinking: includeThoughts thinkingBudget thinkingLevel
"""
"""What may stand where: `name>shape` is looked into, `+` is known to Vertex only, `-` to Google's own API only. From the
types of google-genai 3.1.
"""


class _Field(msgspec.Struct, frozen=True):
    shape: str = ""
    only: str = ""


class _Unknown(msgspec.Struct, frozen=True):
    """A key that is not known. `elsewhere` tells that the other host knows it."""

    at: str
    key: str
    path: str
    shape: str
    elsewhere: bool


def _read(text: str) -> dict[str, dict[str, _Field]]:
    shapes: dict[str, dict[str, _Field]] = {}
    for line in text.replace("\n  ", " ").strip().splitlines():
        name, _, words = line.partition(": ")
        fields = shapes[name] = {}
        for word in words.split():
            only = word[-1] if word[-1] in "+-" else ""
            own, _, shape = word.removesuffix(only or " ").partition(">")
            fields[own] = _Field(shape, only)
    return shapes


_FIELDS = _read(_SHAPES)


_PLAIN = {
    absent: {
        name: {key: field.shape for key, field in fields.items() if field.only != absent}
        for name, fields in _FIELDS.items()
    }
    for absent in "+-"
}
"""By the host that is not asked: the keys of each shape, with the shapes of what they hold."""


@once
def _unknown(sent: Sent) -> list[_Unknown]:
    absent = "-" if sent.target.provider.gemini.vertex else "+"
    if _is_plain(sent.body, _PLAIN[absent]):
        return []
    return list(_below(sent.body, "request", ("", ""), absent))


def _is_plain(body: object, shapes: dict[str, dict[str, str]]) -> bool:
    """Tell whether all keys are known as they are spelt: then nobody asks where they stand, which takes five times as
    long (1.4 ms for 100 turns).
    """
    left = [(body, "request")]
    while left:
        value, shape = left.pop()
        if isinstance(value, list):
            left += [(item, shape) for item in value]
        elif isinstance(value, dict):
            fields = shapes[shape]
            for key, held in value.items():
                inner = fields.get(key)
                if inner is None:
                    return False
                if inner:
                    left.append((held, inner))
    return True


def _below(value: object, shape: str, place: tuple[str, str], absent: str) -> Iterator[_Unknown]:
    """Look through a value of a shape. A place is a JSON pointer, and the path in the host's own way of writing."""
    at, path = place
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from _below(item, shape, (f"{at}/{number}", f"{path}[{number}]"), absent)
    if not isinstance(value, dict):
        return
    for key, held in value.items():
        known = _FIELDS[shape].get(key) or _FIELDS[shape].get(camel(key))
        there = f"{at}/{escaped(key)}"
        if known is None or known.only == absent:
            yield _Unknown(there, key, path, shape, known is not None and absent == "+")
        elif known.shape:
            yield from _below(held, known.shape, (there, f"{path}.{snake(key)}".removeprefix(".")), absent)


def _broken(id: str, found: _Unknown) -> Broken:
    return Broken(id, {"key": found.key, "path": found.path}, variant=0 if found.path else 1, at=found.at)


def _is_signature(found: _Unknown) -> bool:
    return found.shape == "call" and camel(found.key) == "thoughtSignature"


@CHECKS.holds("GEM-PART-04")
def _no_unknown_key(sent: Sent) -> Iterator[Broken]:
    for found in _unknown(sent):
        if not found.elsewhere and not _is_signature(found):
            yield _broken("GEM-PART-04", found)


@CHECKS.holds("GEM-PARAM-09")
def _no_key_of_the_other_host(sent: Sent) -> Iterator[Broken]:
    for found in _unknown(sent):
        if found.elsewhere:
            yield _broken("GEM-PARAM-09", found)


@CHECKS.holds("GEM-SIG-04")
def _no_signature_inside_a_call(sent: Sent) -> Iterator[Broken]:
    for found in _unknown(sent):
        if _is_signature(found):
            yield Broken("GEM-SIG-04", {"key": found.key, "path": found.path}, at=found.at)
