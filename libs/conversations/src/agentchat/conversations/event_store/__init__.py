"""The event store on Postgres, by the library eventsourcing.

- `schema.sql`: the event table and the function that appends
- `store`: loads and appends; `writer`: batches appends; `recorder`, `appending`: the statement
- `mapper`: events to rows and back; `cache`: states of the conversations used last
- `log`: all events, for readers; `shared_log`: for several who follow it side by side
- `feed_reader`: the log as EVENTS carries it
"""
