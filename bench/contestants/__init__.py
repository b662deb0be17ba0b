"""One module for each contestant; each verb (prepare, drain, submit, latency) runs in a process of its own."""
