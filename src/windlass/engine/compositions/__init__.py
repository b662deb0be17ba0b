"""Chains, groups and batches of the Open Job Spec, stored as hidden workflows."""
