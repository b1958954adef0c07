"""`agentchat admin`: the table of `administration.routes` as commands.

`commands` is the table of commands, from which `making` makes them with the options of `fields`; `api` calls
what is behind a route, over HTTP or by the library; `printing` says what came of it. `usage`, `files` and
`secrets` are those commands that are more than a route.
"""
