"""The example pipeline, from its file to its report, on a real database."""

import asyncio
from pathlib import Path

from examples import pipeline

from windlass import Windlass
from windlass.effects.documents import read

ROOT = Path(__file__).parents[2]


async def test_the_pipeline_counts_the_words_of_a_folder(app: Windlass, tmp_path: Path) -> None:
    for n in range(6):
        (tmp_path / f"{n}.md").write_text("word " * n)
    for type_ in ("words.find.v1", "words.count.v1", "words.report.v1"):
        handler = pipeline.app.handlers.find(type_)
        assert handler is not None
        app.handlers.add(handler)
    await app.deploy(*read(ROOT / "examples" / "foreach-pipeline.yaml"))
    run = await app.start("foreach-pipeline", {"folder": str(tmp_path)})
    stop = asyncio.Event()
    working = asyncio.create_task(app.work(stop=stop))
    try:
        result = await run.wait(timeout=60)
    finally:
        stop.set()
        await working
    assert result.value == {"files": 6, "words": 15, "longest": {"file": str(tmp_path / "5.md"), "words": 5}}
