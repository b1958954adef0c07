"""`agentchat admin`: the command line's door to `administration`.

A module a group of commands. They import what they need when they run, so that `--help` stays quick; `reach`
finds the servers, `working` runs one piece of work on them, `show` prints what came of it.
"""
