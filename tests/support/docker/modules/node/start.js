// Starts kmini's image by the module of Testcontainers for Node, says where the broker is, and ends it when its input ends.
const { KafkaContainer } = require("@testcontainers/kafka");

async function main() {
    const container = await new KafkaContainer(process.argv[2]).start();
    console.log(`${container.getHost()}:${container.getMappedPort(9093)}`);
    for await (const _ of process.stdin) continue;
    await container.stop();
}

main().catch((error) => {
    console.error(error);
    process.exitCode = 1;
});
