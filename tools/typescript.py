"""Builds the TypeScript SDK (sdk/typescript) and runs its tests: `make sdk-typescript`, `make sdk-typescript-test`.

Without Node 20 it prints a notice; where CI is set, that is a failure.
"""

import os
import shutil
import sys

import hatch_build

SDK = hatch_build.ROOT / "sdk/typescript"
DRIVER = SDK / "dist/contract/driver.js"
NODE = (20,)
NO_NODE = "there is no Node 20 or later: the TypeScript SDK is neither built nor tested"


def node() -> str | None:
    """Return the path of Node if it is recent enough."""
    path = shutil.which("node")
    return path if path is not None and hatch_build.node_version(path) >= NODE else None


def build() -> None:
    """Compile the SDK, its tests and its driver for the contract suite, unless the last build is fresh."""
    npm, environment = [shutil.which("npm") or "npm"], dict(os.environ)
    if not hatch_build.is_installed(SDK):
        hatch_build.run([*npm, "ci", "--ignore-scripts"], SDK, environment)
    if not is_fresh():
        hatch_build.run([*npm, "run", "build"], SDK, environment)


def is_fresh() -> bool:
    """Return whether nothing has changed since the last build."""
    built = SDK / "dist/.built"
    folders = ("src", "test", "contract", "bench", "scripts")
    sources = [path for folder in folders for path in (SDK / folder).rglob("*") if "generated" not in path.parts]
    sources += [*SDK.glob("*.json"), SDK.parent / "openapi.json"]
    return built.exists() and max(path.stat().st_mtime for path in sources) <= built.stat().st_mtime


def test() -> None:
    """Run the tests that need no Windlass server; those that do are run by tests/sdk."""
    build()
    hatch_build.run([shutil.which("npm") or "npm", "test"], SDK, dict(os.environ))


def main(task: str) -> int:
    if node() is None:
        sys.stdout.write(f"notice: {NO_NODE}\n")
        return 1 if os.environ.get("CI") else 0
    try:
        {"build": build, "test": test}[task]()
    except RuntimeError as failure:
        sys.stderr.write(f"{failure}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
