#!/bin/sh
# Ask the agent and wait for the whole reply. curl waits as long as Retry-After says, or longer each time.
set -eu

curl -sS --fail-with-body --retry 2 "$BASE_URL/v1/chat" \
  -H "X-Api-Key: $API_KEY" \
  -H "X-Agent-Id: $AGENT_ID" \
  -H "Content-Type: application/json" \
  -H "Idempotency-Key: $(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')" \
  -d '{"message": "Where is order ORD-1006?"}'
echo
