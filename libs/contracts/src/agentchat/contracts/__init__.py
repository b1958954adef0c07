"""What the services say to each other: stored events, bus messages, live frames, subjects and error codes.

Everything here is a value or a pure function; `wire` is the only place where one becomes bytes.
"""
