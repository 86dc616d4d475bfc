"""The lock of redis-py, with its defaults."""

import redis

import driver


class Client:
    def __init__(self, url, ttl_ms):
        self.redis = redis.Redis.from_url(url)
        self.ttl_s = ttl_ms / 1e3

    def lock(self, key):
        return self.redis.lock(key, timeout=self.ttl_s)


driver.serve(Client)
