"""HTTP steps: requests, redirects, limits, and the guard against internal addresses."""
