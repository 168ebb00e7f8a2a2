"""An empty, migrated database of each kind: SQLite and PostgreSQL."""

import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from headwater.store import Store, open_database
from headwater.store.migrate import migrate
from headwater.store.sqlite import SqliteDatabase, SqliteSession
from tests.postgres import PostgresServer
from tests.store.store_data import StoreClock

BOTH = ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]


@pytest.fixture
def clock() -> StoreClock:
    """A clock that does not move and wakes sleepers at once."""
    return StoreClock()


@pytest.fixture(params=BOTH)
def kind(request: pytest.FixtureRequest) -> str:
    """Which database a test runs on."""
    return str(request.param)


@pytest.fixture
def new_url(kind: str, request: pytest.FixtureRequest) -> Callable[[], str]:
    """Creates a migrated, empty database of this kind at every call and returns its URL."""
    make: Callable[[], str] = request.getfixturevalue(f"new_{kind}")
    return make


@pytest.fixture
def url(new_url: Callable[[], str]) -> str:
    """A migrated, empty database."""
    return new_url()


@pytest.fixture
async def store(url: str, clock: StoreClock) -> AsyncIterator[Store]:
    """A store on a migrated, empty database."""
    async with Store(open_database(url), clock) as store:
        yield store


@pytest.fixture
def new_sqlite(sqlite_template: Path, tmp_path: Path) -> Callable[[], str]:
    """Copies the migrated file under a new name at every call."""
    folder = tmp_path / "databases"

    def make() -> str:
        folder.mkdir(exist_ok=True)
        path = folder / f"{len(list(folder.glob('*.db')))}.db"
        shutil.copyfile(sqlite_template, path)
        return f"sqlite:///{path}"

    return make


@pytest.fixture
def new_postgres(
    postgres_server: PostgresServer, postgres_template: str
) -> Iterator[Callable[[], str]]:
    """Copies the migrated database at every call; drops the copies at the end."""
    made: list[str] = []

    def make() -> str:
        made.append(postgres_server.new_database(postgres_template))
        return made[-1]

    yield make
    for url in made:
        postgres_server.drop(url)


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated, empty SQLite file to copy."""
    path = tmp_path_factory.mktemp("template") / "template.db"
    session = SqliteSession(path)
    migrate(session, SqliteDatabase.migrations)
    session.close()
    return path
