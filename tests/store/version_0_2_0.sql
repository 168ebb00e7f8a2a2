-- Rows of a database that version 0.2.0 (schema 9) used: every table, and sources in every state.
-- Times are relative to :now. Hosts of the test's web server are bound as :ok, :due and so on.
-- BLOB is replaced by BYTEA for PostgreSQL. Hashes are literal, as that version stored them.

UPDATE users SET created_at = :now - 900000000;
UPDATE podcasts SET created_at = :now - 900000000;

INSERT INTO users (id, name, created_at) VALUES ('u-ann', 'Ann Ängström', :now - 800000000);

INSERT INTO podcasts (id, user_id, name, max_article_age_days, dedupe_across_sources, created_at)
VALUES ('p-daily', 'u-ann', 'Daily', 3, TRUE, :now - 700000000),
    ('p-weekly', 'u-ann', 'Weekly', NULL, FALSE, :now - 600000000);

INSERT INTO api_keys (user_id, provider, key_id, nonce, ciphertext, created_at)
VALUES ('u-ann', 'x', 'master key 1', CAST('a nonce' AS BLOB), CAST('ciphertext' AS BLOB), :now);

INSERT INTO tokens (id, user_id, name, hash, created_at)
VALUES ('t-admin', NULL, 'operator', 'hash of the admin token', :now - 500000000),
    ('t-ann', 'u-ann', 'browser', 'hash of the token of Ann', :now - 400000000);

INSERT INTO sessions (hash, token_id, expires_at)
VALUES ('hash of a cookie', 't-ann', :now + 86400000);

-- polled an hour ago and due, with everything that a successful poll stores
INSERT INTO sources (id, podcast_id, type, url, host, created_at, label, poll_interval_minutes,
    late_entry_hours, aggregate, last_polled, last_success_at, last_seen_id, first_poll_done,
    etag, last_modified, body_hash, seen_keys, late_keys_kept, generation)
VALUES ('s-ok', 'default', 'rss', :ok, :ok_host, :now - 90000000, 'A label', 30,
    24, FALSE, :now - 3600000, :now - 3600000, '2026-01-01T00:00:00.000Z', TRUE,
    '"an etag"', 'Thu, 01 Jan 2026 00:00:00 GMT', 'hash of the last body',
    '["a key", "another key"]', TRUE, 7);

-- never polled
INSERT INTO sources (id, podcast_id, type, url, host, created_at, include_history)
VALUES ('s-new', 'p-daily', 'website', 'https://new.example/', 'new.example', :now - 1000, TRUE);

-- failing, and due by the cap of its backoff
INSERT INTO sources (id, podcast_id, type, url, host, created_at, max_failures, max_backoff_hours,
    last_polled, last_success_at, consecutive_failures, last_failure_type, failing_since,
    last_error, first_poll_done)
VALUES ('s-failing', 'default', 'rss', :failing, :failing_host, :now - 80000000, 10, 1,
    :now - 7200000, :now - 80000000, 5, 'transient', :now - 70000000,
    'timed out after 10 s', TRUE);

-- disabled after permanent failures
INSERT INTO sources (id, podcast_id, type, url, host, created_at, enabled, last_polled,
    consecutive_failures, last_failure_type, failing_since, last_error, disabled_reason,
    permanent_failures, permanent_kind)
VALUES ('s-disabled', 'default', 'rss', :disabled, :disabled_host, :now - 79000000, FALSE,
    :now - 7200000, 3, 'permanent', :now - 70000000, 'HTTP 404 Not Found',
    'HTTP 404 Not Found', 3, '404');

-- due, with a hold of its own
INSERT INTO sources (id, podcast_id, type, url, host, created_at, last_polled, first_poll_done,
    hold_until, hold_set_at, hold_reason)
VALUES ('s-held', 'default', 'rss', :held, :held_host, :now - 78000000, :now - 7200000, TRUE,
    :now + 3600000, :now - 1000, '429');

-- due, on a host with a hold
INSERT INTO sources (id, podcast_id, type, url, host, created_at, last_polled, first_poll_done)
VALUES ('s-on-held-host', 'default', 'rss', :busy, :busy_host, :now - 77000000, :now - 7200000,
    TRUE);

-- requested, and not due otherwise
INSERT INTO sources (id, podcast_id, type, url, host, created_at, poll_interval_minutes,
    poll_delay_seconds, last_polled, last_success_at, first_poll_done, requested_at)
VALUES ('s-requested', 'p-daily', 'rss', :requested, :requested_host, :now - 76000000, 1440,
    0, :now - 60000, :now - 60000, TRUE, :now - 1000);

-- an X timeline, not due
INSERT INTO sources (id, podcast_id, type, url, created_at, aggregate, last_polled,
    last_success_at, last_seen_id, first_poll_done)
VALUES ('s-x', 'p-weekly', 'twitter', '@someone', :now - 75000000, TRUE, :now - 60000,
    :now - 60000, '1750000000000000000', TRUE);

INSERT INTO posts (id, source_id, podcast_id, title, body, url, published_at, author, content_hash,
    created_at, is_linked)
VALUES
    ('post-1', 's-ok', 'default', 'linked', 'Stored and linked', 'http://ok/linked',
        :now - 7200000, 'An author',
        '53171358205f6b22bf708598dd03a970c5b28e6a50dfc3857a3f68482264859e',
        :now - 3600000, TRUE),
    ('post-2', 's-ok', 'default', 'processed', 'Stored and processed', 'http://ok/processed',
        NULL, NULL,
        'cdab472e665274bc4bc949b10294b21ac94ad4c9b69319adf774c48532df4bff',
        :now - 3600000, TRUE),
    ('post-3', 's-ok', 'default', 'only', 'Stored only', 'http://ok/only',
        :now - 7200000, NULL,
        '34c07b7f41b1bad53404f28f2290e9d1bc12ff10c9cbdacd612a017ad09df905',
        :now - 3600000, FALSE),
    ('post-4', 's-requested', 'p-daily', 'daily', 'Stored in Daily 👩‍🚀', 'http://daily/1',
        :now - 7200000, NULL,
        '4d9cdf42f7e74368d12f03a17d6dd0164645c1ced2052d60afc2d2aee85a711b',
        :now - 3600000, FALSE);

INSERT INTO tombstones (source_id, mark, link)
VALUES ('s-ok', '8b48119f293510e89a9dbecaa7b26f93', '0591e4163465e22b');

INSERT INTO late_keys (source_id, key, seen_at) VALUES ('s-ok', 'a late key', :now - 3600000);

INSERT INTO articles (id, source_id, podcast_id, title, body, url, published_at, author,
    content_hash, created_at, is_processed, processed_at)
VALUES
    ('article-1', 's-ok', 'default', 'linked', 'Stored and linked', 'http://ok/linked',
        :now - 7200000, 'An author',
        '53171358205f6b22bf708598dd03a970c5b28e6a50dfc3857a3f68482264859e',
        :now - 3500000, FALSE, NULL),
    ('article-2', 's-ok', 'default', 'processed', 'Stored and processed', 'http://ok/processed',
        NULL, NULL,
        'cdab472e665274bc4bc949b10294b21ac94ad4c9b69319adf774c48532df4bff',
        :now - 3500000, TRUE, :now - 3000000);

INSERT INTO post_articles (post_id, article_id)
VALUES ('post-1', 'article-1'), ('post-2', 'article-2');

INSERT INTO polls (source_id, started_at, duration_ms, outcome, status, bytes, new_posts, skipped,
    failure_type, failure_kind, error, redirected_to)
VALUES
    ('s-ok', :now - 7200000, 120, 'stored', 200, 4711, 3,
        '{"alreadySeen": 2, "tooOld": 1}', NULL, NULL, NULL, 'https://ok.example/moved'),
    ('s-ok', :now - 3600000, 80, 'unchanged', 304, 0, 0, NULL, NULL, NULL, NULL, NULL),
    ('s-failing', :now - 7200000, 10000, 'failed', NULL, 0, 0, NULL, 'transient', 'timeout',
        'timed out after 10 s', NULL);

INSERT INTO hosts (lane, next_allowed_at, next_allowed_set_at, hold_until, hold_set_at,
    hold_reason, last_success_at, resolved_at)
VALUES (:ok_host, :now - 3000000, :now - 3600000, NULL, NULL, NULL, :now - 3600000,
        :now - 3600000),
    (:busy_host, NULL, NULL, :now + 3600000, :now - 1000, '503', NULL, NULL);

INSERT INTO podcast_marks (podcast_id, mark, source_id)
VALUES ('p-daily', '4d9cdf42f7e74368d12f03a17d6dd016', 's-requested');

INSERT INTO marked_podcasts (podcast_id, since, source_id, mark, is_complete)
VALUES ('p-daily', :now - 500000000, 's-requested', 'z', TRUE);

INSERT INTO facts (name, value) VALUES ('a fact', 'of this database');
