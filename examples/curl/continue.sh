#!/bin/sh
# Ask twice in one thread: the conversation_id of the first reply goes into the second request.
set -eu

ask() {
  curl -sS --fail-with-body "$BASE_URL/v1/chat" \
    -H "X-Api-Key: $API_KEY" \
    -H "X-Agent-Id: $AGENT_ID" \
    -H "Content-Type: application/json" \
    -d "$1"
}

first=$(ask '{"message": "Hello, my name is Ada.", "conversation_id": null}')
# With jq at hand: conversation=$(printf '%s' "$first" | jq -r .conversation_id)
conversation=$(printf '%s' "$first" | sed 's/^{"conversation_id":"\([^"]*\)".*/\1/')

ask "{\"message\": \"What is my name?\", \"conversation_id\": \"$conversation\"}"
echo
curl -sS --fail-with-body "$BASE_URL/v1/conversations/$conversation/messages" -H "X-Api-Key: $API_KEY"
echo
