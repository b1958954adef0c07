"""What other processes ask by request and reply.

- `conversation_commands`: what else writes to conversations: `erasing`, `record_decision`, `fork_command`
- `model_check`: makes one model call of an agent
- `what_if`: does a recorded run again, with tools and sources out of its record (`recorded`)
"""
