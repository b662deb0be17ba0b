"""The rules of a job: its states, specification, retries and limits."""
