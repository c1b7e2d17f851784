"""Read replies with images and with code that the provider ran."""

from tenuto import Client, Image, Reply, Text
from tenuto.blocks import CodeExecution, CodeResult
from tenuto.tools import code_execution


def show(reply: Reply) -> None:
    """Print the blocks in order and save the image."""
    for block in reply.content:
        match block:
            case Text(text=text):
                print(text)
            case Image() as image:
                image.save("sunset.png")
                print("sunset.png:", image.mime)
            case CodeExecution(code=code):
                print("Code:", code)
            case CodeResult(output=output):
                print("Output:", output)


with Client() as ai:
    prompt = "Generate an image of a sunset and explain it."
    show(ai.chat("google/gemini-3.1-flash-image", prompt, modalities=["text", "image"]))
    show(ai.chat("google/gemini-3-flash-preview", "What is the 20th prime? Run code.", tools=[code_execution()]))
