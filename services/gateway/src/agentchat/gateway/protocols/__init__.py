"""Serve the protocols in which clients start runs: our own in `chat`, the others in a folder each.

A guard of `access.checks` has checked key, limits and body; the handler turns the body into a `RunRequest`,
starts the run, and encodes its updates.
"""
