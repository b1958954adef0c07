"""The shop assistant: small talk, tools chosen by the words of a message, answers from results and documents.

`mind` decides; the other modules each know one thing. Nothing here knows the name of any tool.
"""

from model_demo.shop.mind import reply

__all__ = ["reply"]
