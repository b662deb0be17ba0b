"""The dashboard at `/`: serves the build of `ui/`, which gets all its data from /api/v1."""
