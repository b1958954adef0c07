"""The chain of hashes over each conversation's events, and the proof that nothing of it was changed.

- `links`: how an event is chained to the one before, as Postgres writes it and as it is verified
- `auditing`: every link of the log; `day_heads`: what the log had come to on a day, to be kept elsewhere
"""
