"""Compositions (chains, groups, batches, graphs) of the Open Job Spec, executed as runs of hidden workflows."""
