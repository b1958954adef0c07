"""The projector: follows the log into the read models and into EVENTS, asks again for abandoned runs,
removes what is left of erased conversations, and rebuilds read models.

Up to 16 share the read models, by shards of accounts; one of them leads, and does what one does for all
(`shard_leases`).
"""
