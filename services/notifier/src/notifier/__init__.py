"""The notifier: follows the log and sends each account's webhooks to its endpoints.

Any number may run; one of them leads and sends. It reads Postgres alone, so that it misses nothing whatever
becomes of NATS. Until there is an endpoint it follows nothing, and has loaded nothing that sends.

- `worker`: the process; `serving`: all endpoints; `sender`: one of them
- `pages`: the log, read once for all; `attempt`: one request; `schedule`: when there is another
"""
