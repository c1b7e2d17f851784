"""Texts as numbers: what is asked, and what comes back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import msgspec

from tenuto.core.loss import Loss

__all__ = ["EmbedRequest", "EmbedResponse", "EmbedUsage"]


class EmbedRequest(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Texts to embed. `model` is `provider/model`; `input` is one text, or any number of them.

    `dimensions` None leaves the length of an embedding to the model. `task` says what the embeddings are for, in the
    provider's own word (`RETRIEVAL_QUERY`, `query`, ...), `title` what the document is called that the texts are from.
    `extra_body` and `extra_headers` go out last, and win.
    """

    model: str
    input: str | Sequence[str]
    dimensions: int | None = None
    task: str = ""
    title: str = ""
    extra_body: dict[str, Any] = {}
    extra_headers: dict[str, str] = {}

    @classmethod
    def of(
        cls, model: str | Mapping[str, Any], input: str | Iterable[str] | None = None, dimensions: int | None = None
    ) -> Self:
        """Make a request of a model and texts, or of one dictionary with the fields of a request.

        Raise `TypeError` for a model, a text or a dictionary that is none, and for an unknown field.
        """
        if isinstance(model, Mapping):
            if input is not None or dimensions is not None:
                raise TypeError("a whole request was given: input and dimensions go into the dictionary")
            return cls._of_dict(model)
        if not isinstance(model, str):
            raise TypeError(f"the model is {_named(model)}: expected a string, provider/model")
        return cls(model=model, input=input if isinstance(input, str) else _texts(input), dimensions=dimensions)

    @classmethod
    def _of_dict(cls, document: Mapping[str, Any]) -> Self:
        unknown = [name for name in document if name not in cls.__struct_fields__]
        if unknown:
            raise TypeError(f"no field is called {unknown[0]!r}: provider-specific fields go into extra_body")
        given = {name: value for name, value in document.items() if value is not None}
        request = cls.of(given.pop("model", None), given.pop("input", None))
        try:
            options = msgspec.convert({"model": "", "input": "", **given}, cls)
        except msgspec.ValidationError as exc:
            raise TypeError(f"request: {exc}") from None
        return msgspec.structs.replace(options, model=request.model, input=request.input)

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts, whichever way they were given. Raise `TypeError` for anything that is no text."""
        return (self.input,) if isinstance(self.input, str) else _texts(self.input)


def _texts(input: object) -> tuple[str, ...]:
    if isinstance(input, bytes | bytearray | memoryview | Mapping) or not isinstance(input, Iterable):
        raise TypeError(f"input is {_named(input)}: expected a text, or a list of texts")
    texts = tuple(input)
    for at, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(f"input[{at}] is {_named(text)}: only texts can be embedded")
    return texts


def _named(value: object) -> str:
    return "None" if value is None else type(value).__name__


class EmbedUsage(msgspec.Struct, frozen=True):
    """What embedding took, in tokens. None where nobody said; a sum of which one part is unknown is unknown."""

    prompt_tokens: int | None = None
    total_tokens: int | None = None


class EmbedResponse(msgspec.Struct, frozen=True):
    """One embedding for each text, in the order of the texts.

    `extra` holds what else the provider said, its own usage among it, as JSON object text: one for each answer that
    said more. `losses` says what could not be carried. The numbers are the provider's own: neither scaled nor normalised.
    """

    model: str
    provider: str
    embeddings: tuple[tuple[float, ...], ...]
    usage: EmbedUsage = EmbedUsage()
    losses: tuple[Loss, ...] = ()
    extra: tuple[str, ...] = ()

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        length = len(self.embeddings[0]) if self.embeddings else 0
        return [
            ("model", self.model),
            ("provider", self.provider),
            ("embeddings", f"{len(self.embeddings)} of {length} numbers"),
            ("usage", self.usage),
            ("losses", self.losses),
        ]

    def __repr__(self) -> str:
        return f"EmbedResponse({', '.join(f'{name}={value!r}' for name, value in self.__rich_repr__())})"
