"""Events and requests from outside: cursors, webhooks, subscriptions, bodies."""
