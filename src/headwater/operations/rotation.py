"""Rotation: another master key for every stored secret, while others read and write (U5).

1 The new key is put before the old one in the key file: both open, the new one seals.
2 The database refuses secrets sealed with the old key: a process that has not noticed tries again.
3 Secrets are sealed anew, some at a time; each is whole under one key or the other.
4 The old key goes once no secret needs it.

Whoever is killed in between leaves both keys behind; the next rotation goes on where it stopped.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.errors import SecretError
from headwater.model import SealedSecret
from headwater.store import Store
from headwater.store.secrets import OwnedSecret
from headwater.vault import MasterKeys, Vault

_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class Rotation:
    """What came of a rotation."""

    key_id: str  # of the master key that seals from now on
    is_new: bool  # False: it was there before, given or left by a rotation that was interrupted
    resealed: int
    forgotten: int  # master keys taken out of the key file
    unread: Sequence[str]  # why some secrets could not be opened; their master keys are kept


async def rotate_master_key(store: Store, keys: MasterKeys) -> Rotation:
    """Seal every stored secret with a new master key, or with the one that is given."""
    with keys.being_rotated():
        is_new = keys.renew()
        vault = Vault(keys.there())
        current = vault.current_key_id
        await store.secrets.retire(vault.key_ids, current=current)
        resealed, unread = await _reseal_all(store, vault)
        forgotten = keys.forget(all_but={current, *await store.secrets.key_ids()})
    return Rotation(current, is_new, resealed, forgotten, unread)


async def _reseal_all(store: Store, vault: Vault) -> tuple[int, list[str]]:
    resealed, unread, after = 0, list[str](), ("", "")
    while True:
        old = await store.secrets.not_sealed_with(vault.current_key_id, limit=_AT_ONCE, after=after)
        if not old:
            return resealed, unread
        moved = []
        for secret in old:
            try:
                moved.append((secret, _sealed_anew(vault, secret)))
            except SecretError as error:  # one that cannot be read holds up no other
                unread.append(str(error))
        resealed += await store.secrets.reseal(moved)
        after = (old[-1].user_id, old[-1].provider)


def _sealed_anew(vault: Vault, secret: OwnedSecret) -> SealedSecret:
    user_id, provider = secret.user_id, secret.provider
    text = vault.open(secret.sealed, user_id=user_id, provider=provider)
    return vault.seal(text, user_id=user_id, provider=provider)
