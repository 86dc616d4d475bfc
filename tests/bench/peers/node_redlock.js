// redlock on one server, with its defaults but for one: it asks until it has the lock.
"use strict";
const Redis = require("ioredis");
const Redlock = require("redlock");

require("./driver").serve(async (url, ttlMs) => {
  const redlock = new Redlock([new Redis(url)], { retryCount: -1 });
  return { acquire: (key) => redlock.lock(key, ttlMs), release: (lock) => lock.unlock() };
});
