"""Serve an offline, deterministic model over Anthropic's and OpenAI's HTTP protocols.

`wire` reads and writes both protocols, `assistant` is that of the demo shop, and `controls` parses what a
model name asks for (slow, failing, repeating). `controlled_reply` combines them.
"""
