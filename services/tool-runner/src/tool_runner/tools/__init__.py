"""The tools that servers list.

- `listing`: `chat.tools.list`, the tools of an agent; `checking`: `chat.tools.check`, each server on its own
- `pages`: one page of a server's listing; `tool`: a listed tool checked, or left out with a reason
- `schemas`: input schemas made fit for model providers; `names`: the names that a model sees
"""
