"""Conversations moved between installations.

- `file_format`: the file, JSON lines; `moving`: out of the log, and into a store
"""
