"""The shop assistant: `assistant` decides what comes next in a conversation.

`rules` is the table of messages and the tools that they ask for, with their inputs; `talk` answers what
needs no tool, `documents` from passages; `wording` words results.
"""

from agentchat.model_demo.shop.assistant import as_ordered, forced_input, reply

__all__ = ["as_ordered", "forced_input", "reply"]
