"""Chat responses, the same for every dialect, with the provider's own fields."""

from typing import Any

from tenuto.core import jsonio
from tenuto.core.blocks import Audio, Block, Citation, Image, Reasoning, Refusal, Text, Value
from tenuto.core.loss import Loss
from tenuto.core.messages import AssistantMessage, StopReason, ToolCallView, Usage


class Choice(Value, frozen=True):
    """One of the answers of a response."""

    message: AssistantMessage
    index: int = 0
    extra: str = ""
    """The other fields of the choice (logprobs, filter results, ...) as the text of a JSON object."""

    @property
    def content(self) -> tuple[Block, ...]:
        """The blocks in the order in which the model produced them."""
        return self.message.blocks

    @property
    def finish_reason(self) -> StopReason | None:
        """Why the answer ended, in the common vocabulary."""
        return self.message.stop_reason

    @property
    def raw_finish_reason(self) -> str | None:
        """Why the answer ended, in the provider's own word."""
        return self.message.raw_stop_reason

    @property
    def text(self) -> str:
        """The text and refusals, joined."""
        return "".join(block.text for block in self.message.blocks if isinstance(block, Text | Refusal))

    @property
    def thinking(self) -> str:
        """The readable reasoning, joined."""
        return "".join(block.text for block in self.content if isinstance(block, Reasoning))

    @property
    def tool_calls(self) -> list[ToolCallView]:
        return list(self.message.tool_calls())

    @property
    def images(self) -> list[Image]:
        return [block for block in self.content if isinstance(block, Image)]

    @property
    def audio(self) -> Audio | None:
        """The first audio that the model made, if any."""
        return next((block for block in self.content if isinstance(block, Audio)), None)

    @property
    def citations(self) -> list[Citation]:
        return [citation for block in self.content if isinstance(block, Text) for citation in block.citations]


class ChatResponse(Value, frozen=True):
    id: str
    provider: str
    model: str
    choices: tuple[Choice, ...]
    usage: Usage | None = None
    raw_usage: str = ""
    """The provider's usage object as JSON text, merged from all events of a stream; empty: none."""
    extra: str = ""
    """The other fields of the response as the text of a JSON object."""
    losses: tuple[Loss, ...] = ()
    """The parts of the request or the response that could not be carried."""

    @property
    def message(self) -> AssistantMessage:
        """The message of the first choice; an empty one if there is no choice."""
        return self.choices[0].message if self.choices else AssistantMessage(())

    @property
    def text(self) -> str:
        """The text of the first choice."""
        return self.choices[0].text if self.choices else ""

    def field(self, name: str) -> Any:
        """Return one of the `extra` fields; None if the response has no such field."""
        raw = jsonio.members(self.extra).get(name) if self.extra else None
        return None if raw is None else jsonio.parse(raw)
