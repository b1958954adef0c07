"""Deliveries from the queue of requests.

`inbox` handles them, `put_back` delays those that cannot be handled now, `exhausted_deliveries` ends hopeless
ones.
"""
