"""Templates: {{...}} in URLs, headers, commands and values."""
