"""Outputs of attempts: artifacts and streams."""
