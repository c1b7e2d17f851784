"""Get an answer as a validated value: a msgspec struct, dataclass, TypedDict, pydantic model or JSON Schema."""

import msgspec

from tenuto import Client


class Palette(msgspec.Struct):
    colors: list[str]


with Client() as ai:
    answer = ai.chat_structured("openai/gpt-5.2", "List 3 colors", Palette)

for color in answer.data.colors:  # list[str], also for the type checker
    print(color)
print("replies:", len(answer.replies))  # an invalid reply is sent back once, with the error
