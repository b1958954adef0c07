"""The offline model server: Anthropic's Messages protocol over HTTP, deterministic and without a network.

`wire` is the protocol, `shop` the assistant that talks about the demo shop, `controls` what a model name
may ask for (slow, failing, repeating); `answer` brings them together.
"""
