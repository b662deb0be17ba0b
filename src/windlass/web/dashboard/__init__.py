"""The dashboard at `/`: serves what `ui/` was built into. Everything it shows it asks of /api/v1, like anybody else."""
