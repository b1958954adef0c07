"""The event store on Postgres, built on the eventsourcing library.

- `schema.sql`: the event table, leases, the settled position
- `append_events.sql`: the function that appends
- `conversation_store`: loads and appends; `append_writer`: batches; `append_statement`, `recorder`: the
  statement
- `mapper`: events to rows and back; `conversation_cache`: states of the conversations used last
- `event_log`: all events, for readers; `shared_log`: for several readers; `feed_reader`: as EVENTS has it
"""
