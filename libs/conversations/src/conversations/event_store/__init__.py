"""The event store on Postgres, by the library eventsourcing.

- `store`: the only writer; `writer`: what waits to be stored; `appending`: the statement that stores it
- `mapper`: events to rows and back; `cache`: states of the conversations used last
- `log`: all events, for readers; `shared_log`: for several who follow it side by side
- `feed_reader`: the log as EVENTS carries it; `owners`: of which account
"""
