"""`agentchat replay`: inspects and replays conversations; rebuilds read models and the feed."""
