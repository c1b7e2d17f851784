"""Define a tool as a dictionary and read the tool calls of the model."""

from tenuto import Client

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}

with Client() as ai:
    reply = ai.chat("groq/llama-3.3-70b-versatile", "Weather in New York?", tools=[WEATHER])

for call in reply.tool_calls:
    print(call.name, call.parse())  # or call.parse_args(SomeType); call.args is the JSON text of the model
