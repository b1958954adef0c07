"""List and check the tools of agents.

`listing` answers `chat.tools.list` and `chat.tools.check`. `server_tool` and `input_schemas` adapt a server's
tools to the rules of model providers.
"""
