"""Runs that are followed: frames in, updates for readers out, bytes on their connections.

`followed_runs` is the table, `followed_run` one run in it, and a reader of one. `view` makes updates of
frames and of the log, `event_stream` sends them.
"""
