"""The shop assistant: `assistant` decides what comes next in a conversation.

`intents` finds the offered tools that a message asks for, `filled_inputs` fills their inputs from what was
written; `talk` answers what needs no tool, `documents` from passages; `wording` words
results.
"""

from model_demo.shop.assistant import as_ordered, forced_input, reply

__all__ = ["as_ordered", "forced_input", "reply"]
