"""The preview command: what a poll of a URL would store; nothing is stored."""

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Any

import typer

from headwater.app import App
from headwater.cli import humanize, output
from headwater.cli.cli_context import CliContext, invocation
from headwater.cli.columns import Column, Styled, wide
from headwater.cli.setting_options import setting_options
from headwater.model import Entry, SkipReason, SourceType
from headwater.operations.preview import Preview
from headwater.rules.admission import article_age
from headwater.rules.watched_parts import PageBlock
from headwater.source_settings import SETTINGS, SettingValues

commands = typer.Typer()


@commands.command(
    "preview",
    epilog="Example: headwater preview https://example.org/feed",
)
@setting_options(without=[name for name in SETTINGS if name != "watch"])
def preview_(
    ctx: typer.Context,
    url: Annotated[str, typer.Argument(help="A feed, a web page, a profile, or @name on X.")],
    type_: Annotated[SourceType | None, typer.Option("--type", help="Its type.")] = None,
    include_history: Annotated[
        bool, typer.Option("--include-history", help="Include entries from before now.")
    ] = False,
    *,
    json: output.Json = False,
    **settings: Any,
) -> None:
    """Fetch a URL and show which entries would be stored."""
    call = invocation(ctx)
    wanted = {"type": type_, "url": url, "include_history": include_history, **settings}
    found, age = call.do(lambda app: _previewed(call, app, wanted), needs_none=True)
    if json:
        output.show_json(output.schema_json("PreviewOut", found))
        return
    _show_summary(found)
    columns: tuple[Column[tuple[Entry, SkipReason | None]], ...] = (
        Column("Stored", lambda one: _verdict(one[1], age)),
        Column("Published", lambda one: _published(one[0])),
        wide("Title", lambda one: one[0].title),
        wide("Link", lambda one: one[0].url or ""),
    )
    output.show_table(columns, found.decisions, empty="It has no entries.")
    if output.on_terminal():
        reasons = Counter(reason for _, reason in found.decisions if reason is not None)
        entries = humanize.counted(len(found.decisions), "entry")
        skipped = humanize.skips(reasons, age, remedy="--include-history")
        totals = f"{entries}: {len(found.admitted):,} would be stored"
        output.say(Styled(f"{totals}, {skipped}" if skipped else totals, "bold"))
    if found.blocks:
        _show_blocks(found.blocks)


def _show_blocks(blocks: Sequence[PageBlock]) -> None:
    """Print the parts of a page that `--watch` can name."""
    columns: tuple[Column[PageBlock], ...] = (
        Column("Watched", _watched),
        Column("Selector", lambda block: "  " * block.depth + block.selector),
        wide("Text", lambda block: f"all {block.count}: " * (block.count > 1) + block.text),
    )
    output.say("")
    output.show_table(columns, blocks, title="Parts of the page")


def _watched(block: PageBlock) -> Styled:
    if block.is_watched:
        return Styled("yes", "green")
    return Styled("partly", "yellow") if block.watched_length else Styled("no", "dim")


async def _previewed(
    call: CliContext, app: App, settings: SettingValues
) -> tuple[Preview, timedelta]:
    _, podcast = await call.user_and_podcast(app)
    async with app.visitor() as previewer:
        found = await app.previews.preview(previewer, settings, podcast)
    return found, article_age(podcast.max_article_age_days, app.policy)


def _show_summary(found: Preview) -> None:
    complete = "yes" if found.complete else "no: it was cut off; the next poll reads it again"
    output.show_fields(
        {
            "Type": found.source.type.value,
            "Recognised as": found.recognised_as,
            "Status": None if found.status is None else str(found.status),
            "Redirected to": found.redirected_to,
            "Complete": complete if found.decisions or not found.complete else None,
            "A poll would fail": found.error,
            "Feeds on the page": "\n".join(feed.url for feed in found.feeds) or None,
            "Full text": _advice(found),
        },
        title=found.source.url,
    )
    if not output.on_terminal():
        output.say("")


def _advice(found: Preview) -> str | None:
    advice = found.full_text_advice
    if advice is None:
        return None
    verdict = "worthwhile (add it with --full-text on)" if advice.worthwhile else "not worthwhile"
    return f"{verdict}: {advice.reason}"


def _verdict(reason: SkipReason | None, age: timedelta) -> Styled:
    if reason is None:
        return Styled("yes", "green")
    return Styled(f"no: {humanize.reason(reason, age)}", "yellow")


def _published(entry: Entry) -> str:
    return "–" if entry.published_at is None else f"{entry.published_at:%Y-%m-%d %H:%M}"
