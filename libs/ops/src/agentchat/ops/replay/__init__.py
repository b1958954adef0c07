"""`agentchat replay`: inspects, exports and replays conversations; rebuilds read models and the feed."""
