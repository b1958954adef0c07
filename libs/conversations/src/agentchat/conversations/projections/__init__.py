"""What is derived from the log and can be rebuilt from it: read models, each in a file of its own.

A projection names its tables and its version, and applies facts of the log to them; `follower` feeds it.
"""
