"""KeyValues: named values of this database that outlive a process (table `facts`)."""

from headwater.store.database import Session, Tables, reads_inline, writes

PAUSED_KEY = "paused"  # a user's choice
POLLER_KEY = "poller"  # the polling process; present at a start only after an unclean stop


def get_value(session: Session, name: str) -> str | None:
    """The value stored under a name, or None."""
    rows = session.fetch("SELECT value FROM facts WHERE name = :name", {"name": name})
    return rows[0][0] if rows else None


def set_value(session: Session, name: str, value: str) -> None:
    """Insert or replace a value."""
    sql = """INSERT INTO facts (name, value) VALUES (:name, :value)
        ON CONFLICT (name) DO UPDATE SET value = excluded.value"""
    session.execute(sql, {"name": name, "value": value})


def _replace(session: Session, name: str, value: str | None) -> str | None:
    """Store a value, or delete it if None, and return the previous one."""
    before = get_value(session, name)
    if value is None:
        session.execute("DELETE FROM facts WHERE name = :name", {"name": name})
    else:
        set_value(session, name, value)
    return before


class KeyValues(Tables):
    """The facts table."""

    get = reads_inline(get_value)
    set = writes(_replace)
