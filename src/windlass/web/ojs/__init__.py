"""The Open Job Spec face, /ojs/v1: OJS words in, engine calls, OJS words out. No rules and no SQL of its own."""
