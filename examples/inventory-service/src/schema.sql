CREATE TABLE IF NOT EXISTS stock (
  sku text PRIMARY KEY,
  available bigint NOT NULL CHECK (available >= 0)
);

-- The primary key is what makes a repeated request harmless: an order is reserved once, whoever asks how often.
CREATE TABLE IF NOT EXISTS reservations (
  sku text NOT NULL REFERENCES stock,
  order_id text NOT NULL,
  quantity bigint NOT NULL CHECK (quantity > 0),
  PRIMARY KEY (sku, order_id)
);

-- Who ran what under which token. A run that has no end is at work, or its process has died in it.
CREATE TABLE IF NOT EXISTS job_executions (
  job text NOT NULL,
  run text NOT NULL,
  instance text NOT NULL,
  -- The fencing token; none for a run under a lock of its transaction.
  token bigint,
  outcome text NOT NULL DEFAULT 'running' CHECK (outcome IN ('running', 'done', 'refused')),
  started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  ended_at timestamptz,
  UNIQUE (job, run)
);
