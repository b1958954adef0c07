"""The event store on Postgres, built on the eventsourcing library.

- `schema.sql`: the event table, leases, the settled position
- `append_events.sql`: the function that appends
- `store`: loads and appends; `writer`: batches appends; `recorder`, `append_statement`: the statement
- `mapper`: events to rows and back; `conversation_cache`: states of the conversations used last
- `log`: all events, for readers; `shared_log`: for several readers at the same position
- `feed_reader`: the log as EVENTS carries it
"""
