"""Jobs: submit, control, queues, dead letters, checkpoints and limits."""
