"""Secrets: sealed API keys on their way from one master key to the next (U5)."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from headwater.errors import KeyRetired
from headwater.model import SealedSecret
from headwater.store.database import Database, Session

RETIRED = "retired_master_keys"  # the fact that names the master keys nobody may seal with


@dataclass(frozen=True, slots=True)
class OwnedSecret:
    """A sealed key and whose it is."""

    user_id: str
    provider: str
    sealed: SealedSecret


class Secrets:
    """The keys table, as a rotation sees it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def retire(self, key_ids: Collection[str], *, current: str) -> None:
        """From now on nothing is stored that was sealed with these master keys."""
        await self._database.write(lambda s: _retire(s, set(key_ids), current))

    async def not_sealed_with(
        self, key_id: str, *, limit: int, after: tuple[str, str] = ("", "")
    ) -> Sequence[OwnedSecret]:
        """Secrets under other master keys, in the order of user and provider."""
        sql = """SELECT user_id, provider, key_id, nonce, ciphertext FROM api_keys
            WHERE key_id <> :key AND (user_id, provider) > (:user, :provider)
            ORDER BY user_id, provider LIMIT :limit"""
        user_id, provider = after
        params = {"key": key_id, "user": user_id, "provider": provider, "limit": limit}
        rows = await self._database.read(lambda s: s.fetch(sql, params))
        return [
            OwnedSecret(row[0], row[1], SealedSecret(row[2], bytes(row[3]), bytes(row[4])))
            for row in rows
        ]

    async def reseal(self, moved: Sequence[tuple[OwnedSecret, SealedSecret]]) -> int:
        """Store secrets sealed anew, but for those that changed meanwhile; answer how many."""
        return await self._database.write(lambda s: sum(_reseal(s, *one) for one in moved))

    async def key_ids(self) -> Collection[str]:
        """The ids of all master keys that secrets are sealed with."""
        sql = "SELECT DISTINCT key_id FROM api_keys"
        return {row[0] for row in await self._database.read(lambda s: s.fetch(sql))}


def refuse_retired(session: Session, key_id: str) -> None:
    """Raise KeyRetired if a secret just stored was sealed with a master key on its way out.

    Asked after storing, not before: by then a rotation has either named its retired keys, or
    waits for this transaction and finds the secret.
    """
    if key_id in _retired(session):
        raise KeyRetired(
            f"master key {key_id!r} was rotated out; start this program again with the new one,"
            f" or run `headwater keys rotate` to seal with this one after all"
        )


def _retire(session: Session, key_ids: set[str], current: str) -> None:
    if session.kind == "postgres":  # whoever is storing a secret ends first; SQLite takes turns
        session.execute("LOCK TABLE api_keys IN SHARE ROW EXCLUSIVE MODE")
    names = (_retired(session) | key_ids) - {current}
    session.execute(
        """INSERT INTO facts (name, value) VALUES (:name, :value)
        ON CONFLICT (name) DO UPDATE SET value = excluded.value""",
        {"name": RETIRED, "value": " ".join(sorted(names))},
    )


def _retired(session: Session) -> set[str]:
    rows = session.fetch("SELECT value FROM facts WHERE name = :name", {"name": RETIRED})
    return set(rows[0][0].split()) if rows else set()


def _reseal(session: Session, before: OwnedSecret, sealed: SealedSecret) -> int:
    sql = """UPDATE api_keys SET key_id = :key_id, nonce = :nonce, ciphertext = :ciphertext
        WHERE user_id = :user AND provider = :provider
        AND key_id = :old_id AND nonce = :old_nonce"""
    return session.execute(
        sql,
        {
            "key_id": sealed.key_id,
            "nonce": sealed.nonce,
            "ciphertext": sealed.ciphertext,
            "user": before.user_id,
            "provider": before.provider,
            "old_id": before.sealed.key_id,
            "old_nonce": before.sealed.nonce,
        },
    )
