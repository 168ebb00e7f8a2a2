"""Population: sources and hosts that somebody might have, drawn from the seed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from random import Random

from headwater.model import Source, SourceType
from headwater.rules.politeness import lane_of
from headwater.simulation.hosts import DAY_SECONDS, Manner, VirtualHost
from headwater.simulation.loop import START

# Minutes between polls, and how many of 1,000 sources have them. Most feeds that people make
# podcasts from change once a day or less; a few are news.
INTERVALS = {1440: 850, 720: 120, 360: 28, 60: 2}
ANSWER_SECONDS = 0.5
NOBODY = "default"  # who owns what nobody is named for
_CHOICES = (tuple(INTERVALS), tuple(INTERVALS.values()))
_LARGE_HOSTS = ("nitter.net", "substack.example", "medium.example", "youtube.example")
_DELAYS = (*[None] * 8, 0, 1, 3, 30)
_HOSTS_PER_SOURCE = 0.4
_TROUBLED = 0.15  # the share of hosts that misbehave at some time


@dataclass(frozen=True, slots=True)
class Population:
    """Who is polled."""

    sources: tuple[Source, ...]
    hosts: Mapping[str, VirtualHost]
    owners: Mapping[str, str] = field(default_factory=dict)  # users by their podcasts' ids

    def owner(self, source: Source) -> str:
        """Whose a source is."""
        return self.owners.get(source.podcast_id, NOBODY)

    def lane(self, source: Source) -> str:
        """The lane that a source runs in."""
        return lane_of(source, self.owner(source)) or ""


def invented(count: int, rng: Random, *, interval: int | None = None) -> Population:
    """So many sources: most hosts have one or two of them, a few have many."""
    names = [f"site{number}.example" for number in range(max(int(count * _HOSTS_PER_SOURCE), 1))]
    sources = [_source(number, names, rng, interval) for number in range(count)]
    return watched(sources, {}, ANSWER_SECONDS, rng)


def watched(
    sources: Iterable[Source], owners: Mapping[str, str], seconds: float, rng: Random
) -> Population:
    """Somebody's own sources, on hosts that take about so long to answer."""
    alone = Population(tuple(sources), {}, owners)
    lanes = dict.fromkeys(alone.lane(source) for source in alone.sources)
    hosts = {lane: VirtualHost(lane, seconds * (0.5 + rng.random())) for lane in lanes}
    return replace(alone, hosts=hosts)


def troubled(population: Population, days: float, rng: Random) -> Population:
    """The same, but that some hosts misbehave for a time, or from some time on."""
    names, hosts = list(population.hosts), dict(population.hosts)
    for name in names:
        if rng.random() < _TROUBLED:
            hosts[name] = _troubled(hosts[name], names, days * DAY_SECONDS, rng)
    return replace(population, hosts=hosts)


def _troubled(host: VirtualHost, names: list[str], end: float, rng: Random) -> VirtualHost:
    manner = rng.choice([one for one in Manner if one is not Manner.STEADY])
    since = rng.uniform(-0.2, 0.8) * end
    until = rng.choice((since + rng.uniform(0, 0.5) * end, float("inf")))
    goes_to = None
    if manner is Manner.MOVED:
        others = [
            name for name in rng.sample(names, min(len(names), 5)) if "/" not in name and name
        ]
        goes_to = next((name for name in others if name != host.name), None)
    wave = rng.choice((60.0, 600.0, 3600.0, 6 * 3600.0))
    return VirtualHost(host.name, host.seconds, manner, since, until, wave, goes_to)


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
    )
