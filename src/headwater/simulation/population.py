"""Population: the sources and hosts of a simulation."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from random import Random

from headwater.model import Source, SourceType
from headwater.rules.politeness import lane_of
from headwater.simulation.virtual_hosts import DAY_SECONDS, HostBehaviour, Silence, VirtualHost
from headwater.simulation.virtual_loop import START
from headwater.source_settings import FullText

# Minutes between polls, and how many of 1,000 sources have them. Most feeds that people make
# podcasts from change once a day or less; a few are news.
INTERVALS = {1440: 850, 720: 120, 360: 28, 60: 2}
ANSWER_SECONDS = 0.5
DEFAULT_OWNER = "default"
_CHOICES = (tuple(INTERVALS), tuple(INTERVALS.values()))
_LARGE_HOSTS = ("nitter.net", "substack.example", "medium.example", "youtube.example")
_DELAYS = (*[None] * 8, 0, 1, 3, 30)
_HOSTS_PER_SOURCE = 0.4
_FAULTY_SHARE = 0.15  # of hosts
_MOVED_FOR_GOOD = 0.5  # of hosts that redirect
_FULL_TEXT_SHARE = 0.05  # of sources
_SILENT_SHARE = 0.05  # of sources
_LEAST_FEEDS = 4  # of a host that removes some
_CLEARED_SHARE = 0.3  # of such hosts
_DEAD_SHARE = 0.8  # of their feeds
_SHARED_SHARE = 0.1  # of sources: another source has the same address


@dataclass(frozen=True, slots=True)
class Population:
    """Sources, their hosts by lane, and their owners."""

    sources: tuple[Source, ...]
    hosts: Mapping[str, VirtualHost]
    owners: Mapping[str, str] = field(default_factory=dict)  # user ids by podcast id
    silences: Mapping[str, Silence] = field(default_factory=dict)  # by URL
    deaths: Mapping[str, float] = field(default_factory=dict)  # by URL: when it is gone for good

    def owner(self, source: Source) -> str:
        """Return the id of the user who owns a source."""
        return self.owners.get(source.podcast_id, DEFAULT_OWNER)

    def lane(self, source: Source) -> str:
        """Return the name of a source's lane."""
        return lane_of(source, self.owner(source)) or ""


def generated_population(count: int, rng: Random, *, interval: int | None = None) -> Population:
    """Return random sources: most hosts have one or two of them, a few have many."""
    names = [f"site{number}.example" for number in range(max(int(count * _HOSTS_PER_SOURCE), 1))]
    sources = [_source(number, names, rng, interval) for number in range(count)]
    sources = [_with_shared_address(source, sources, rng) for source in sources]
    return population_of(sources, {}, ANSWER_SECONDS, rng)


def population_of(
    sources: Iterable[Source], owners: Mapping[str, str], seconds: float, rng: Random
) -> Population:
    """Return these sources on hosts with about that response time."""
    population = Population(tuple(sources), {}, owners)
    lanes = dict.fromkeys(population.lane(source) for source in population.sources)
    hosts = {lane: VirtualHost(lane, seconds * (0.5 + rng.random())) for lane in lanes}
    return replace(population, hosts=hosts)


def with_faulty_hosts(population: Population, days: float, rng: Random) -> Population:
    """Return the population with some hosts that fail for a time, or from some time on."""
    names, hosts = list(population.hosts), dict(population.hosts)
    for name in names:
        if rng.random() < _FAULTY_SHARE:
            hosts[name] = _faulty(hosts[name], names, days * DAY_SECONDS, rng)
    return replace(population, hosts=hosts, silences=_silences(population, days, rng))


def with_dead_feeds(population: Population, days: float, rng: Random) -> Population:
    """Return the population with some hosts that remove most of their feeds at once."""
    urls: dict[str, list[str]] = {}
    for source in population.sources:
        if source.type is not SourceType.TWITTER:
            urls.setdefault(source.host or "", []).append(source.url)
    deaths: dict[str, float] = {}
    for found in urls.values():
        if len(found) >= _LEAST_FEEDS and rng.random() < _CLEARED_SHARE:
            at = rng.uniform(0, 0.7) * days * DAY_SECONDS
            deaths |= {url: at for url in found if rng.random() < _DEAD_SHARE}
    return replace(population, deaths=deaths)


def _silences(population: Population, days: float, rng: Random) -> dict[str, Silence]:
    """Return when some feeds publish nothing: they fall silent, some forever."""
    found = {}
    for source in population.sources:
        if source.type is SourceType.RSS and rng.random() < _SILENT_SHARE:
            since = rng.uniform(0.1, 0.6) * days * DAY_SECONDS
            length = rng.choice((2.0, 9.0, 15.0, float("inf"))) * DAY_SECONDS
            found[source.url] = Silence(since, since + length)
    return found


def _faulty(host: VirtualHost, names: list[str], end: float, rng: Random) -> VirtualHost:
    behaviour = rng.choice([one for one in HostBehaviour if one is not HostBehaviour.STEADY])
    since = rng.uniform(-0.2, 0.8) * end
    until = rng.choice((since + rng.uniform(0, 0.5) * end, float("inf")))
    target, for_good = None, False
    if behaviour is HostBehaviour.MOVED:
        for_good = rng.random() < _MOVED_FOR_GOOD
        others = rng.sample(names, min(len(names), 5))
        usable = (name for name in others if name and "/" not in name and name != host.name)
        target = next(usable, None)
    flap_seconds = rng.choice((60.0, 600.0, 3600.0, 6 * 3600.0))
    return VirtualHost(
        host.name, host.seconds, behaviour, since, until, flap_seconds, target, for_good
    )


def _with_shared_address(source: Source, sources: list[Source], rng: Random) -> Source:
    """Return the source, or some with the address of another source and other settings."""
    other = rng.choice(sources)
    if rng.random() >= _SHARED_SHARE or SourceType.TWITTER in (source.type, other.type):
        return source
    return replace(
        source, type=other.type, url=other.url, host=other.host, full_text=other.full_text
    )


def _source(number: int, names: list[str], rng: Random, interval: int | None) -> Source:
    type_ = rng.choices(tuple(SourceType), (88, 10, 2))[0]
    host = rng.choice(_LARGE_HOSTS) if rng.random() < 0.1 else rng.choice(names)
    name = f"source{number}"
    twitter = type_ is SourceType.TWITTER
    return Source(
        id=name,
        podcast_id="default",
        type=type_,
        url=f"@{name}" if twitter else f"https://{host}/{name}",
        created_at=START,
        host="x.com" if twitter else host,
        poll_interval_minutes=interval or rng.choices(*_CHOICES)[0],
        poll_delay_seconds=rng.choice(_DELAYS),
        max_failures=rng.choice((None, None, 1, 3, 8)),
        max_backoff_hours=rng.choice((None, None, 1, 6, 48)),
        full_text=FullText.ON if rng.random() < _FULL_TEXT_SHARE else FullText.OFF,
    )
