"""OAuth 2.1 for tool servers, as MCP has it: `authorization_links` leads an administrator to the server and
takes the answer, `tokens` has the access token of one agent at one server, refreshed under one lock for all
workers.
"""
