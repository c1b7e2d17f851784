"""The Responses dialect: OpenAI, Azure, xAI and DeepSeek at `/v1/responses`."""
