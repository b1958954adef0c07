"""Talk to NATS: streams and consumers, work queues, the trace channel, request and reply, the feed.

This is the only package that uses NATS. `bus.bus.Bus` is the connection and holds the parts: `queues` (work
queues), `traces` (live frames), `rpc` (request and reply), `feed_stream` (EVENTS) and `eraser`.
`stream_settings` lists the streams.

NATS may be wiped at any time: the streams are created again, and everything that was accepted is in Postgres.
"""
