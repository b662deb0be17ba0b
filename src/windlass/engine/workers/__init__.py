"""Workers: the turns of Python workers, the protocol of HTTP workers, and the registry."""
