"""Every configuration key with its type, range and default (G1), and the tree of all keys."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PrivateAttr,
    SecretBytes,
    SecretStr,
    TypeAdapter,
    ValidationInfo,
    field_validator,
)

from headwater.model import SourceType
from headwater.rules.addresses import is_loopback
from headwater.rules.policy import HoldScope
from headwater.settings import value_types


def _lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


def _off(value: object) -> object:
    return "off" if value is False else _lower(value)  # YAML reads `off` as false


# Upper limits keep every computed timestamp within the range of datetime.
Flag = Annotated[bool, Field(strict=True)]
Count = Annotated[int, Field(strict=True, ge=1, le=1_000_000_000)]
Hours = Annotated[int, Field(strict=True, ge=1, le=1_000_000)]
HoursOrZero = Annotated[int, Field(strict=True, ge=0, le=1_000_000)]
Days = Annotated[int, Field(strict=True, ge=1, le=100_000)]
Port = Annotated[int, Field(strict=True, ge=0, le=65_535)]
Tick = Annotated[float, Field(strict=True, ge=1, le=1_000_000_000, allow_inf_nan=False)]
Seconds = Annotated[float, Field(strict=True, ge=1, le=86_400, allow_inf_nan=False)]
Lease = Annotated[float, Field(strict=True, ge=3, le=3600, allow_inf_nan=False)]
Delay = Annotated[float, Field(strict=True, ge=0, le=86_400, allow_inf_nan=False)]
Host = Annotated[str, AfterValidator(value_types.host)]
HostPattern = Annotated[str, AfterValidator(value_types.host_pattern)]
BindHost = Annotated[str, AfterValidator(value_types.bind_host)]
DatabaseUrl = Annotated[str, AfterValidator(value_types.database_url)]
Contact = Annotated[str, AfterValidator(value_types.contact)]
WebAddress = Annotated[str, AfterValidator(value_types.web_url)]
Proxy = Annotated[str, AfterValidator(value_types.proxy_url)]
PrivateNetworks = Annotated[
    bool | tuple[value_types.Network, ...], BeforeValidator(value_types.networks)
]
ProxyNetwork = Annotated[value_types.Network, BeforeValidator(value_types.proxy_network)]
LogLevel = Literal["debug", "info", "warning", "error"]
EmailAddress = Annotated[str, AfterValidator(value_types.email)]
Line = Annotated[str, AfterValidator(value_types.line)]
HiddenText = Annotated[
    SecretStr,
    BeforeValidator(value_types.line),
    PlainSerializer(lambda _: "***", when_used="json"),
]
MasterKey = Annotated[
    SecretBytes,
    BeforeValidator(value_types.master_key),
    PlainSerializer(lambda _: "***", when_used="json"),
]


def secret(default: Any) -> Any:
    """A field whose value is never shown, and which can also be read from a file (U6)."""
    return Field(default, repr=False, json_schema_extra={"secret": True})


class Section(BaseModel):
    """A section: frozen, and unknown keys are errors."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=lambda name: name.replace("_", "-"),
        validate_by_alias=True,
        validate_by_name=True,
        hide_input_in_errors=True,
    )


class ServerSettings(Section):
    """Where API and dashboard listen."""

    host: BindHost = "127.0.0.1"
    port: Port = 8420
    allowed_hosts: tuple[Host, ...] = ()
    trusted_proxies: tuple[ProxyNetwork, ...] = ()
    access_log: Annotated[Literal["off", "json"], BeforeValidator(_off)] = "off"
    public_url: WebAddress | None = None

    def dashboard_url(self, *, serves: bool) -> str | None:
        """The address of the dashboard, for links in messages; None: it is not known (Y3).

        `serves`: this process serves it. Without a proxy its loopback address can be opened on the
        same machine.
        """
        if self.public_url is not None:
            return self.public_url
        behind_proxy = self.allowed_hosts or self.trusted_proxies
        if serves and self.port and is_loopback(self.host) and not behind_proxy:
            return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"
        return None


class WorkerSettings(Section):
    """Where a worker serves its health, readiness and metrics; without a port it does not."""

    host: BindHost = "127.0.0.1"
    port: Port | None = None


class HostOverrideSettings(Section):
    """Settings of one host, or of all hosts below a domain; None means not set."""

    poll_delay_seconds: Delay | None = None
    hold_scope: HoldScope | None = None


class SourceDefaults(Section):
    """How sources are polled and how long posts are kept."""

    paused: Flag = False
    tick_seconds: Tick = 60
    max_article_age_days: Days = 7
    max_failures: Count = 5
    max_backoff_hours: Hours = 24
    late_entry_hours: HoursOrZero = 0
    adopt_moves: Flag = False
    probation: Flag = False
    processed_retention_days: Days | None = None
    poll_history_days: Days = 14
    daily_history_days: Days = 400
    poll_delay_seconds: Mapping[SourceType, Delay | None] = {}
    host_overrides: Mapping[HostPattern, HostOverrideSettings] = {}
    aggregate_hosts: tuple[Host, ...] = ("nitter.net",)


class FetchSettings(Section):
    """Timeouts, limits and identification of outgoing requests."""

    user_agent_contact: Contact = "https://headwater.example/bot"
    connect_timeout_seconds: Seconds = 10
    read_timeout_seconds: Seconds = 30
    total_timeout_seconds: Seconds = 60
    max_body_bytes: Count = 10_485_760
    max_redirects: Annotated[int, Field(strict=True, ge=1, le=100)] = 5
    max_connections: Annotated[int, Field(strict=True, ge=1, le=65_535)] = 256
    allow_private_networks: PrivateNetworks = False
    proxy: Proxy | None = secret(None)
    parse_timeout_seconds: Seconds = 10
    parse_memory_mb: Annotated[int, Field(strict=True, ge=1, le=1_048_576)] = 512


class IncidentSettings(Section):
    """When problems of sources are reported (Y1)."""

    failing_hours: Hours = 24


class MailSettings(Section):
    """The mail server that sends e-mails about incidents; None: no e-mail is sent (Y3)."""

    host: Host | None = None
    port: Annotated[int, Field(strict=True, ge=1, le=65_535)] | None = None
    sender: EmailAddress | None = Field(default=None, alias="from", validate_default=True)
    tls: Annotated[Literal["starttls", "tls", "none"], BeforeValidator(_lower)] = "starttls"
    username: Line | None = None
    password: HiddenText | None = secret(None)

    @field_validator("sender")
    @classmethod
    def _is_given_with_a_host(cls, sender: str | None, given: ValidationInfo) -> str | None:
        if sender is None and given.data.get("host") is not None:
            raise ValueError("must be an address, because app.mail.host is set")
        return sender


class NotifySettings(Section):
    """Further targets that receive every incident (Y3)."""

    apprise_urls: tuple[HiddenText, ...] = secret(())


class XSettings(Section):
    """The address of the X API."""

    base_url: WebAddress = "https://api.x.com"


class EncryptionSettings(Section):
    """The key that encrypts stored secrets; None: the key file next to the database."""

    master_key: MasterKey | None = secret(None)
    old_master_keys: tuple[MasterKey, ...] = secret(())  # decrypt only


class ClusterSettings(Section):
    """Workers that share one PostgreSQL database."""

    lease_seconds: Lease = 30


class LogSettings(Section):
    """Format and level of log lines."""

    format: Annotated[Literal["text", "json"], BeforeValidator(_lower)] = "text"
    level: Annotated[LogLevel, BeforeValidator(_lower)] = "info"


class LimitSettings(Section):
    """Limits per request, user and address (U8)."""

    max_request_bytes: Count = 16_777_216
    max_sources_per_user: Count = 100_000
    max_page_size: Annotated[int, Field(strict=True, ge=1, le=10_000)] = 500
    max_event_streams_per_user: Count = 10
    max_previews_per_user: Count = 4
    max_connections: Count = 1000
    max_connections_per_address: Count = 200


class Settings(Section):
    """The whole configuration, validated, with the origin of every value."""

    database_url: DatabaseUrl = secret("sqlite:///data/headwater.db")
    server: ServerSettings = ServerSettings()
    worker: WorkerSettings = WorkerSettings()
    shutdown_seconds: Seconds = 10
    source: SourceDefaults = SourceDefaults()
    fetch: FetchSettings = FetchSettings()
    incidents: IncidentSettings = IncidentSettings()
    mail: MailSettings = MailSettings()
    notify: NotifySettings = NotifySettings()
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
        return value_types.sqlite_file(self.database_url)


KeyPath = tuple[str, ...]
VARIABLE_PREFIX = "APP__"
FILE_SUFFIX = "-file"


class Leaf(NamedTuple):
    """A key with a value."""

    is_text: bool  # a variable's text is the value itself; otherwise it is JSON
    is_flag: bool
    is_nullable: bool
    is_secret: bool = False


class SecretFile(NamedTuple):
    """A key with the path of a file that contains a secret of the same section."""

    secret: Leaf


class KeyGroup(NamedTuple):
    """A section: known keys only."""

    keys: Mapping[str, "Shape"]


class FreeMap(NamedTuple):
    """A map with free keys, such as host names."""

    placeholder: str  # stands for the key in the documentation
    key: TypeAdapter[Any]
    value: "Shape"


Shape = Leaf | SecretFile | KeyGroup | FreeMap


def dotted(path: KeyPath) -> str:
    """The key in dotted form."""
    return ".".join(("app", *path))


def variable(path: KeyPath) -> str:
    """The environment variable of a key."""
    return VARIABLE_PREFIX + "__".join(path).upper().replace("-", "_")


def leaves(shape: Shape, path: KeyPath = ()) -> Iterator[KeyPath]:
    """Every key but those of files, with `<type>` and `<host>` for free keys."""
    match shape:
        case Leaf():
            yield path
        case KeyGroup(keys):
            for name, inner in keys.items():
                yield from leaves(inner, (*path, name))
        case FreeMap(placeholder, _, value):
            yield from leaves(value, (*path, placeholder))


def secret_files(shape: Shape, path: KeyPath = ()) -> Iterator[tuple[KeyPath, SecretFile]]:
    """Every key of a file, with the secret that it contains."""
    if isinstance(shape, SecretFile):
        yield path, shape
    elif isinstance(shape, KeyGroup):
        for name, inner in shape.keys.items():
            yield from secret_files(inner, (*path, name))


_TEXTS = (str, SecretBytes, SecretStr)


def _shape(annotation: Any) -> Shape:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        keys: dict[str, Shape] = {}
        for field in annotation.model_fields.values():
            name, shape = field.alias or "", _shape(field.annotation)
            if isinstance(shape, Leaf) and field.json_schema_extra == {"secret": True}:
                shape = shape._replace(is_secret=True)
                keys[name + FILE_SUFFIX] = SecretFile(shape)
            keys[name] = shape
        return KeyGroup(keys)
    if get_origin(annotation) is Mapping:
        key, value = get_args(annotation)
        placeholder = "<type>" if key is SourceType else "<host>"
        return FreeMap(placeholder, TypeAdapter(key), _shape(value))
    kinds = _kinds(annotation)
    is_text = any(isinstance(kind, type) and issubclass(kind, _TEXTS) for kind in kinds)
    return Leaf(is_text, is_flag=bool in kinds, is_nullable=NoneType in kinds)


def _kinds(annotation: Any) -> set[Any]:
    """The types that a value may have, without annotations."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _kinds(get_args(annotation)[0])
    if origin in (Union, UnionType):
        return {kind for choice in get_args(annotation) for kind in _kinds(choice)}
    return {annotation}


SETTINGS_SHAPE = _shape(Settings)
KEYS = tuple(leaves(SETTINGS_SHAPE))
SECRET_FILES = dict(secret_files(SETTINGS_SHAPE))
SECRET_KEYS = frozenset((*path[:-1], path[-1].removesuffix(FILE_SUFFIX)) for path in SECRET_FILES)
