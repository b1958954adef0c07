"""Runs that are followed: frames in, updates for a reader out, bytes on his connection.

`registry` opens and closes them, `fanout` has one subscription a trace, `live_run` is a run with one reader,
`view` makes updates of frames, `progress` is what a reader has, `run_reader` reads the log, `event_stream`
writes server-sent events and pings.
"""
