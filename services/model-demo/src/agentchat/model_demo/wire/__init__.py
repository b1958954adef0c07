"""Read and write the protocols: Anthropic's Messages and OpenAI's Chat Completions.

Each reads a body into a `ModelRequest` and writes a `PlannedReply` as messages or events. The server uses
both through `replies.ModelWire`.
"""
