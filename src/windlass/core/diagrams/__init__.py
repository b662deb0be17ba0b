"""Diagrams of workflows and runs."""
