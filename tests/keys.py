"""The master key of the tests. It seals the secrets in their databases; the processes that they start inherit it."""

import base64
import os

from windlass.effects.vault import parse_master_keys

MASTER_KEY = os.environ.setdefault("WINDLASS_MASTER_KEY", base64.b64encode(bytes(range(32))).decode())
KEYS = parse_master_keys(MASTER_KEY)
