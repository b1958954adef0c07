"""What other processes ask by request and reply.

- `commands`: what else writes to conversations: `erasing`, `describing`, `deciding`, `forking`
- `checking`: make one model call of an agent
- `what_if`: do a recorded run again, with tools and sources out of its record (`recorded`)
"""
