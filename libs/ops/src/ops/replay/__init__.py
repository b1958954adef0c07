"""`agentchat replay`: shows, moves, verifies and replays conversations; rebuilds read models and the feed."""
