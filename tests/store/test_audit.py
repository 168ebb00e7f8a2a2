"""The audit log: entries are stored with the change itself, in pages, and for 90 days (U9)."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from headwater.errors import UsageError
from headwater.model import User
from headwater.store import Store
from headwater.store.audit import AuditEntry, describe
from headwater.store.backup_file import back_up, restore
from headwater.store.expired_rows import old_audit_entries
from tests.store.store_data import DAY, NOW, rows

ANN = User("u1", "Ann", NOW)


async def entries(store: Store) -> list[AuditEntry]:
    return list(await store.audit.newest(limit=100))


async def test_u9_an_entry_is_stored_with_the_change_or_not_at_all(store: Store):
    async with store.audit.acting("token laptop"):
        describe("user.add", "user u1", name="Ann")
        await store.accounts.add_user(ANN)
        (entry,) = await entries(store)
    assert (entry.who, entry.action, entry.target, entry.detail) == (
        "token laptop", "user.add", "user u1", "name=Ann",
    )  # fmt: skip
    with pytest.raises(UsageError):
        async with store.audit.acting("token laptop"):
            describe("user.add", "user u2", name="Ann")
            await store.accounts.add_user(User("u2", "Ann", NOW))
    assert await entries(store) == [entry]


async def test_u9_only_described_changes_of_people_have_an_entry(store: Store):
    describe("user.add", "user u1")
    await store.accounts.add_user(ANN)
    async with store.audit.acting("token laptop"):
        await store.key_values.set("name", "value")
    assert await entries(store) == []


async def test_u9_a_change_has_one_entry_with_its_final_numbers(store: Store):
    async with store.audit.acting("token laptop"):
        describe("user.remove", "user u1")
        for number in range(3):
            await store.key_values.set(str(number), "value")
            describe("source.remove", "source s1")  # part of the same change
        assert [entry.detail for entry in await entries(store)] == [""]
        describe("user.remove", "user u1", sources=3, nothing=None)
    (entry,) = await entries(store)
    assert (entry.action, entry.detail) == ("user.remove", "sources=3")


async def test_u9_a_change_without_a_transaction_has_an_entry_too(store: Store):
    async with store.audit.acting("token laptop"):
        describe("source.poll", "source s1")
    assert [entry.action for entry in await entries(store)] == ["source.poll"]


async def test_u9_tasks_that_a_request_starts_store_no_entry_for_it(store: Store):
    with pytest.raises(RuntimeError):
        async with store.audit.acting("token laptop"):
            describe("source.poll", "source s1")
            await asyncio.create_task(store.key_values.set("name", "value"))
            raise RuntimeError
    assert await entries(store) == []


async def test_u9_a_detail_is_one_line_of_bounded_length(store: Store):
    await store.audit.add("token x", "user.add", name="a\nb\t" + "c" * 5000)
    (entry,) = await entries(store)
    assert entry.detail.startswith("name=a b c")
    assert len(entry.detail) == 1000


async def test_u9_entries_are_listed_in_pages_newest_first(store: Store):
    for number in range(5):
        await store.audit.add("token x", f"action {number}")
    first = await store.audit.newest(limit=2)
    rest = await store.audit.newest(limit=10, before=first[-1].id)
    listed = [entry.action for entry in (*first, *rest)]
    assert listed == [f"action {number}" for number in (4, 3, 2, 1, 0)]
    assert await store.audit.newest(limit=10, since=first[0].at + timedelta(seconds=1)) == []


async def test_u9_entries_are_kept_for_90_days(store: Store):
    await store.audit.add("token x", "kept")
    at = (await entries(store))[0].at
    assert await store.clean(old_audit_entries(), at + 90 * DAY, 1000) == 0
    assert await store.clean(old_audit_entries(), at + 90 * DAY + timedelta(seconds=1), 1000) == 1
    assert await rows(store, "SELECT * FROM audit") == []


async def test_u9_a_restore_keeps_the_log(store: Store, tmp_path: Path):
    await store.audit.add("token x", "before")
    await back_up(store.database, tmp_path / "backup.db")
    await store.audit.add("token x", "after")
    async with store.audit.acting("command line"):
        describe("database.restore", "backup.db")
        await restore(store.database, tmp_path / "backup.db")
    actions = [entry.action for entry in await entries(store)]
    assert actions == ["database.restore", "after", "before"]
