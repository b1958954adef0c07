"""Measure what a chat costs: next to hand-written baselines (`make bench`), or counted (`bench-counts`)."""
