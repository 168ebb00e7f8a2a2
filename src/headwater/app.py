"""App: builds everything once and hands it out; nothing else constructs a Store or a client."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from random import Random, SystemRandom
from typing import TYPE_CHECKING, TypeVar

from headwater import __version__
from headwater.clock import Clock, SystemClock
from headwater.engine.engine import Engine, Pace
from headwater.engine.service import Service
from headwater.errors import Stopping
from headwater.fetch.fetcher import Fetcher
from headwater.fetch.limits import Limits
from headwater.fetch.parsers import Parsers
from headwater.model import SourceType, Subject
from headwater.operations.people import key_of
from headwater.operations.preview import Previewer, Previews
from headwater.operations.subscriptions import Imports
from headwater.rules.policy import Policy
from headwater.settings import Settings, policy_from
from headwater.store import Store, open_database
from headwater.vault import MasterKeys, Vault

if TYPE_CHECKING:  # as with the HTTP library: loaded by whoever visits somebody
    from headwater.engine.cluster import ClusterWorker
    from headwater.fetch.names import SystemNames

AnEngine = TypeVar("AnEngine", bound=Engine)
_KEY_FILE = "headwater.key"
_MOST_PARSERS = 4  # on however many cores: each may take much memory for a while (H1)


@dataclass(frozen=True, slots=True)
class Network:
    """What visits sources."""

    parsers: Parsers
    fetcher: Fetcher
    names: "SystemNames"


@dataclass
class App:
    """The program with its settings: a store, and on demand a network and a service."""

    settings: Settings
    store: Store
    clock: Clock
    policy: Policy
    rng: Random = field(default_factory=SystemRandom)
    _network: Network | None = None  # of the service that runs

    @cached_property
    def vault(self) -> Vault:
        """Opens and seals API keys; the master key is made when first needed."""
        return self.master_keys.vault()

    @property
    def master_keys(self) -> MasterKeys:
        """Where the keys are that API keys are sealed with."""
        encryption = self.settings.encryption
        given = encryption.master_key
        return MasterKeys(
            master_key_file(self.settings.database_url),
            given=None if given is None else given.get_secret_value(),
            older=tuple(key.get_secret_value() for key in encryption.old_master_keys),
        )

    async def key_for(self, subject: Subject) -> str | None:
        """The API key that a source needs: its owner's, for X (X1)."""
        if subject.source.type is not SourceType.TWITTER:
            return None
        return await key_of(self.store, lambda: self.vault, subject.user_id, "x")

    @asynccontextmanager
    async def network(self) -> AsyncIterator[Network]:
        """Open what visits sources, and close it again."""
        # the HTTP library takes half a second to load: commands that visit nobody do without
        from headwater.fetch.http import Client
        from headwater.fetch.names import SystemNames

        x_base_url = self.settings.x.base_url
        limits = limits_from(self.settings)
        async with (
            SystemNames() as names,
            Client(limits, self.clock, names=names) as client,
            self._new_parsers() as parsers,
        ):
            fetcher = Fetcher(client, parsers, x_base_url=x_base_url, policy=self.policy)
            yield Network(parsers, fetcher, names)

    @cached_property
    def previews(self) -> Previews:
        """Previews for everybody, however they ask: one share for each user (U8)."""
        return Previews(self.key_for, self.clock, most=self.settings.limits.max_previews_per_user)

    @cached_property
    def imports(self) -> Imports:
        """Imports of subscription lists for everybody, however they ask."""
        most = self.settings.limits.max_sources_per_user
        return Imports(self.store, self.clock, self._parsers, most=most)

    @asynccontextmanager
    async def _parsers(self) -> AsyncIterator[Parsers]:
        """The parsers of the service that runs, else some for the moment."""
        if self._network is not None:
            yield self._network.parsers
            return
        async with self._new_parsers() as parsers:
            yield parsers

    def _new_parsers(self) -> Parsers:
        fetch = self.settings.fetch
        return Parsers(
            timeout_seconds=fetch.parse_timeout_seconds,
            memory_mb=fetch.parse_memory_mb,
            processes=min(max(_cores(), 2), _MOST_PARSERS),
            spare_core=_cores() > 1,
            clock=self.clock,
        )

    def previewer(self, service: Service) -> Previewer:
        """What visits URLs on behalf of a running service: its network, its gates."""
        if self._network is None:
            raise Stopping("the service does not run")
        fetcher, parsers = self._network.fetcher, self._network.parsers
        return Previewer(fetcher, parsers, self.store, self.clock, self.policy, service)

    @asynccontextmanager
    async def service(self) -> AsyncIterator[Service]:
        """Open the service that polls this database; AlreadyPolling if another one does."""
        async with self._engine(Service) as service:
            yield service

    @asynccontextmanager
    async def onlooker(self) -> AsyncIterator[Service]:
        """Open a service that leaves polling to workers."""
        from headwater.engine.onlooker import Onlooker

        async with self._engine(Onlooker) as service:
            yield service

    @asynccontextmanager
    async def worker(self) -> AsyncIterator["ClusterWorker"]:
        """Open one of several workers that poll this database together."""
        # the queue of jobs takes a while to load, and only workers have one
        from headwater.engine.cluster import ClusterWorker

        async with self._engine(ClusterWorker) as worker:
            yield worker

    @asynccontextmanager
    async def _engine(self, kind: type[AnEngine]) -> AsyncIterator[AnEngine]:
        pace = Pace(
            tick_seconds=self.settings.source.tick_seconds,
            shutdown_seconds=self.settings.shutdown_seconds,
            slots=self.settings.fetch.max_connections,
            paused=self.settings.source.paused,
            lease_seconds=self.settings.cluster.lease_seconds,
            shards=self.settings.cluster.concurrency,
        )
        async with self.network() as network:
            self._network = network
            engine = kind(
                store=self.store,
                fetch=network.fetcher,
                key_for=self.key_for,
                clock=self.clock,
                policy=self.policy,
                pace=pace,
                rng=self.rng,
            )
            metrics = engine.metrics
            self.store.on_commit = metrics.committed
            network.parsers.on_kill = metrics.parse_killed
            network.names.on_lookup = metrics.names.note
            async with engine, metrics.watching_loop():
                yield engine


@asynccontextmanager
async def open_app(settings: Settings, *, clock: Clock | None = None) -> AsyncIterator[App]:
    """Open the database, bring its schema up to date, and close it in the end."""
    clock = clock or SystemClock()
    async with open_store(settings, clock=clock) as store:
        await store.prepare()
        yield App(settings, store, clock, policy_from(settings))


@asynccontextmanager
async def open_store(settings: Settings, *, clock: Clock) -> AsyncIterator[Store]:
    """Open the database as it is, its schema included, and close it in the end."""
    async with Store(open_database(settings.database_url), clock) as store:
        yield store


def limits_from(settings: Settings) -> Limits:
    """How far a visit may go, from the settings."""
    fetch = settings.fetch
    return Limits(
        user_agent=f"Headwater/{__version__} (+{fetch.user_agent_contact})",
        connect_timeout_seconds=fetch.connect_timeout_seconds,
        read_timeout_seconds=fetch.read_timeout_seconds,
        total_timeout_seconds=fetch.total_timeout_seconds,
        max_body_bytes=fetch.max_body_bytes,
        max_redirects=fetch.max_redirects,
        max_connections=fetch.max_connections,
        allow_private_networks=fetch.allow_private_networks,
        proxy=fetch.proxy,
    )


def master_key_file(database_url: str) -> Path:
    """The master key lies beside a SQLite file, else in the data folder."""
    if database_url.startswith("sqlite:///"):
        path = Path(database_url.removeprefix("sqlite:///"))
        return path.with_name(f"{path.name}.key")
    return Path("data") / _KEY_FILE


def _cores() -> int:
    """How many processor cores this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not every system tells
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
