-- Where users are told about incidents (Y3). Channels of the configuration have no user.
CREATE TABLE channels (
    id TEXT COLLATE "C" PRIMARY KEY,
    user_id TEXT COLLATE "C" REFERENCES users (id) ON DELETE CASCADE,
    kind TEXT NOT NULL,
    target TEXT, -- an address, a URL or the hash of a configured URL; null for a webhook
    webhook_id TEXT COLLATE "C" REFERENCES webhooks (id) ON DELETE CASCADE,
    is_digest BOOLEAN NOT NULL, -- one message a day, at this hour in UTC
    hour INTEGER,
    place INTEGER NOT NULL, -- in the user's list
    created_at BIGINT NOT NULL
);

CREATE INDEX channels_user ON channels (user_id, place);
CREATE INDEX channels_webhook ON channels (webhook_id) WHERE webhook_id IS NOT NULL;

-- A message is for a webhook or for a channel. The order of the columns is that of SQLite.
DROP INDEX deliveries_webhook;
DROP INDEX deliveries_pending;
ALTER TABLE deliveries
    ADD COLUMN channel_id TEXT COLLATE "C" REFERENCES channels (id) ON DELETE CASCADE;
ALTER TABLE deliveries
    ADD COLUMN of_webhook TEXT COLLATE "C" REFERENCES webhooks (id) ON DELETE CASCADE;
UPDATE deliveries SET of_webhook = webhook_id;
ALTER TABLE deliveries DROP COLUMN webhook_id;
ALTER TABLE deliveries RENAME COLUMN of_webhook TO webhook_id;
CREATE INDEX deliveries_webhook ON deliveries (webhook_id, number);
CREATE INDEX deliveries_pending ON deliveries (webhook_id, number, next_attempt_at)
    WHERE next_attempt_at IS NOT NULL;
CREATE INDEX deliveries_channel ON deliveries (channel_id, number) WHERE channel_id IS NOT NULL;
CREATE INDEX deliveries_channel_pending ON deliveries (channel_id, next_attempt_at)
    WHERE channel_id IS NOT NULL AND next_attempt_at IS NOT NULL;
