"""What every request has, whatever it asks for: a trace, a strictly decoded body, and one form of refusal."""
