// kafka-node at its defaults but for where a new group begins.
const { ConsumerGroup, KafkaClient, Producer } = require("kafka-node");

const kafkaHost = process.env.BOOTSTRAP_SERVERS;
const producer = new Producer(new KafkaClient({ kafkaHost }));

function check(error) {
  if (error) {
    throw error;
  }
}

producer.on("error", check);
producer.on("ready", () => {
  const orders = new ConsumerGroup({ kafkaHost, groupId: "billing", fromOffset: "earliest" }, "orders");
  orders.on("error", check);
  orders.on("message", ({ value }) => {
    producer.send([{ topic: "invoices", messages: value.toUpperCase() }], check);
  });
});
