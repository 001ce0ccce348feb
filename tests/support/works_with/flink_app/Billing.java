package billing;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Comparator;
import java.util.Optional;
import java.util.stream.Stream;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.ExternalizedCheckpointRetention;
import org.apache.flink.configuration.StateRecoveryOptions;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/** Flink in one process, with its exactly-once sink: it goes on from its last checkpoint. */
public class Billing {
    public static void main(String[] arguments) throws Exception {
        String servers = System.getenv("BOOTSTRAP_SERVERS");
        Path checkpoints = Files.createDirectories(Path.of("checkpoints").toAbsolutePath());
        Configuration configuration = new Configuration();
        configuration.set(CheckpointingOptions.CHECKPOINT_STORAGE, "filesystem");
        configuration.set(CheckpointingOptions.CHECKPOINTS_DIRECTORY, checkpoints.toUri().toString());
        configuration.set(CheckpointingOptions.CHECKPOINTING_INTERVAL, Duration.ofSeconds(1));
        configuration.set(CheckpointingOptions.EXTERNALIZED_CHECKPOINT_RETENTION,
            ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION);
        last(checkpoints).ifPresent(path ->
            configuration.set(StateRecoveryOptions.SAVEPOINT_PATH, path.toUri().toString()));

        KafkaSource<String> orders = KafkaSource.<String>builder()
            .setBootstrapServers(servers)
            .setGroupId("billing")
            .setTopics("orders")
            .setValueOnlyDeserializer(new SimpleStringSchema())
            .build();
        KafkaSink<String> invoices = KafkaSink.<String>builder()
            .setBootstrapServers(servers)
            .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
            .setTransactionalIdPrefix("billing")
            // Flink asks for an hour, which is more than a broker allows at its defaults.
            .setProperty("transaction.timeout.ms", "900000")
            .setRecordSerializer(KafkaRecordSerializationSchema.builder()
                .setTopic("invoices")
                .setValueSerializationSchema(new SimpleStringSchema())
                .build())
            .build();
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment(configuration);
        environment.fromSource(orders, WatermarkStrategy.noWatermarks(), "orders")
            .map(String::toUpperCase)
            .sinkTo(invoices);
        environment.execute();
    }

    /** The newest checkpoint that is complete. */
    private static Optional<Path> last(Path checkpoints) throws IOException {
        try (Stream<Path> files = Files.walk(checkpoints)) {
            return files.filter(file -> file.endsWith("_metadata"))
                .max(Comparator.comparing(file -> file.toFile().lastModified()))
                .map(Path::getParent);
        }
    }
}
