"""Read the sources of an answer. Citations have the same type for every provider."""

from tenuto import Client, Text
from tenuto.blocks import UrlCitation

with Client() as ai:
    # or "anthropic/..." and "google/..." with tools=[web_search()] from tenuto.tools
    reply = ai.chat("perplexity/sonar-pro", "When was Claude Shannon born?")

for block in reply.content:
    if isinstance(block, Text):
        print(block.text)
        for citation in block.citations:
            if isinstance(citation, UrlCitation):
                print(f"Source: {citation.title}: {citation.url}")
