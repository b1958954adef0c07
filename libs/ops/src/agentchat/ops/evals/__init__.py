"""Provide `agentchat eval`: recorded runs as a regression suite."""
