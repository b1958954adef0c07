"""Anthropic's Messages API. Nothing else imports `anthropic`."""
