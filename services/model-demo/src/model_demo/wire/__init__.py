"""The protocols: Anthropic's Messages in this package, OpenAI's Chat Completions in `chat`.

`protocol` says what the server asks of either. Requests and replies have the Messages API's shapes within.
The source of every field is the API reference (platform.claude.com/docs/en/api/messages) and the types of
the official Python SDK 2.11.
"""
