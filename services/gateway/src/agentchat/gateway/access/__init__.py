"""Who may ask what: keys, the plan's limits, and the order in which requests are checked (`checks`)."""
