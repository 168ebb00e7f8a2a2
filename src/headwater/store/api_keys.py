"""ApiKeys: users' encrypted API keys, and their rotation to a new master key (U5)."""

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from headwater.errors import KeyRetired, NotFound
from headwater.model import SealedSecret
from headwater.store.database import Session, Tables, reads, writes
from headwater.store.key_values import get_value, set_value
from headwater.store.row_mapping import to_ms

RETIRED_KEYS = "retired_master_keys"  # key-value entry: master keys that no longer encrypt

# X sources that fail or have never succeeded, of a user; none for other providers (S9)
_WAITING = """enabled AND type = 'twitter' AND (consecutive_failures > 0 OR NOT first_poll_done)
    AND podcast_id IN (SELECT id FROM podcasts WHERE user_id = :user_id) AND :provider = 'x'"""


@dataclass(frozen=True, slots=True)
class StoredKey:
    """An encrypted API key with its user and provider."""

    user_id: str
    provider: str
    sealed: SealedSecret


def _waiting_sources(session: Session, user_id: str, provider: str) -> Sequence[str]:
    """The sources that a user's new key for a provider makes due."""
    params = {"user_id": user_id, "provider": provider}
    return [row[0] for row in session.fetch(f"SELECT id FROM sources WHERE {_WAITING}", params)]


def _set(
    session: Session,
    user_id: str,
    provider: str,
    sealed: SealedSecret,
    now: datetime,
    skipped: Collection[str] = (),
) -> int:
    """Insert or replace a user's key; return how many sources become due by this.

    These are the waiting ones except `skipped`.
    """
    row = {"user_id": user_id, "provider": provider, "created_at": to_ms(now)} | asdict(sealed)
    replace = """ON CONFLICT (user_id, provider) DO UPDATE SET key_id = excluded.key_id,
        nonce = excluded.nonce, ciphertext = excluded.ciphertext,
        created_at = excluded.created_at"""
    session.insert_rows("api_keys", [row], replace)
    refuse_retired(session, sealed)
    # a poll in progress uses no key or the old one: its result must not be recorded (D4)
    session.execute(f"UPDATE sources SET generation = generation + 1 WHERE {_WAITING}", row)
    sql = f"UPDATE sources SET requested_at = :created_at WHERE {_WAITING} AND NOT (id IN :skipped)"
    return session.execute(sql, row | {"skipped": list(skipped)})


def refuse_retired(session: Session, sealed: SealedSecret) -> None:
    """Raise KeyRetired if the master key of a secret was rotated out.

    Called after the secret is stored: by then a rotation has either stored its retired keys, or
    waits for this transaction and finds the new secret.
    """
    if sealed.key_id in _retired(session):
        raise KeyRetired(
            f"master key {sealed.key_id!r} was rotated out; start this program again with the new"
            f" one, or run `headwater keys rotate` to seal with this one after all"
        )


def _retire(session: Session, key_ids: Collection[str], *, current: str) -> None:
    """Refuse to store keys encrypted with these master keys from now on."""
    if session.kind == "postgres":  # wait for transactions that store a secret
        session.execute("LOCK TABLE api_keys, webhooks IN SHARE ROW EXCLUSIVE MODE")
    names = {*_retired(session), *key_ids} - {current}
    set_value(session, RETIRED_KEYS, " ".join(sorted(names)))


def _retired(session: Session) -> set[str]:
    return set((get_value(session, RETIRED_KEYS) or "").split())


def _reseal(session: Session, moved: Sequence[tuple[StoredKey, SealedSecret]]) -> int:
    """Store re-encrypted keys except those changed meanwhile; return how many."""
    sql = """UPDATE api_keys SET key_id = :key_id, nonce = :nonce, ciphertext = :ciphertext
        WHERE user_id = :user AND provider = :provider
        AND key_id = :old_id AND nonce = :old_nonce"""
    count = 0
    for before, sealed in moved:
        old = {"old_id": before.sealed.key_id, "old_nonce": before.sealed.nonce}
        owner = {"user": before.user_id, "provider": before.provider}
        count += session.execute(sql, asdict(sealed) | owner | old)
    return count


class ApiKeys(Tables):
    """The api_keys table."""

    set = writes(_set)
    waiting_sources = reads(_waiting_sources)
    retire = writes(_retire)
    reseal = writes(_reseal)

    async def get(self, user_id: str, provider: str) -> SealedSecret | None:
        """A user's encrypted key for a provider, or None."""
        sql = """SELECT key_id, nonce, ciphertext FROM api_keys
            WHERE user_id = :user AND provider = :provider"""
        rows = await self.database.fetch(sql, {"user": user_id, "provider": provider})
        return SealedSecret(*rows[0]) if rows else None

    async def providers(self, user_id: str) -> Sequence[str]:
        """The providers that a user has a key for."""
        sql = "SELECT provider FROM api_keys WHERE user_id = :user ORDER BY provider"
        return [row[0] for row in await self.database.fetch(sql, {"user": user_id})]

    async def remove(self, user_id: str, provider: str) -> None:
        """Delete a user's key for a provider."""
        sql = "DELETE FROM api_keys WHERE user_id = :user AND provider = :provider"
        if not await self.database.execute(sql, {"user": user_id, "provider": provider}):
            raise NotFound(f"there is no key for {provider}")

    async def not_sealed_with(
        self, key_id: str, *, limit: int, after: tuple[str, str] = ("", "")
    ) -> Sequence[StoredKey]:
        """Keys encrypted with other master keys, ordered by user and provider."""
        sql = """SELECT key_id, nonce, ciphertext, user_id, provider FROM api_keys
            WHERE key_id <> :key AND (user_id, provider) > (:user, :provider)
            ORDER BY user_id, provider LIMIT :limit"""
        params = {"key": key_id, "user": after[0], "provider": after[1], "limit": limit}
        rows = await self.database.fetch(sql, params)
        return [StoredKey(row[3], row[4], SealedSecret(*row[:3])) for row in rows]

    async def key_ids(self) -> Collection[str]:
        """The ids of all master keys in use."""
        return {row[0] for row in await self.database.fetch("SELECT DISTINCT key_id FROM api_keys")}
