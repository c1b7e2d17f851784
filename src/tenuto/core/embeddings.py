"""Embeddings: request and response."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import msgspec

from tenuto.core.loss import Loss


class EmbedRequest(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    model: str
    """The model as `provider/model`."""
    input: str | Sequence[str]
    """One text or several."""
    dimensions: int | None = None
    """The length of an embedding; None: the model's default."""
    task: str = ""
    """The purpose of the embeddings in the provider's own word: `RETRIEVAL_QUERY`, `query`, ..."""
    title: str = ""
    """The title of the document that the texts are from."""
    extra_body: dict[str, Any] = {}
    """Fields added to the body last; they win over others."""
    extra_headers: dict[str, str] = {}
    """Headers added last; they win over others."""

    @classmethod
    def of(
        cls, model: str | Mapping[str, Any], input: str | Iterable[str] | None = None, dimensions: int | None = None
    ) -> Self:
        """Make a request from a model and texts, or from a dictionary with the fields of a request.

        Raise `TypeError` for a value of the wrong type and for an unknown field.
        """
        arguments = {"input": input, "dimensions": dimensions}
        if isinstance(model, Mapping) and any(value is not None for value in arguments.values()):
            raise TypeError("pass input and dimensions in the dictionary of the request")
        document = model if isinstance(model, Mapping) else {"model": model, **arguments}
        fields = {name: value for name, value in document.items() if value is not None}
        for name in document:
            if name not in cls.__struct_fields__:
                raise TypeError(f"unknown field {name!r}: provider-specific fields go into extra_body")
        if not isinstance(fields.get("model"), str):
            raise TypeError(f"the model is {_type_name(fields.get('model'))}: expected a string, provider/model")
        text = fields.pop("input", None)
        texts = text if isinstance(text, str) else _texts(text)
        try:
            return msgspec.structs.replace(msgspec.convert({"input": "", **fields}, cls), input=texts)
        except msgspec.ValidationError as exc:
            raise TypeError(f"request: {exc}") from None

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts as a tuple. Raise `TypeError` for a value that is not text."""
        return (self.input,) if isinstance(self.input, str) else _texts(self.input)


def _texts(input: object) -> tuple[str, ...]:
    if isinstance(input, bytes | bytearray | memoryview | Mapping) or not isinstance(input, Iterable):
        raise TypeError(f"input is {_type_name(input)}: expected a text, or a list of texts")
    texts = tuple(input)
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(f"input[{index}] is {_type_name(text)}: only texts can be embedded")
    return texts


def _type_name(value: object) -> str:
    return "None" if value is None else type(value).__name__


class EmbedUsage(msgspec.Struct, frozen=True):
    """The tokens that embedding used. None: unknown; a sum with an unknown part is unknown, too."""

    prompt_tokens: int | None = None
    total_tokens: int | None = None


class EmbedResponse(msgspec.Struct, frozen=True):
    model: str
    provider: str
    embeddings: tuple[tuple[float, ...], ...]
    """One embedding per text, in order: the provider's numbers, neither scaled nor normalized."""
    usage: EmbedUsage = EmbedUsage()
    losses: tuple[Loss, ...] = ()
    """The parts of the request that could not be carried."""
    extra: tuple[str, ...] = ()
    """The other fields of each HTTP response, including usage, as the text of a JSON object; none without fields."""

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        length = len(self.embeddings[0]) if self.embeddings else 0
        fields = {name: getattr(self, name) for name in self.__struct_fields__ if name != "extra"}
        return [*{**fields, "embeddings": f"{len(self.embeddings)} of {length} numbers"}.items()]

    def __repr__(self) -> str:
        return f"EmbedResponse({', '.join(f'{name}={value!r}' for name, value in self.__rich_repr__())})"
