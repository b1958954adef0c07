"""Authorize agents at tool servers by OAuth 2.1, as MCP specifies it.

`authorization_links` sends an administrator to the authorization server and handles the callback. `tokens`
keeps the access token of an agent at a server and refreshes it under one lock for all workers.
"""
