-- What is due in one shard: each look reads that shard's due sources and no others.
CREATE INDEX sources_shard_due ON sources (shard, backoff_due_at) WHERE enabled;
CREATE INDEX sources_shard_cap_due ON sources (shard, cap_due_at)
    WHERE enabled AND cap_due_at IS NOT NULL;
CREATE INDEX sources_shard_failing ON sources (shard, last_polled) WHERE enabled AND default_cap;
CREATE INDEX sources_shard_requested ON sources (shard, requested_at)
    WHERE requested_at IS NOT NULL;

-- What a worker counts and nobody else can know: short, and of a fixed shape.
ALTER TABLE workers ADD COLUMN counts TEXT;
