"""The HTTP door: authentication, limits, both chat endpoints in both stream forms, reading back.

A request passes `door`, `app`, `chat`, and then lives as a run that is followed (`live`, `view`), written as
server-sent events (`stream`, `sse`) or as one JSON.
"""
