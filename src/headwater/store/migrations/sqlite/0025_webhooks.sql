-- Endpoints that are told about events of a podcast or, without one, of all podcasts (V2).
CREATE TABLE webhooks (
    id TEXT PRIMARY KEY,
    podcast_id TEXT REFERENCES podcasts (id) ON DELETE CASCADE,
    url TEXT NOT NULL,
    events TEXT NOT NULL, -- JSON
    query TEXT,
    enabled BOOLEAN NOT NULL,
    disabled_reason TEXT,
    created_at INTEGER NOT NULL,
    key_id TEXT NOT NULL, -- of the master key that encrypts the secret
    nonce BLOB NOT NULL,
    ciphertext BLOB NOT NULL
);

CREATE INDEX webhooks_podcast ON webhooks (podcast_id, created_at, id);

-- Messages to endpoints, stored in the transaction of what they report. The number is their order.
CREATE TABLE deliveries (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL,
    webhook_id TEXT NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,
    event TEXT NOT NULL,
    payload TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    next_attempt_at INTEGER, -- null: delivered or given up
    delivered_at INTEGER,
    status INTEGER, -- of the last response
    error TEXT -- of the last attempt
);

CREATE UNIQUE INDEX deliveries_id ON deliveries (id);
CREATE INDEX deliveries_webhook ON deliveries (webhook_id, number);
CREATE INDEX deliveries_pending ON deliveries (webhook_id, next_attempt_at, number)
    WHERE next_attempt_at IS NOT NULL;
CREATE INDEX deliveries_age ON deliveries (created_at);
