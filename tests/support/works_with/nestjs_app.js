// NestJS at its defaults but for where a new group begins: a controller with a handler of events, and a client.
require("reflect-metadata");
const { Controller, Module } = require("@nestjs/common");
const { NestFactory } = require("@nestjs/core");
const { ClientProxyFactory, EventPattern, Transport } = require("@nestjs/microservices");

const client = { clientId: "billing", brokers: [process.env.BOOTSTRAP_SERVERS] };
const consumer = { groupId: "billing" }; // NestJS adds "-server", or "-client"
const invoices = ClientProxyFactory.create({ transport: Transport.KAFKA, options: { client, consumer } });

class Billing {
  bill(order) {
    return invoices.emit("invoices", order.toUpperCase());
  }
}
class App {}

// What TypeScript makes of decorators.
EventPattern("orders")(Billing.prototype, "bill", Object.getOwnPropertyDescriptor(Billing.prototype, "bill"));
Controller()(Billing);
Module({ controllers: [Billing] })(App);

async function main() {
  const options = { client, consumer, subscribe: { fromBeginning: true } };
  const app = await NestFactory.createMicroservice(App, { transport: Transport.KAFKA, options });
  await app.listen();
}

main();
