"""Get an answer as a value of a type, checked. Dataclasses, TypedDicts, pydantic models and JSON Schemas work as well."""

import msgspec

from tenuto import Client


class Palette(msgspec.Struct):
    """What is asked for."""

    colors: list[str]


with Client() as ai:
    answer = ai.chat_structured("openai/gpt-5.2", "List 3 colors", Palette)

for color in answer.data.colors:  # a list[str], for the type checker, too
    print(color)
print("it took", len(answer.replies), "reply")  # one that does not fit is sent back with what is wrong, once
