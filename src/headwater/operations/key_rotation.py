"""Master key rotation: encrypt every stored secret with a new key, while others use them (U5).

1 Write the new key before the old one in the key file: both decrypt, the new one encrypts.
2 Make the database refuse secrets encrypted with the old key: other processes then reread the file.
3 Encrypt the secrets again, in batches; each is valid under one key or the other at any time.
4 Delete the old key when no secret needs it.

An interrupted rotation leaves both keys in the file; the next rotation continues it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.errors import SecretError
from headwater.model import SealedSecret
from headwater.store import Store
from headwater.store.api_keys import ApiKeys, StoredKey
from headwater.store.audit import describe
from headwater.store.webhooks import Webhooks
from headwater.vault import MasterKeys, Vault

_BATCH = 100


@dataclass(frozen=True, slots=True)
class Rotation:
    """The result of a rotation."""

    key_id: str  # of the master key that encrypts from now on
    is_new: bool  # False: it was configured, or created by an interrupted rotation
    resealed: int
    forgotten: int  # master keys deleted from the key file
    unread: Sequence[str]  # errors of secrets that cannot be decrypted; their keys are kept


async def rotate_master_key(store: Store, keys: MasterKeys) -> Rotation:
    """Encrypt every stored secret with a new master key, or with the configured one."""
    with keys.being_rotated():
        describe("key.rotate", "all users")
        is_new = keys.renew()
        vault = Vault(keys.there())
        current = vault.current_key_id
        await store.api_keys.retire(vault.key_ids, current=current)
        resealed, unread, used = 0, list[str](), {current}
        for secrets in (store.api_keys, store.webhooks):
            count, errors = await _reseal_all(secrets, vault)
            resealed, unread, used = (
                resealed + count,
                unread + errors,
                {*used, *await secrets.key_ids()},
            )
        forgotten = keys.forget(all_but=used)
    describe("key.rotate", "all users", keys=resealed, unread=len(unread))
    return Rotation(current, is_new, resealed, forgotten, unread)


async def _reseal_all(secrets: ApiKeys | Webhooks, vault: Vault) -> tuple[int, list[str]]:
    resealed, unread, after = 0, list[str](), ("", "")
    while True:
        old = await secrets.not_sealed_with(vault.current_key_id, limit=_BATCH, after=after)
        if not old:
            return resealed, unread
        moved = []
        for secret in old:
            try:
                moved.append((secret, _resealed(vault, secret)))
            except SecretError as error:  # the others are rotated nevertheless
                unread.append(str(error))
        resealed += await secrets.reseal(moved)
        after = (old[-1].user_id, old[-1].provider)


def _resealed(vault: Vault, secret: StoredKey) -> SealedSecret:
    user_id, provider = secret.user_id, secret.provider
    text = vault.open(secret.sealed, user_id=user_id, provider=provider)
    return vault.seal(text, user_id=user_id, provider=provider)
