"""Serve our own API next to chats: conversations, feedback, approvals, webhooks, runs started earlier."""
