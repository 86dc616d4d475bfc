"""Obeys the lines of the director; see `src/command.rs` for what they mean and what is answered."""

import json
import random
import statistics
import sys
import threading
import time

KEYS = 256


def stored_key(number):
    return f"lock:bench:{number:020}"


def answer(value):
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def serve(connect):
    """`connect(url, ttl_ms)` gives a client; `client.lock(key)` something with `acquire()` and `release()`."""
    url, clients, ttl_ms = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    clients = [connect(url, ttl_ms) for _ in range(clients)]
    held = None
    answer("ready")
    for line in sys.stdin:
        word, *numbers = line.split()
        numbers = [int(number) for number in numbers]
        if word == "cycles":
            answer(cycles(clients[0], *numbers))
        elif word == "contend":
            answer(contend(lambda: connect(url, ttl_ms), *numbers))
        elif word == "acquire":
            held = clients[0].lock(stored_key(0))
            held.acquire()
            answer({"at_ns": time.monotonic_ns()})
        elif word == "release":
            at_ns = time.monotonic_ns()
            held.release()
            answer({"at_ns": at_ns})
        else:
            sys.exit(f"no command: {line}")


def cycles(client, ms):
    samples, began = [], time.monotonic_ns()
    now = began
    while now - began < ms * 1_000_000:
        lock = client.lock(stored_key(len(samples) % KEYS))
        lock.acquire()
        lock.release()
        ended = time.monotonic_ns()
        samples.append((ended - now) / 1e3)
        now = ended
    return {"cycles": len(samples), "p50_us": statistics.median(samples), "wall_us": (now - began) / 1e3}


clients_of_tasks = []


def contend(connect, tasks, section_ms, think_ms, begin_ns, end_ns):
    """Each task is a thread with a client of its own, which is kept for the next round."""
    waits_us, sections_us, served = [], [], [0] * tasks
    while len(clients_of_tasks) < tasks:
        clients_of_tasks.append(connect())

    def one(task):
        client = clients_of_tasks[task]
        time.sleep(max(0, begin_ns - time.monotonic_ns()) / 1e9)
        while (asked := time.monotonic_ns()) < end_ns:
            lock = client.lock(stored_key(0))
            lock.acquire()
            got = time.monotonic_ns()
            time.sleep(section_ms / 1e3)
            ended = time.monotonic_ns()
            lock.release()
            if got < end_ns:
                waits_us.append((got - asked) / 1e3)
                sections_us.append((ended - got) / 1e3)
                served[task] += 1
            time.sleep(random.uniform(0, 2 * think_ms) / 1e3)

    threads = [threading.Thread(target=one, args=(task,)) for task in range(tasks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {"waits_us": waits_us, "served": served, "sections_us": sections_us}
