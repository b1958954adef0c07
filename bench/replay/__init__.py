"""`make bench-replay`: what the log's readers can do, as a table of goals and results. Asserts nothing."""
