"""`agentchat tail`: the feed of stored events, live, a line each."""
