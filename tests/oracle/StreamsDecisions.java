import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataDelta;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.generated.StreamsGroupTopologyValue;
import org.apache.kafka.coordinator.group.streams.StreamsTopology;
import org.apache.kafka.coordinator.group.streams.TopologyMetadata;
import org.apache.kafka.coordinator.group.streams.assignor.AssignmentMemberSpec;
import org.apache.kafka.coordinator.group.streams.assignor.GroupSpecImpl;
import org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor;
import org.apache.kafka.coordinator.group.streams.topics.InternalTopicManager;
import org.slf4j.LoggerFactory;

/** Answers each line, a topology with topics and members, with what Kafka's coordinator decides for it. */
public class StreamsDecisions {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(JSON.writeValueAsString(answer(JSON.readTree(line))));
        }
    }

    private static ObjectNode answer(JsonNode given) {
        ObjectNode answer = JSON.createObjectNode();
        Map<String, StreamsGroupTopologyValue.Subtopology> subtopologies = new LinkedHashMap<>();
        for (JsonNode each : given.get("subtopologies")) {
            subtopologies.put(each.get("id").asText(), subtopology(each));
        }
        var image = new Topics(JSON.convertValue(given.get("topics"), TreeMap.class));
        try {
            var configured = InternalTopicManager.configureTopics(LoggerFactory.getLogger("quiet"), "g", "m", 0,
                new StreamsTopology(0, subtopologies), image, Time.SYSTEM);
            var problem = configured.topicConfigurationException();
            answer.put("status", problem.map(one -> (int) one.status().code()).orElse(-1));
            ObjectNode missing = answer.putObject("missing");
            configured.internalTopicsToBeCreated().forEach((name, topic) -> missing.put(name, topic.numPartitions()));
            if (configured.subtopologies().isPresent()) {
                ObjectNode tasks = answer.putObject("tasks");
                configured.subtopologies().get().forEach((id, each) -> tasks.put(id, each.numberOfTasks()));
                Map<String, AssignmentMemberSpec> members = new HashMap<>();
                given.get("members").forEach(each -> members.put(each.get("id").asText(), new AssignmentMemberSpec(
                    Optional.empty(), Optional.empty(), tasks(each.get("active")), tasks(each.get("standby")), Map.of(),
                    each.get("process").asText(), Map.of(), Map.of(), Map.of())));
                var assigned = new StickyTaskAssignor().assign(
                    new GroupSpecImpl(members, Map.of("num.standby.replicas", given.get("standbys").asText())),
                    new TopologyMetadata(image, configured.subtopologies().get()));
                ObjectNode targets = answer.putObject("targets");
                assigned.members().forEach((id, target) -> {
                    ObjectNode roles = targets.putObject(id);
                    roles.set("active", JSON.valueToTree(target.activeTasks()));
                    roles.set("standby", JSON.valueToTree(target.standbyTasks()));
                });
            }
        } catch (RuntimeException error) {
            answer.put("error", error.getClass().getSimpleName());
        }
        return answer;
    }

    private static StreamsGroupTopologyValue.Subtopology subtopology(JsonNode given) {
        var value = new StreamsGroupTopologyValue.Subtopology().setSubtopologyId(given.get("id").asText())
            .setSourceTopics(strings(given.get("sources"))).setSourceTopicRegex(List.of())
            .setRepartitionSinkTopics(strings(given.get("sinks")));
        given.get("repartitions").fields().forEachRemaining(each -> value.repartitionSourceTopics().add(
            new StreamsGroupTopologyValue.TopicInfo().setName(each.getKey()).setPartitions(each.getValue().asInt())));
        for (JsonNode name : given.get("changelogs")) {
            value.stateChangelogTopics().add(new StreamsGroupTopologyValue.TopicInfo().setName(name.asText()));
        }
        for (JsonNode group : given.get("copartitions")) {
            value.copartitionGroups().add(new StreamsGroupTopologyValue.CopartitionGroup()
                .setSourceTopics(indexes(group.get(0))).setRepartitionSourceTopics(indexes(group.get(1))));
        }
        return value;
    }

    private static List<String> strings(JsonNode given) {
        List<String> strings = new ArrayList<>();
        given.forEach(one -> strings.add(one.asText()));
        return strings;
    }

    private static List<Short> indexes(JsonNode given) {
        List<Short> indexes = new ArrayList<>();
        given.forEach(one -> indexes.add((short) one.asInt()));
        return indexes;
    }

    private static Map<String, Set<Integer>> tasks(JsonNode given) {
        Map<String, Set<Integer>> tasks = new HashMap<>();
        given.fields().forEachRemaining(each -> {
            Set<Integer> partitions = new HashSet<>();
            each.getValue().forEach(one -> partitions.add(one.asInt()));
            tasks.put(each.getKey(), partitions);
        });
        return tasks;
    }

    /** Topics of some partitions. */
    private record Topics(Map<String, Integer> counts) implements CoordinatorMetadataImage {
        @Override public Set<Uuid> topicIds() { return Set.of(); }
        @Override public Set<String> topicNames() { return counts.keySet(); }
        @Override public Optional<TopicMetadata> topicMetadata(Uuid id) { return Optional.empty(); }
        @Override public CoordinatorMetadataDelta emptyDelta() { return null; }
        @Override public long version() { return 0; }
        @Override public boolean isEmpty() { return false; }

        @Override
        public Optional<TopicMetadata> topicMetadata(String name) {
            return Optional.ofNullable(counts.get(name)).map(count -> new TopicMetadata() {
                @Override public String name() { return name; }
                @Override public Uuid id() { return Uuid.ZERO_UUID; }
                @Override public int partitionCount() { return count; }
                @Override public List<String> partitionRacks(int partition) { return List.of(); }
            });
        }
    }
}
