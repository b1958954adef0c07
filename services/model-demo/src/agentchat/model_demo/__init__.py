"""The offline model server: Anthropic's and OpenAI's protocols over HTTP, deterministic, without a network.

`wire` holds both protocols, `shop` the assistant that talks about the demo shop, `controls` what a model
name may ask for (slow, failing, repeating); `answer` brings them together.
"""
