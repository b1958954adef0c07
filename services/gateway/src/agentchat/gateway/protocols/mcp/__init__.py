"""Agents as tools of the Model Context Protocol: POST /mcp/v1."""
