"""The protocols: Anthropic's Messages in `anthropic`, OpenAI's Chat Completions in `openai`.

Each reads a body into the Messages API's request (`requests`, which says the most) and writes `replies` as
its own messages and events; `replies.ModelWire` is what the server uses of either. The source of every
field is their API reference (platform.claude.com/docs/en/api/messages,
platform.openai.com/docs/api-reference/chat).
"""
