"""Webhook endpoints of accounts, and a row for each delivery: written by the projector, sent by notifiers."""
