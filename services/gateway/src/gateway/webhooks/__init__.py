"""/v1/webhook_endpoints: an account's endpoints (`routes`), their deliveries, tests and replays."""
