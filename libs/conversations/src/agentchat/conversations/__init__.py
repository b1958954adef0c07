"""Conversations: their state and rules (pure), the event store that holds them, what is read from its log.

- `aggregate`: the state of a conversation and the rules of a turn (pure); start here
- `event_store`: the log; its `store` is the only writer
- `projections`: the read models, and how they are rebuilt and verified
- `queries`: what is read from the log itself
- `leases`: which worker holds a run, who waits for a busy conversation, and runs that nobody works on
- `claims`: idempotency keys, and requests that clients try again
- `export`: conversations into files
- `erasures`: what is left to remove of an erased conversation
- `database`, `migrations`, `errors`

Modules are imported by name, so that a process loads only what it uses.
"""
