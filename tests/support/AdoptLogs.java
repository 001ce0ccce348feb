import java.io.Reader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Properties;
import java.util.Set;
import java.util.stream.Stream;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.ProducerIdsRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.metadata.bootstrap.BootstrapDirectory;
import org.apache.kafka.metadata.bootstrap.BootstrapMetadata;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/**
 * AdoptLogs LOG_DIRECTORY LEADER_EPOCH NEXT_PRODUCER_ID: tell a broker that is about to start for the first time about the
 * partitions whose folders already lie in its log directory, by adding their records to bootstrap.checkpoint.
 *
 * The epoch must not be below any that the batches carry, and the producer id must be above them all: the logs remember the
 * sequence numbers of their producers, so that a new producer with an old id would be refused or taken for a duplicate.
 */
public class AdoptLogs {
    public static void main(String[] arguments) throws Exception {
        Path directory = Path.of(arguments[0]);
        int leaderEpoch = Integer.parseInt(arguments[1]);
        Properties meta = new Properties();
        try (Reader reader = Files.newBufferedReader(directory.resolve("meta.properties"))) {
            meta.load(reader);
        }
        int node = Integer.parseInt(meta.getProperty("node.id"));
        Uuid directoryId = Uuid.fromString(meta.getProperty("directory.id"));
        BootstrapDirectory bootstrap = new BootstrapDirectory(directory.toString());
        List<ApiMessageAndVersion> records = new ArrayList<>(bootstrap.read().records());
        Set<Uuid> known = new HashSet<>();
        List<Path> folders;
        try (Stream<Path> entries = Files.list(directory)) {
            folders = entries.filter(entry -> Files.exists(entry.resolve("partition.metadata"))).sorted().toList();
        }
        for (Path folder : folders) {
            String name = folder.getFileName().toString();
            int dash = name.lastIndexOf('-');
            String idLine = Files.readAllLines(folder.resolve("partition.metadata")).get(1);
            Uuid topicId = Uuid.fromString(idLine.substring("topic_id: ".length()));
            if (known.add(topicId)) {
                TopicRecord topic = new TopicRecord().setName(name.substring(0, dash)).setTopicId(topicId);
                records.add(new ApiMessageAndVersion(topic, (short) 0));
            }
            PartitionRecord partition = new PartitionRecord()
                .setTopicId(topicId).setPartitionId(Integer.parseInt(name.substring(dash + 1)))
                .setReplicas(List.of(node)).setIsr(List.of(node)).setDirectories(List.of(directoryId))
                .setLeader(node).setLeaderEpoch(leaderEpoch).setPartitionEpoch(0);
            records.add(new ApiMessageAndVersion(partition, (short) 2));
        }
        ProducerIdsRecord producerIds = new ProducerIdsRecord().setBrokerId(node).setBrokerEpoch(0).setNextProducerId(Long.parseLong(arguments[2]));
        records.add(new ApiMessageAndVersion(producerIds, (short) 0));
        bootstrap.writeBinaryFile(BootstrapMetadata.fromRecords(records, "kmini tests"));
    }
}
