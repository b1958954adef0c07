"""Conversations: their state and rules (pure), the event store that holds them, what is read from its log.

Start with `conversation` (state and evolve) and `turn` (what happens next); `store` is the only writer.
Modules are imported by name, so that a process loads only what it uses.
"""
