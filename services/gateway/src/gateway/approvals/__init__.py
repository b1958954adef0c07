"""/v1/approvals: tool calls that a person has to allow, and the decisions about them."""
