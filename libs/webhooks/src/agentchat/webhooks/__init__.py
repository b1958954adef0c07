"""Webhook endpoints of accounts and the queue of their deliveries.

`delivery_projection` inserts a row with its body for each event that an endpoint wants, `sender` sends
what is due, `endpoints` and `deliveries` are what the API and the console call. A projector runs the first
two.
"""
