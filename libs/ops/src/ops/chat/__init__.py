"""`agentchat chat`: a terminal client, on `agentchat_client` alone. Lines that are piped in work as well.

The parts in the order in which a message meets them: `target`, `prompt`, `slash`, `reply`, `writing`.
"""
