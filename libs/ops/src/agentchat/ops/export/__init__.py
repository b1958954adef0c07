"""The commands of `agentchat export`."""
