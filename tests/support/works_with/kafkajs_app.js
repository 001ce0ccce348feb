// kafkajs at its defaults but for where a new group begins.
const { Kafka } = require("kafkajs");

const kafka = new Kafka({ clientId: "billing", brokers: [process.env.BOOTSTRAP_SERVERS] });
const producer = kafka.producer();
const consumer = kafka.consumer({ groupId: "billing" });

async function main() {
  await producer.connect();
  await consumer.connect();
  await consumer.subscribe({ topic: "orders", fromBeginning: true });
  await consumer.run({
    eachMessage: async ({ message }) => {
      await producer.send({ topic: "invoices", messages: [{ value: message.value.toString().toUpperCase() }] });
    },
  });
}

main();
