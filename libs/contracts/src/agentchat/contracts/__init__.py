"""Define what the services say to each other: events, bus messages, frames, subjects, error codes.

Everything here is a value or a pure function. `contracts.wire` is the only module that turns values into
bytes.

Where to look first: `events` (the log), `messages` and `tool_messages` (work queues and requests), `frames`
(the live view of a run), `subjects` (where each of them is published), `errors` (the error codes of the API)
and `timings` (every duration that two processes must agree on).
"""
