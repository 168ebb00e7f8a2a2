"""The command that shows what a URL would bring, and stores nothing."""

from collections import Counter
from datetime import timedelta
from typing import Annotated

import typer
from rich.text import Text

from headwater.api.schemas import PreviewOut
from headwater.app import App
from headwater.cli import output, words
from headwater.cli.invocation import Invocation, invocation
from headwater.model import Entry, SkipReason, SourceType, Subject
from headwater.operations.preview import Preview, Previewer
from headwater.operations.sources import SourceSettings, new_source, type_of_url
from headwater.rules.admission import article_age

commands = typer.Typer()
_COLUMNS = (
    output.Column("Stored"),
    output.Column("Published"),
    output.wide("Title"),
    output.wide("Link"),
)


@commands.command(
    "preview",
    rich_help_panel="Polling",
    epilog="Example: headwater preview https://example.org/feed",
)
def preview_(
    ctx: typer.Context,
    url: Annotated[str, typer.Argument(help="A feed, a page, or @name on X.")],
    type_: Annotated[SourceType | None, typer.Option("--type", help="What it is.")] = None,
    include_history: Annotated[
        bool, typer.Option("--include-history", help="As if old entries were wanted too.")
    ] = False,
    json: output.Json = False,
) -> None:
    """Visit a URL and show what would be stored, and what not."""
    call = invocation(ctx)
    wanted = SourceSettings(type=type_, url=url, include_history=include_history)
    found, age = call.do(lambda app: _previewed(call, app, wanted))
    if json:
        output.show_json(PreviewOut.of(found).plain())
        return
    _show_head(found)
    rows = [_row(entry, reason, age) for entry, reason in found.verdicts]
    output.show_table(_COLUMNS, rows, empty="It has no entries.")
    if output.on_terminal():
        output.say(Text(_summary(found, age), style="bold"))


async def _previewed(
    call: Invocation, app: App, wanted: SourceSettings
) -> tuple[Preview, timedelta]:
    user, podcast = await call.place(app)
    now = app.clock.now()
    key = None
    if SourceType.TWITTER in (wanted.type, type_of_url(wanted.url or "")):
        key = await app.key_for(Subject(new_source(podcast.id, wanted, now), user.id))
    async with app.network() as network:
        previewer = Previewer(network.fetcher, network.parsers, app.store, app.clock, app.policy)
        found = await previewer.preview(wanted, podcast, key=key)
    return found, article_age(podcast.max_article_age_days, app.policy)


def _show_head(found: Preview) -> None:
    whole = "yes" if found.complete else "no: it was cut off, and would be read again next time"
    output.show_card(
        {
            "Type": found.source.type.value,
            "Status": None if found.status is None else str(found.status),
            "Redirected to": found.redirected_to,
            "Whole": whole if found.verdicts or not found.complete else None,
            "A poll would fail": found.error,
            "Feeds on the page": "\n".join(feed.url for feed in found.feeds) or None,
        },
        title=found.source.url,
    )
    if not output.on_terminal():
        output.say("")


def _row(entry: Entry, reason: SkipReason | None, age: timedelta) -> list[output.Cell]:
    verdict = Text("yes", style="green")
    if reason is not None:
        verdict = Text(f"no: {words.reason(reason, age)}", style="yellow")
    published = entry.published_at
    return [
        verdict,
        "–" if published is None else f"{published:%Y-%m-%d %H:%M}",
        entry.title,
        entry.url or "",
    ]


def _summary(found: Preview, age: timedelta) -> str:
    reasons = Counter(reason for _, reason in found.verdicts if reason is not None)
    entries = words.counted(len(found.verdicts), "entry")
    stored = f"{entries}: {len(found.admitted):,} would be stored"
    skipped = words.skips(reasons, age, remedy="--include-history")
    return f"{stored}, {skipped}" if skipped else stored
