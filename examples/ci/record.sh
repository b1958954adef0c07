#!/bin/sh
# Make the suite again, on a new stack of `agentchat up` without a provider's key. It changes the demo's agent.
set -eu
cd "$(dirname "$0")"

agentchat admin agents change "$AGENT_ID" system_prompt=@file:prompt.txt > /dev/null
shop="/agents/$AGENT_ID/mcp_servers/demo-shop"
allowed='["track_shipment", "get_order", "get_product", "search_products", "cancel_order"]'
agentchat admin GET "$shop" --json | jq "del(.name, .header_names) | .allowed_tools = $allowed" |
  agentchat admin PUT "$shop" @- > /dev/null
began=$(date -u +%Y-%m-%dT%H:%M:%SZ)
while read -r question; do
  curl -sS --fail-with-body "$BASE_URL/v1/chat" -H "X-Api-Key: $API_KEY" -H "X-Agent-Id: $AGENT_ID" \
    -H "Content-Type: application/json" -d "{\"message\": \"$question\"}" > /dev/null
done < questions.txt
agentchat eval collect --output suite --agent "$AGENT_ID" --from "$began" --replace
