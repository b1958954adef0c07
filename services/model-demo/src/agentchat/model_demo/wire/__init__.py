"""The protocols: Anthropic's Messages in `anthropic`, OpenAI's Chat Completions in `openai`.

Each reads a body into a `ModelRequest` and writes a `PlannedReply` as its own messages and events;
`replies.ModelWire` is what the server uses of either.
"""
