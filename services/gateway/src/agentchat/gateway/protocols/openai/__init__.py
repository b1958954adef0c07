"""Serve agents as models of OpenAI's API: /openai.

`responses` is the Responses API; the other modules are Chat Completions and what both share. Differences from
OpenAI: docs/integrate/openai.md; why: decision 35.
"""
