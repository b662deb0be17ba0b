"""Workflows of the Open Job Spec over HTTP: chain, group and batch."""
