CREATE TABLE IF NOT EXISTS lockrt_fence (
  resource text COLLATE "C" PRIMARY KEY,
  -- The greatest fencing token seen, and the last one that wrote: 64 bits without a sign.
  token numeric(20) NOT NULL CHECK (token > 0 AND token < 18446744073709551616),
  written numeric(20) NOT NULL,
  -- Whether the last who asked was let pass; its own answer only.
  passed boolean NOT NULL
);
