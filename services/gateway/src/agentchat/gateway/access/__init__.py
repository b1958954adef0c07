"""Decide whether a request may pass: keys, limits of the plan. The order of the checks is in `checks`."""
