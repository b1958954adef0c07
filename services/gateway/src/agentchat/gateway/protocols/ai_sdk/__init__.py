"""/ai-sdk/v1: agents for `useChat` of the AI SDK, by its UI message stream, version 1 (decision 59).

For integrators: docs/integrate/ai-sdk.md.
"""
