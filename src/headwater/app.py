"""App: builds the store, the network and the services; no other module constructs them."""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from pathlib import Path
from random import Random, SystemRandom
from typing import TYPE_CHECKING, TypeVar

from headwater import __version__
from headwater.clock import Clock, SystemClock
from headwater.errors import ConfigError, Stopping
from headwater.model import SealedSecret, SourceType, Subject
from headwater.operations.users_and_podcasts import key_of
from headwater.rules.policy import Policy
from headwater.settings import Settings, policy_from
from headwater.settings.value_types import sqlite_file
from headwater.store import Store, open_database
from headwater.store.webhooks import OWNER

# Fetchers, parsers and engines take half a second to import, and most commands need none of
# them: they are imported by the methods that build them.
if TYPE_CHECKING:
    from headwater.engine.cluster.remote_service import RemoteService
    from headwater.engine.cluster.worker import ClusterWorker
    from headwater.engine.engine import Engine, Pace
    from headwater.engine.followers import Followers
    from headwater.engine.hosts.access import HostAccess
    from headwater.engine.local_service import LocalService
    from headwater.engine.notifier import Notifier
    from headwater.engine.service import Service
    from headwater.engine.visitor_service import VisitorService
    from headwater.fetch.fetcher import Fetcher
    from headwater.fetch.net.apprise_targets import AppriseTargets
    from headwater.fetch.net.dns import SystemResolver
    from headwater.fetch.net.http_client import Client
    from headwater.fetch.net.limits import Limits
    from headwater.fetch.net.smtp import Mailer
    from headwater.fetch.pool.parser_pool import ParserPool
    from headwater.operations.add_source import Additions, OpenVisitor
    from headwater.operations.opml_import import Imports
    from headwater.operations.preview import Previewer, Previews
    from headwater.operations.rate_limits import VisitLimits
    from headwater.vault import MasterKeys, Vault

AnEngine = TypeVar("AnEngine", bound="Engine")
Running = TypeVar("Running", bound="Service")
_MOST_PARSERS = 4  # whatever the number of cores: each may need much memory (H1)


@dataclass(frozen=True, slots=True)
class Network:
    """The parts that fetch sources."""

    parsers: "ParserPool"
    fetcher: "Fetcher"
    names: "SystemResolver"
    messages: "Client"  # for webhooks


@dataclass
class App:
    """The program with its settings: a store, and on demand a network and a service."""

    settings: Settings
    store: Store
    clock: Clock
    policy: Policy
    rng: Random = field(default_factory=SystemRandom)
    serves_dashboard: bool = False  # in this process
    _network: Network | None = None  # of the running service

    @cached_property
    def vault(self) -> "Vault":
        """Encrypts and decrypts API keys; the master key is created when first needed."""
        return self.master_keys.vault()

    @property
    def master_keys(self) -> "MasterKeys":
        """The master keys that API keys are encrypted with."""
        from headwater.vault import MasterKeys

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
        """Open the parts that fetch sources, and close them at the end."""
        from headwater.fetch.fetcher import Fetcher
        from headwater.fetch.net.dns import SystemResolver
        from headwater.fetch.net.http_client import Client

        async with (
            SystemResolver() as names,
            Client(limits_from(self.settings), names=names) as client,
            Client(message_limits_from(self.settings), names=names) as messages,
            self._new_parsers() as parsers,
        ):
            x_base_url = self.settings.x.base_url
            fetcher = Fetcher(client, parsers, x_base_url=x_base_url, policy=self.policy)
            yield Network(parsers, fetcher, names, messages)

    @cached_property
    def previews(self) -> "Previews":
        """Previews of all users, with a limit for each user (U8)."""
        from headwater.operations.preview import Previews

        return Previews(self.key_for, self.clock, most=self.settings.limits.max_previews_per_user)

    @cached_property
    def additions(self) -> "Additions":
        """Adds single sources, for every interface (J1-J3)."""
        from headwater.operations.add_source import Additions

        most = self.settings.limits.max_sources_per_user
        allowed = self.settings.fetch.allow_private_networks
        return Additions(self.store, self.clock, self.policy, self.previews, most, allowed)

    @cached_property
    def visit_limits(self) -> "VisitLimits":
        """Limits for manual polls and previews by users (Y8)."""
        from headwater.operations.rate_limits import VisitLimits

        return VisitLimits(self.clock)

    @cached_property
    def imports(self) -> "Imports":
        """OPML imports of all users."""
        from headwater.operations.opml_import import Imports

        most = self.settings.limits.max_sources_per_user
        allowed = self.settings.fetch.allow_private_networks
        return Imports(self.store, self.clock, self._parsers, most=most, allowed=allowed)

    def _parsers(self) -> AbstractAsyncContextManager["ParserPool"]:
        """The parsers of the running service, else temporary ones."""
        if self._network is not None:
            return nullcontext(self._network.parsers)
        return self._new_parsers()

    def _new_parsers(self) -> "ParserPool":
        from headwater.fetch.pool.parser_pool import ParserPool

        fetch = self.settings.fetch
        return ParserPool(
            timeout_seconds=fetch.parse_timeout_seconds,
            memory_mb=fetch.parse_memory_mb,
            processes=min(max(available_cores(), 2), _MOST_PARSERS),
            spare_core=available_cores() > 1,
            clock=self.clock,
        )

    def previewer(self, service: "Service") -> "Previewer":
        """What visits URLs on behalf of a running service, with its network and its gates."""
        if self._network is None:
            raise Stopping("the service does not run")
        return self._previewer(self._network, service.hosts)

    def visitor_for(self, service: "Service", user_id: str | None) -> "OpenVisitor":
        """Opens what visits a URL on behalf of a caller; TooMany beyond the limits (Y8)."""

        def opened(url: str) -> AbstractAsyncContextManager["Previewer"]:
            self.visit_limits.check_visit(user_id, url)
            return nullcontext(self.previewer(service))

        return opened

    @asynccontextmanager
    async def visitor(self) -> AsyncIterator["Previewer"]:
        """What visits URLs on behalf of a command, beside the process that polls the database."""
        from headwater.engine.hosts.visitors import visitor_access

        async with (
            self.network() as network,
            visitor_access(self.store, self.clock, self.policy) as hosts,
        ):
            yield self._previewer(network, hosts)

    def _previewer(self, network: Network, hosts: "HostAccess") -> "Previewer":
        from headwater.operations.preview import Previewer

        return Previewer(network.fetcher, network.parsers, hosts, self.clock, self.policy)

    def service(self) -> AbstractAsyncContextManager["LocalService"]:
        """Open the service that polls this database; AlreadyPolling if another one does."""
        from headwater.engine.local_service import LocalService

        return self._running(lambda network: self._engine(LocalService, network))

    def remote_service(self) -> AbstractAsyncContextManager["RemoteService"]:
        """Open a service that does not poll: workers do."""
        from headwater.engine.cluster.remote_service import RemoteService

        paused = self.settings.source.paused
        service = RemoteService(self.store, self.clock, self.policy, paused=paused)
        return self._running(lambda _: service)

    def visitor_service(self) -> AbstractAsyncContextManager["VisitorService"]:
        """Open a service that does not poll, beside the process that polls the database."""
        from headwater.engine.visitor_service import VisitorService

        paused, followers = self.settings.source.paused, self.followers
        service = VisitorService(self.store, self.clock, self.policy, followers, paused=paused)
        return self._running(lambda _: service)

    def worker(self) -> AbstractAsyncContextManager["ClusterWorker"]:
        """Open one of the workers that poll this database."""
        from headwater.engine.cluster.worker import ClusterWorker

        return self._running(lambda network: self._engine(ClusterWorker, network))

    def _engine(self, kind: type[AnEngine], network: Network) -> AnEngine:
        from headwater.engine.followers import all_followers
        from headwater.engine.webhooks import Deliverer

        return kind(
            store=self.store,
            fetch=network.fetcher,
            find_feeds=network.fetcher.feed_links,
            key_for=self.key_for,
            clock=self.clock,
            policy=self.policy,
            pace=pace_from(self.settings),
            rng=self.rng,
            followers=all_followers(),
            deliverer=partial(
                Deliverer,
                self.store,
                self.clock,
                self.rng,
                network.messages.post,
                self.open_webhook_secret,
                notifier=self.notifier(network),
            ),
        )

    def notifier(self, network: Network | None = None) -> "Notifier":
        """What sends messages to channels, with the network of the running service (Y3)."""
        from headwater.engine.notifier import Notifier

        network = network or self._network
        if network is None:
            raise Stopping("the service does not run")
        return Notifier(
            self.store,
            self.clock,
            network.messages.post,
            self.open_webhook_secret,
            _mailer_from(self.settings),
            _apprise_from(self.settings),
            dashboard=self.settings.server.dashboard_url(serves=self.serves_dashboard),
        )

    def open_webhook_secret(self, sealed: SealedSecret, webhook_id: str) -> str:
        """The secret of a webhook, decrypted."""
        return self.vault.open(sealed, user_id=OWNER, provider=webhook_id)

    @cached_property
    def followers(self) -> "Followers":
        """The followers of stored posts, for commands that need what they make."""
        from headwater.engine.followers import Followers, all_followers

        return Followers(self.store, self.clock, all_followers())

    @asynccontextmanager
    async def _running(self, make: Callable[[Network], Running]) -> AsyncIterator[Running]:
        """Open the network, and what uses it; its metrics count both."""
        async with self.network() as network:
            self._network = network
            running = make(network)
            metrics = running.metrics
            self.store.on_commit = metrics.committed
            network.parsers.on_kill = metrics.parse_killed
            network.names.on_lookup = metrics.names.note
            async with running, metrics.watching_loop():
                yield running


@asynccontextmanager
async def open_app(
    settings: Settings,
    *,
    clock: Clock | None = None,
    program: str = "headwater",
    creates: bool = True,
    upgrades: bool = False,
) -> AsyncIterator[App]:
    """Open the database, and close it at the end.

    `creates`: a missing database and its tables are created; else ConfigError or SchemaTooOld.
    `upgrades`: an older schema is upgraded; else SchemaTooOld (K7).
    """
    clock = clock or SystemClock()
    if not creates:
        _refuse_missing(settings)
    async with open_store(settings, clock=clock, program=program) as store:
        await store.prepare(creates=creates, upgrades=upgrades)
        yield App(settings, store, clock, policy_from(settings))


def _refuse_missing(settings: Settings) -> None:
    """Raise ConfigError if there is no SQLite file, which opening would create."""
    file = settings.database_file
    if file is not None and not file.exists():
        origin = settings.origins.get("app.database-url", "default")
        raise ConfigError(
            f"there is no database {file.absolute()} (app.database-url, {origin}); call this in "
            "the directory of the service or give --database-url; `headwater serve` and "
            "`headwater add URL` create a new one",
            field="app.database-url",
        )


@asynccontextmanager
async def open_store(
    settings: Settings, *, clock: Clock, program: str = "headwater"
) -> AsyncIterator[Store]:
    """Open the database without migrating its schema, and close it at the end."""
    async with Store(open_database(settings.database_url, program), clock) as store:
        yield store


def pace_from(settings: Settings) -> "Pace":
    """The settings of the engine itself."""
    from headwater.engine.engine import Pace

    return Pace(
        tick_seconds=settings.source.tick_seconds,
        shutdown_seconds=settings.shutdown_seconds,
        slots=settings.fetch.max_connections,
        paused=settings.source.paused,
        lease_seconds=settings.cluster.lease_seconds,
    )


def limits_from(settings: Settings) -> "Limits":
    """The limits of the HTTP client, from the settings."""
    from headwater.fetch.net.limits import Limits

    user_agent = f"Headwater/{__version__} (+{settings.fetch.user_agent_contact})"
    configured = dict(settings.fetch)  # by the names of the limits
    names = [one.name for one in fields(Limits) if one.name in configured]
    return Limits(user_agent, **{name: configured[name] for name in names})


def message_limits_from(settings: Settings) -> "Limits":
    """The limits of the HTTP client that sends messages of webhooks (V2)."""
    return replace(
        limits_from(settings),
        connect_timeout_seconds=5,
        read_timeout_seconds=15,
        total_timeout_seconds=15,
    )


def _mailer_from(settings: Settings) -> "Mailer | None":
    """What sends e-mails; None if no mail server is configured (Y3)."""
    from headwater.fetch.net.smtp import Mailer, MailServer

    mail = settings.mail
    if mail.host is None or mail.sender is None:
        return None
    password = None if mail.password is None else mail.password.get_secret_value()
    return Mailer(MailServer(mail.host, mail.sender, mail.port, mail.tls, mail.username, password))


def _apprise_from(settings: Settings) -> "AppriseTargets | None":
    """The Apprise targets of the configuration; ConfigError if they cannot be used (Y3)."""
    from headwater.fetch.net.apprise_targets import AppriseTargets

    urls = [url.get_secret_value() for url in settings.notify.apprise_urls]
    return AppriseTargets(urls) if urls else None


def master_key_file(database_url: str) -> Path:
    """The key file: beside a SQLite file, else in the data folder."""
    path = sqlite_file(database_url)
    if path is not None:
        return path.with_name(f"{path.name}.key")
    return Path("data") / "headwater.key"


def available_cores() -> int:
    """The number of processor cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not available on every system
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
