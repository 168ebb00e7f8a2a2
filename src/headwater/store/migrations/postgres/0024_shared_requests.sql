-- Polls on a host that needed no request of their own (Y7).
ALTER TABLE hosts ADD COLUMN shared_requests BIGINT NOT NULL DEFAULT 0;
