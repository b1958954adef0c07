"""What a chat costs: next to hand-written baselines (`make bench`), and counted (`make bench-counts`)."""
