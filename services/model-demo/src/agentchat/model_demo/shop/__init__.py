"""Play the shop's assistant by rules.

`assistant` decides the next reply. `rules` maps messages to tools and inputs, `talk` answers small talk,
`documents` answers from passages, and `wording` turns results into text.
"""

from agentchat.model_demo.shop.assistant import apply_persona, fill_forced_input, reply

__all__ = ["apply_persona", "fill_forced_input", "reply"]
