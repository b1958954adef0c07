"""The tools that servers list: `listing` answers `chat.tools.list` and `chat.tools.check`, `server_tool`
and `input_schemas` make what a server lists fit for model providers.
"""
