import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** AssignedConsumerPerformance SERVERS TOPIC COUNT: read partition 0 from its beginning; print records a second since the first came. */
public class AssignedConsumerPerformance {
    public static void main(String[] arguments) {
        TopicPartition partition = new TopicPartition(arguments[1], 0);
        long count = Long.parseLong(arguments[2]);
        Map<String, Object> settings = Map.of("bootstrap.servers", arguments[0], "max.poll.records", 10_000, "check.crcs", true);
        try (var consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            long seen = 0;
            long first = 0;
            long start = System.nanoTime();
            while (seen < count) {
                int polled = consumer.poll(Duration.ofMillis(100)).count();
                if (seen == 0 && polled > 0) {
                    start = System.nanoTime();
                    first = polled;
                }
                seen += polled;
                if (System.nanoTime() - start > 120_000_000_000L)
                    throw new IllegalStateException(seen + " of " + count + " records came");
            }
            System.out.println((seen - first) * 1e9 / (System.nanoTime() - start));
        }
    }
}
