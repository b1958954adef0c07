"""`agentchat bench`: added latency, many paced streams, and memory, measured against a running system.

The client reads raw sockets so that it costs little beside what it measures: both share the machine.
"""
