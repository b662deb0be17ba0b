"""Schedules: of workflows, of the Open Job Spec, and of plain SQL."""
