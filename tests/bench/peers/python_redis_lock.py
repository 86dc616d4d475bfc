"""python-redis-lock: a waiter blocks on a list to which the holder pushes."""

import redis
import redis_lock

import driver


class Client:
    def __init__(self, url, ttl_ms):
        self.redis = redis.StrictRedis.from_url(url)
        self.ttl_s = ttl_ms // 1000

    def lock(self, key):
        return redis_lock.Lock(self.redis, key, expire=self.ttl_s)


driver.serve(Client)
