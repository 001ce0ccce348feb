const assert = require("node:assert");
const { test } = require("node:test");
const { Kafka, logLevel } = require("kafkajs");

const { KAFKA = "localhost:9092", KMINI = "http://localhost:8090", KMINI_HTTP_TOKEN = "" } = process.env;
const kafka = new Kafka({ brokers: [KAFKA], logLevel: logLevel.NOTHING });

/** Call the control API; a problem is an error with what it says. */
async function api(verb, path, json) {
  const headers = { "Content-Type": "application/json", Authorization: `Bearer ${KMINI_HTTP_TOKEN}` };
  const answer = await fetch(`${KMINI}/api/v1${path}`, { method: verb, headers, body: json && JSON.stringify(json) });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${verb} ${path}: ${text}`);
  return text && JSON.parse(text);
}

async function produce(order) {
  const producer = kafka.producer();
  await producer.connect();
  await producer.send({ topic: "orders", messages: [{ value: order }] });
  await producer.disconnect();
}

async function firstOrder() {
  const consumer = kafka.consumer({ groupId: "billing", maxWaitTimeInMs: 100 });
  await consumer.connect();
  await consumer.subscribe({ topic: "orders", fromBeginning: true });
  const order = await new Promise((resolve) =>
    consumer.run({ eachMessage: async ({ message }) => resolve(message.value.toString()) })
  );
  await consumer.disconnect();
  return order;
}

test("a producer goes on when the leader moves", { timeout: 30_000 }, async () => {
  await api("POST", "/reset");
  await api("POST", "/topics", { name: "orders", partitions: 1 });
  await api("PUT", "/faults", {
    rules: [
      {
        name: "moved",
        when: { api: ["Produce"], topic: "orders" },
        which: { times: 2 },
        do: [{ error: "NOT_LEADER_OR_FOLLOWER" }],
      },
    ],
  });
  await produce("order 1");
  assert.equal((await api("GET", "/faults/moved")).hits, 2);
  assert.equal(await firstOrder(), "order 1");
});

test("orders are kept for a day", { timeout: 30_000 }, async () => {
  await api("POST", "/reset");
  const config = { "retention.ms": 86_400_000, "message.timestamp.type": "LogAppendTime" };
  await api("POST", "/topics", { name: "orders", partitions: 1, config });
  await produce("order 1");
  await api("POST", "/clock/advance", { duration: "7d" });
  await produce("order 2");
  assert.equal(await firstOrder(), "order 2");
});
