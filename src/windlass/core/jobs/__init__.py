"""The rules of a job: its states, specification, retries and rate limits."""
