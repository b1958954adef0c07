"""What pages show as it happens: one look, one subscription and one rendering for all browsers."""
