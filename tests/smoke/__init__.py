"""`python -m tests.smoke`: a dozen checks of the complete system against the real providers."""
