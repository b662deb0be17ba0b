"""Messages, and the steps of runs and calls in handlers that wait for them."""
