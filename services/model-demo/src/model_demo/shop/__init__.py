"""The shop assistant: `assistant` decides what comes next in a conversation.

`choosing` finds the offered tools that a message asks for, by their own definitions; `inputs` fills them from
what was said; `plan` puts both together. `talk` answers what needs no tool, `documents` from passages,
`wording` tells results. `words`, `schemas` and `memory` are what these read with.
"""

from model_demo.shop.assistant import forced_input, reply

__all__ = ["forced_input", "reply"]
