"""Side effects: runs handlers, HTTP requests and commands, and returns an `Outcome` instead of raising."""
