"""/openai: agents as models of OpenAI's API, for any client that speaks it.

`responses` is the folder of the Responses API; the rest is of Chat Completions, and common to both. Where it
departs from OpenAI: docs/integrate/openai.md; why: decision 35.
"""
