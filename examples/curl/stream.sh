#!/bin/sh
# Show the events of a stream as they come. -N: curl must not hold them back.
set -eu

curl -N -sS --fail-with-body "$BASE_URL/v1/chat/stream" \
  -H "X-Api-Key: $API_KEY" \
  -H "X-Agent-Id: $AGENT_ID" \
  -H "Content-Type: application/json" \
  -d '{"message": "Where is order ORD-1006, and what else would suit customer CUST-001?"}'
