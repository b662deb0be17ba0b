"""The routes of /api/v1. They parse requests, call the engine and render results, without domain rules and SQL."""
