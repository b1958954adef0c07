"""Read models, each in a file of its own.

Tables that are derived from the log and can be rebuilt from it. A projection names its tables, and applies
facts of the log to them; `read_model_follower` feeds it.
"""
