"""Provide what every request has: a trace, a strictly decoded body, and one form of refusal."""
