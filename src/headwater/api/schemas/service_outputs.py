"""Response models of the running service: hosts, incidents, scheduler, cluster, health."""

from typing import Annotated, Literal, Self

from pydantic import Field

from headwater.api.schemas.outputs import EXAMPLE_SOURCE, Moment, ResponseModel, SourceKey
from headwater.engine.cluster.worker_counters import decode_counters
from headwater.model import FailureType, OutcomeKind
from headwater.operations.cluster import ClusterView
from headwater.operations.host_views import HostCard
from headwater.operations.readiness import Check, CheckStatus
from headwater.rules.incidents import IncidentKind, Severity
from headwater.store.shards import WorkerStatus

EXAMPLE_INCIDENT = "019c6513-d000-8b7a-a1d2-6c0f3e9b5a44"
HostKey = Annotated[str, Field(examples=["example.org"])]


class PollRequestedOut(ResponseModel):
    """A poll was requested; its outcome is not known yet."""

    outcome: None = Field(default=None, description="Always null.")
    requested: Literal[True] = Field(default=True, description="The source is due now.")


class InFlightOut(ResponseModel):
    """The poll of a host in progress; both fields are null if the source is another user's."""

    source_id: str | None = Field(description="The source that is polled.")
    url: str | None = Field(description="Its address, or that of a page that is read for it.")


class HostHoldOut(ResponseModel):
    """A time before which a host must not be contacted."""

    until: Moment = Field(description="When the hold ends.")
    reason: str = Field(description="The response of the host that caused it.")


class HostOut(ResponseModel):
    """A host of the caller's sources or pages and the state of its lane."""

    host: HostKey = Field(description="The host name; `x.com` for X.")
    sources: int = Field(description="Number of the caller's sources.")
    enabled: int = Field(description="Number of these that are enabled.")
    failing: int = Field(description="Number of enabled sources that fail.")
    lane_length: int = Field(
        description="Number of sources and pages waiting or polled, of all users."
    )
    pages_pending: int = Field(
        description="Number of the caller's pages that are still to be read for their full text.",
        examples=[0],
    )
    shared_requests: int = Field(
        description="Number of polls that needed no request of their own, because sources of any "
        "user with the same address were due together.",
        examples=[0],
    )
    in_flight: InFlightOut | None = Field(description="The poll in progress.", examples=[None])
    delay_seconds: float = Field(description="The longest delay of these sources.")
    delay_origin: str = Field(
        description="Where that delay is configured.", examples=["the default"]
    )
    hold: HostHoldOut | None = Field(description="The current hold.", examples=[None])
    next_allowed_at: Moment | None = Field(
        description="When the host may be contacted; null: now.", examples=[None]
    )
    last_success_at: Moment | None = Field(description="When a poll last succeeded.")


class HostAnswerOut(ResponseModel):
    """The response of a host to one poll."""

    source_id: SourceKey = Field(description="The source that was polled.")
    started_at: Moment = Field(description="When the poll started.")
    outcome: OutcomeKind = Field(description="The outcome in one word.")
    status: int | None = Field(description="The HTTP status of the response.", examples=[200])
    failure_type: FailureType | None = Field(
        description="Whether the failure is transient or permanent.", examples=[None]
    )
    failure_kind: str | None = Field(
        description="Kind of failure, such as `404` or `DNS`.", examples=[None]
    )
    error: str | None = Field(description="The failure as text.", examples=[None])


class HostCardOut(HostOut):
    """A host of the caller's sources with its last responses."""

    last_answers: tuple[HostAnswerOut, ...] = Field(description="The responses, newest first.")

    @classmethod
    def of(cls, card: HostCard) -> Self:
        """A host with its responses."""
        return cls.combined(card.view, last_answers=card.answers)


class IncidentOut(ResponseModel):
    """One problem, from start to end."""

    id: str = Field(description="The id.", examples=[EXAMPLE_INCIDENT])
    kind: IncidentKind = Field(description="The kind of problem.")
    severity: Severity = Field(description="How bad it is.")
    title: str = Field(
        description="What is wrong.",
        examples=["Headwater has given up on “Rivers”: nothing is at the address any more (404)"],
    )
    advice: str = Field(
        description="What to do.",
        examples=["Open the site, find the new address and enter it."],
    )
    host: str | None = Field(
        description="The host of the sources; null: a problem of the whole service.",
        examples=["example.org"],
    )
    source_ids: tuple[str, ...] = Field(
        description="The sources that have the problem or, when it is closed, had it.",
        examples=[[EXAMPLE_SOURCE]],
    )
    opened_at: Moment = Field(description="When it began to be reported.")
    closed_at: Moment | None = Field(description="When it ended; null: it is open.")


class SchedulerOut(ResponseModel):
    """The state of the scheduler."""

    paused: bool = Field(description="Whether only requested polls are made.", examples=[False])
    last_tick_at: Moment | None = Field(description="When it last searched for due sources.")
    lane_count: int = Field(description="Number of lanes with sources to poll.")
    waiting: int = Field(description="Number of sources waiting in lanes.")
    in_flight: int = Field(description="Number of polls in progress.")
    outage: str | None = Field(
        description="Kind of the current network outage of this machine.", examples=[None]
    )
    outage_since: Moment | None = Field(description="When the outage began.", examples=[None])
    cleanup_paused_until: Moment | None = Field(
        description="When cleanup resumes; it is paused while the clock may be wrong.",
        examples=[None],
    )


class WorkerOut(ResponseModel):
    """A worker of the cluster, from its last heartbeat."""

    id: str = Field(description="The id.", examples=["db1/4211/9f3c01aa"])
    machine: str = Field(description="The machine it runs on.", examples=["db1"])
    pid: int = Field(description="Its process id.", examples=[4211])
    started_at: Moment = Field(description="When it started.")
    seen_at: Moment = Field(description="When it last sent a heartbeat.")
    silent: bool = Field(
        description="Whether its heartbeat is late; other workers take over its shards soon.",
        examples=[False],
    )
    ticked_at: Moment | None = Field(description="When it last queried due sources.")
    draining: bool = Field(
        description="Whether it hands over its shards and takes none.", examples=[False]
    )
    shards: int = Field(description="Number of shards that it holds.")
    in_flight: int = Field(description="Number of polls in progress.")
    polls: int = Field(description="Number of polls since its start.")
    leases_lost: int = Field(description="Number of shards that other workers took over.")
    lanes: int = Field(description="Number of lanes with sources to poll.")
    sources_waiting: int = Field(description="Number of sources waiting in these lanes.")
    commits: int = Field(description="Number of transactions that stored results.")
    results: int = Field(description="Number of results stored; a commit stores many.")
    results_waiting: int = Field(description="Number of results waiting for the database.")
    parse_kills: int = Field(
        description="Number of documents that exceeded the time or memory limit for parsing."
    )
    ticks_failed: int = Field(description="Number of failed ticks.")
    loop_lag_max_seconds: float = Field(
        description="Largest delay of a timer of its event loop in the last minutes."
    )

    @classmethod
    def of(cls, worker: WorkerStatus) -> Self:
        """A worker with the counters of its heartbeat."""
        counts = decode_counters(worker.counts)
        fields = {"silent": worker.is_silent, "sources_waiting": counts.waiting}
        return cls.combined(worker, counts, **fields)


class DrainedWorkerOut(WorkerOut):
    """A worker after a change of its draining."""

    warning: str | None = Field(
        description="Set if every worker is draining now, so that nothing is polled.",
        examples=[None],
    )


class ClusterOut(ResponseModel):
    """The workers that share the database, and their backlog."""

    workers: list[WorkerOut] = Field(description="The workers seen recently, oldest first.")
    shards: int = Field(description="Number of shards that hosts are divided into.")
    open_shards: int = Field(description="Number of shards that a worker holds.")
    due: int = Field(description="Number of due sources.")
    overdue: int = Field(description="Number of sources that have been due for over two ticks.")
    oldest_overdue_at: Moment | None = Field(
        description="Since when the oldest of these has been due.", examples=[None]
    )

    @classmethod
    def of(cls, view: ClusterView) -> Self:
        """The cluster with its workers."""
        return cls.combined(view, view.backlog, workers=[WorkerOut.of(one) for one in view.workers])


class LivenessOut(ResponseModel):
    """The process is alive."""

    status: Literal["ok"] = Field(default="ok", description="Always `ok`.")
    version: str = Field(description="The version of Headwater.", examples=["0.3.0"])
    schema_version: int | None = Field(
        alias="schema", description="The database schema; null: the database is not available."
    )


class CheckOut(ResponseModel):
    """The result of one check."""

    ok: bool = Field(description="Whether it passed.")
    detail: str = Field(description="The result as text.", examples=["answers"])

    @classmethod
    def of(cls, check: Check) -> Self:
        """A check; warnings pass."""
        return cls(ok=check.verdict is not CheckStatus.WRONG, detail=check.detail)


class ReadinessOut(ResponseModel):
    """Polling works."""

    status: Literal["ready"] = Field(default="ready", description="Always `ready`.")
    checks: dict[str, CheckOut] = Field(
        description="The results by name of the check.",
        examples=[{"database": {"ok": True, "detail": "answers"}}],
    )
