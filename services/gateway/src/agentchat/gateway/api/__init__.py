"""Our own API next to chats: conversations, feedback, approvals, webhooks, runs that were begun before."""
