"""`agentchat chat`: a terminal client, on `agentchat_client` alone. Piped lines work too."""
