"""Play the shop's assistant by rules.

`next_reply` decides. `tool_rules` maps messages to tools and inputs, `small_talk` answers small talk,
`documents` answers from passages, and `result_text` turns results into text.
"""

from agentchat.model_demo.assistant.next_reply import apply_persona, fill_forced_input, reply

__all__ = ["apply_persona", "fill_forced_input", "reply"]
