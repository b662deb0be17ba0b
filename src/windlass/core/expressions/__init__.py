"""The expression language of `if` and templates."""
