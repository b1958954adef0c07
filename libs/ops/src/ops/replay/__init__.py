"""`agentchat replay`: work on the log: conversations as they were, moved, rebuilt, asked anew.

One module a command, and `commands`, which puts them together.
"""
