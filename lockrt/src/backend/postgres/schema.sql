-- A lock each. It is held while `expires_at` is ahead of the server's clock.
CREATE TABLE IF NOT EXISTS {schema}.lockrt_locks (
  key text COLLATE "C" PRIMARY KEY,
  owner text COLLATE "C" NOT NULL,
  -- The fencing token of the last grant.
  fence bigint NOT NULL,
  expires_at timestamptz NOT NULL,
  -- Whether somebody waits, who is told of the release.
  wanted boolean NOT NULL
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);

-- One row: the greatest token of the locks that were deleted.
CREATE TABLE IF NOT EXISTS {schema}.lockrt_floor (
  single boolean PRIMARY KEY DEFAULT true CHECK (single),
  fence bigint NOT NULL,
  swept_at timestamptz NOT NULL
);

INSERT INTO {schema}.lockrt_floor (fence, swept_at) VALUES (0, '-infinity') ON CONFLICT DO NOTHING;
