"""Webhook endpoints of accounts, and the queue of their deliveries.

In the order in which data moves: `delivery_projection` follows the log and inserts a row with its body for
each event that an endpoint subscribes to (`webhook_bodies`), `webhook_sender` sends what is due
(`delivery_attempt`, `retry_schedule`) and records it (`delivery_queue`, `endpoint_disabling`). `endpoints`
and `deliveries` are what the API and the console call. `projector.worker` runs the projection and the sender.
"""
