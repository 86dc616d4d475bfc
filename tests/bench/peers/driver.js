// Obeys the lines of the director; see `src/command.rs` for what they mean and what is answered.
"use strict";
const readline = require("readline");

const KEYS = 256;
const now = () => Number(process.hrtime.bigint());
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
const storedKey = (number) => "lock:bench:" + String(number).padStart(20, "0");
const answer = (value) => process.stdout.write(JSON.stringify(value) + "\n");

async function cycles(client, ms) {
  const samples = [];
  const began = now();
  let start = began;
  while (start - began < ms * 1e6) {
    const held = await client.acquire(storedKey(samples.length % KEYS));
    await client.release(held);
    const ended = now();
    samples.push((ended - start) / 1e3);
    start = ended;
  }
  samples.sort((a, b) => a - b);
  return { cycles: samples.length, p50_us: samples[samples.length >> 1], wall_us: (start - began) / 1e3 };
}

async function contend(clients, tasks, sectionMs, thinkMs, beginNs, endNs) {
  const seen = { waits_us: [], served: Array(tasks).fill(0), sections_us: [] };
  const one = async (task) => {
    const client = clients[task % clients.length];
    await sleep(Math.max(0, (beginNs - now()) / 1e6));
    for (;;) {
      const asked = now();
      if (asked >= endNs) return;
      const held = await client.acquire(storedKey(0));
      const got = now();
      await sleep(sectionMs);
      const ended = now();
      await client.release(held);
      if (got < endNs) {
        seen.waits_us.push((got - asked) / 1e3);
        seen.sections_us.push((ended - got) / 1e3);
        seen.served[task] += 1;
      }
      await sleep(Math.random() * 2 * thinkMs);
    }
  };
  await Promise.all(Array.from({ length: tasks }, (_, task) => one(task)));
  return seen;
}

// `connect(url, ttlMs)` gives a client with `acquire(key)` and `release(held)`.
exports.serve = async (connect) => {
  const [url, count, ttlMs] = process.argv.slice(2);
  const clients = [];
  for (let i = 0; i < Number(count); i++) clients.push(await connect(url, Number(ttlMs)));
  let held;
  answer("ready");
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [word, ...numbers] = line.split(" ");
    if (word === "cycles") answer(await cycles(clients[0], Number(numbers[0])));
    else if (word === "contend") answer(await contend(clients, ...numbers.map(Number)));
    else if (word === "acquire") {
      held = await clients[0].acquire(storedKey(0));
      answer({ at_ns: now() });
    } else if (word === "release") {
      const at_ns = now();
      await clients[0].release(held);
      answer({ at_ns });
    } else throw new Error("no command: " + line);
  }
  process.exit(0);
};
