"""Serve agents to `useChat` of the AI SDK, by its UI message stream, version 1: /ai-sdk/v1.

For integrators: docs/integrate/ai-sdk.md. Why: decision 59.
"""
