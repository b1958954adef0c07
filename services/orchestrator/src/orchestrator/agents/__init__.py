"""The agent of a run.

- `agents`: its configuration at a version; `credentials`: the address and the key of its model calls
"""
