"""Launchers of other packages are found by their entry points."""

from pathlib import Path

import pytest

from windlass.effects.launchers import PoolOptions, open_launcher
from windlass.errors import Invalid

MODULE = """
def open_launcher(pool):
    return ("a launcher of paper", pool.name, pool.options["size"])
"""


def test_a_launcher_of_another_package_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = tmp_path / "windlass_paper-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: windlass-paper\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text("[windlass.launchers]\npaper = windlass_paper:open_launcher\n")
    (tmp_path / "windlass_paper.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    launcher: object = open_launcher(PoolOptions(name="desk", launcher="paper", options={"size": "A4"}))
    assert launcher == ("a launcher of paper", "desk", "A4")


def test_an_unknown_launcher_is_refused_with_the_list_of_launchers() -> None:
    with pytest.raises(Invalid, match="no launcher 'stone'; there are subprocess, kubernetes, ray, dask") as refused:
        open_launcher(PoolOptions(name="desk", launcher="stone"))
    assert refused.value.field == "launcher"
