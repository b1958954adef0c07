"""/v1/conversations: conversations are read back, described, forked and deleted."""
