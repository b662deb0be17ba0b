"""The Open Job Spec API at /ojs/v1: translates between OJS and the engine, without domain rules and SQL."""
