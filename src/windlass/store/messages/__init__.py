"""Messages, and the places in runs and handlers that wait for them."""
