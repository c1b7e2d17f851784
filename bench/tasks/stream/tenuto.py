from tenuto import Client

with Client() as client, client.stream("openai/gpt-5.2", "Write a haiku.") as stream:
    for text in stream.text_deltas():
        print(text, end="", flush=True)
