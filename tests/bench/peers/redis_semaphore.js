// The mutex of redis-semaphore, with its defaults but for one: it asks until it has the lock.
"use strict";
const Redis = require("ioredis");
const { Mutex } = require("redis-semaphore");

require("./driver").serve(async (url, ttlMs) => {
  const redis = new Redis(url);
  return {
    acquire: async (key) => {
      // It puts `mutex:` before the key.
      const mutex = new Mutex(redis, key, { lockTimeout: ttlMs, acquireTimeout: 2 ** 31 - 1 });
      await mutex.acquire();
      return mutex;
    },
    release: (mutex) => mutex.release(),
  };
});
