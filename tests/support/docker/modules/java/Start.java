import org.testcontainers.containers.GenericContainer;
import org.testcontainers.kafka.ConfluentKafkaContainer;
import org.testcontainers.kafka.KafkaContainer;
import org.testcontainers.utility.DockerImageName;

/** Starts kmini's image by a class of Testcontainers for Java, says where the broker is, and ends it when its input ends. */
class Start {
    @SuppressWarnings("deprecation")
    public static void main(String[] arguments) throws Exception {
        DockerImageName image = DockerImageName.parse(arguments[0]);
        DockerImageName apache = image.asCompatibleSubstituteFor("apache/kafka");
        DockerImageName confluent = image.asCompatibleSubstituteFor("confluentinc/cp-kafka");
        GenericContainer<?> container = switch (arguments[1]) {
            case "KafkaContainer" -> new KafkaContainer(apache);
            case "ConfluentKafkaContainer" -> new ConfluentKafkaContainer(confluent);
            case "deprecated" -> new org.testcontainers.containers.KafkaContainer(confluent);
            case "deprecated, withKraft" -> new org.testcontainers.containers.KafkaContainer(confluent).withKraft();
            default -> throw new IllegalArgumentException(arguments[1]);
        };
        int port = arguments[1].startsWith("deprecated") ? 9093 : 9092;
        try (container) {
            container.start();
            System.out.println(container.getHost() + ":" + container.getMappedPort(port));
            System.in.readAllBytes();
        }
    }
}
