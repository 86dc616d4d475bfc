-- Under an advisory lock of any number: `IF NOT EXISTS` alone fails for all but one of several sessions that make the
-- table at once. One block, so that it is one statement.
DO $lockrt$
BEGIN
  PERFORM pg_advisory_xact_lock(439788397413);
  CREATE TABLE IF NOT EXISTS lockrt_fence (
    resource text COLLATE "C" PRIMARY KEY,
    -- The greatest fencing token seen, and the last one that wrote: 64 bits without a sign.
    token numeric(20) NOT NULL CHECK (token > 0 AND token < 18446744073709551616),
    written numeric(20) NOT NULL,
    -- Whether the last who asked was let pass; its own answer only.
    passed boolean NOT NULL
  );
END
$lockrt$;
