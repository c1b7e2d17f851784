from pydantic_ai import Agent

agent = Agent("openai:gpt-5.2")
with agent.run_stream_sync("Write a haiku.") as result:
    for text in result.stream_text(delta=True):
        print(text, end="", flush=True)
