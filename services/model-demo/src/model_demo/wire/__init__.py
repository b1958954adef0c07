"""Anthropic's Messages protocol as this server speaks it: requests, replies, stream events, errors, usage.

The source of every field is the API reference (platform.claude.com/docs/en/api/messages) and the types of
the official Python SDK 2.11.
"""
