"""Runs the model loop and writes the conversation: requests in, events in the log, live frames out.

Read `turn_loop` first; `inbox` says what can become of a request, `run` what an attempt at it does,
`perform` how each step is done.
"""
