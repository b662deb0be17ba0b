"""What attempts leave behind: artifacts and streams."""
