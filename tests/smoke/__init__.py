"""`make smoke`: a dozen checks of the complete system against the real providers."""
