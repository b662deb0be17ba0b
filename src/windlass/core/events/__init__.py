"""Events and inbound requests: cursors, webhooks, subscriptions, request bodies."""
