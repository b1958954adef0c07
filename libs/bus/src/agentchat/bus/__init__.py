"""The one package that uses NATS: streams and consumers, work queues, the trace channel, request and reply,
the feed.

`bus.bus.Bus` is the connection and holds the parts; import what you use from its module. NATS may be wiped at
any time: the streams are made again, and what was accepted is in Postgres.
"""
