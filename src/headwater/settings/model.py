"""The settings as frozen values: every key with its type, range and default (G1)."""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    SecretBytes,
)

from headwater.model import SourceType
from headwater.rules.policy import HoldScope
from headwater.settings import values


def kebab(name: str) -> str:
    """The name of a field as a key of the file."""
    return name.replace("_", "-")


def _lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


# Upper ends keep every moment the rules compute within the calendar.
Flag = Annotated[bool, Field(strict=True)]
Count = Annotated[int, Field(strict=True, ge=1, le=1_000_000_000)]
Hours = Annotated[int, Field(strict=True, ge=1, le=1_000_000)]
HoursOrNone = Annotated[int, Field(strict=True, ge=0, le=1_000_000)]
Days = Annotated[int, Field(strict=True, ge=1, le=100_000)]
Port = Annotated[int, Field(strict=True, ge=0, le=65_535)]
Tick = Annotated[float, Field(strict=True, ge=1, le=1_000_000_000, allow_inf_nan=False)]
Seconds = Annotated[float, Field(strict=True, ge=1, le=86_400, allow_inf_nan=False)]
Lease = Annotated[float, Field(strict=True, ge=3, le=3600, allow_inf_nan=False)]
ShardCount = Annotated[int, Field(strict=True, ge=1, le=256)]
Delay = Annotated[float, Field(strict=True, ge=0, le=86_400, allow_inf_nan=False)]
Host = Annotated[str, AfterValidator(values.host)]
HostPattern = Annotated[str, AfterValidator(values.host_pattern)]
BindHost = Annotated[str, AfterValidator(values.bind_host)]
DatabaseUrl = Annotated[str, AfterValidator(values.database_url)]
Contact = Annotated[str, AfterValidator(values.contact)]
WebAddress = Annotated[str, AfterValidator(values.web_url)]
Proxy = Annotated[str, AfterValidator(values.proxy_url)]
PrivateNetworks = Annotated[bool | tuple[values.Network, ...], BeforeValidator(values.networks)]
MasterKey = Annotated[SecretBytes, BeforeValidator(values.master_key)]


class LogFormat(StrEnum):
    """How log lines look."""

    TEXT = "text"
    JSON = "json"


class LogLevel(StrEnum):
    """The least a log line must matter to be written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Section(BaseModel):
    """A group of keys: frozen, and closed to keys nobody knows."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=kebab,
        validate_by_alias=True,
        validate_by_name=True,
        hide_input_in_errors=True,
    )


class ServerSettings(Section):
    """Where API and dashboard listen."""

    host: BindHost = "127.0.0.1"
    port: Port = 8420
    allowed_hosts: tuple[Host, ...] = ()


class HostOverrideSettings(Section):
    """What is set for one host, or for all hosts below one; None: nothing."""

    poll_delay_seconds: Delay | None = None
    hold_scope: HoldScope | None = None


class SourceSettings(Section):
    """How sources are polled and how long posts are kept."""

    paused: Flag = False
    tick_seconds: Tick = 60
    max_article_age_days: Days = 7
    max_failures: Count = 5
    max_backoff_hours: Hours = 24
    late_entry_hours: HoursOrNone = 0
    processed_retention_days: Days | None = None
    poll_history_days: Days = 14
    poll_delay_seconds: Mapping[SourceType, Delay | None] = {}
    host_overrides: Mapping[HostPattern, HostOverrideSettings] = {}
    aggregate_hosts: tuple[Host, ...] = ("nitter.net",)


class FetchSettings(Section):
    """How the network half of a poll behaves, and its limits."""

    user_agent_contact: Contact = "https://headwater.example/bot"
    connect_timeout_seconds: Seconds = 10
    read_timeout_seconds: Seconds = 30
    total_timeout_seconds: Seconds = 60
    max_body_bytes: Count = 10_485_760
    max_redirects: Annotated[int, Field(strict=True, ge=1, le=100)] = 5
    max_connections: Annotated[int, Field(strict=True, ge=1, le=65_535)] = 256
    allow_private_networks: PrivateNetworks = False
    proxy: Annotated[Proxy | None, Field(repr=False)] = None
    parse_timeout_seconds: Seconds = 10
    parse_memory_mb: Annotated[int, Field(strict=True, ge=1, le=1_048_576)] = 512


class XSettings(Section):
    """Where the X API is asked."""

    base_url: WebAddress = "https://api.x.com"


class EncryptionSettings(Section):
    """The key that stored secrets are sealed with; None: the one kept beside the database."""

    master_key: MasterKey | None = None
    old_master_keys: tuple[MasterKey, ...] = ()  # open what was sealed with them, seal nothing


class ClusterSettings(Section):
    """`app.cluster`: several workers on one PostgreSQL."""

    lease_seconds: Lease = 30
    concurrency: ShardCount = 256


class LogSettings(Section):
    """What log lines look like and which are written."""

    format: Annotated[LogFormat, BeforeValidator(_lower)] = LogFormat.TEXT
    level: Annotated[LogLevel, BeforeValidator(_lower)] = LogLevel.INFO


class LimitSettings(Section):
    """How much one request or one user may take (U8)."""

    max_request_bytes: Count = 16_777_216
    max_sources_per_user: Count = 100_000
    max_page_size: Annotated[int, Field(strict=True, ge=1, le=10_000)] = 500
    max_event_streams_per_user: Count = 10
    max_previews_per_user: Count = 4
    max_connections: Count = 1000
    max_connections_per_address: Count = 200


class Settings(Section):
    """Everything that can be configured, checked, with the origin of every value."""

    database_url: Annotated[DatabaseUrl, Field(repr=False)] = "sqlite:///data/headwater.db"
    server: ServerSettings = ServerSettings()
    shutdown_seconds: Seconds = 10
    source: SourceSettings = SourceSettings()
    fetch: FetchSettings = FetchSettings()
    x: XSettings = XSettings()
    encryption: EncryptionSettings = EncryptionSettings()
    cluster: ClusterSettings = ClusterSettings()
    log: LogSettings = LogSettings()
    limits: LimitSettings = LimitSettings()

    _origins: Mapping[str, str] = PrivateAttr(default_factory=dict)

    @property
    def origins(self) -> Mapping[str, str]:
        """Dotted key → `default`, the file, the variable, or `option`."""
        return self._origins

    @property
    def database_file(self) -> Path | None:
        """The file of a SQLite database, None for PostgreSQL."""
        return values.sqlite_file(self.database_url)
