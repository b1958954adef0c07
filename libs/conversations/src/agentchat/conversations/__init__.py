"""Conversations: their state and rules (pure), the event store, and its readers.

- `aggregate`: the state of a conversation and the rules of a run (pure); start here
- `event_store`: the log; its `conversation_store` is the only writer
- `projections`: the read models, and how they are rebuilt and verified
- `queries`: reads of the log itself
- `leases`: which worker holds a run, which messages wait for a busy conversation, and runs that no worker
  holds
- `idempotency`: idempotency keys
- `conversation_export`: conversations as files
- `erasures`: removal of the rest of an erased conversation
- `postgres_sessions`, `migrations`, `errors`

Import modules by name, so that a process loads only what it uses.
"""
