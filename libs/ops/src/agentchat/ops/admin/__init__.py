"""`agentchat admin`: any operation of the admin API, and commands for what people do every day."""
