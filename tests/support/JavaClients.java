import com.fasterxml.jackson.databind.ObjectMapper;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.serialization.*;

/**
 * Producers, consumers and admins of Kafka's client library that stay from call to call, by their names; JavaPeer runs main for each call.
 *
 * The arguments are the name of a client, the call, and its arguments. It prints one line of JSON: {"value"}, or {"thrown", "message", "retriable"},
 * where "thrown" has the classes of the exception and of its causes.
 */
public class JavaClients {
    static final Map<String, KafkaProducer<String, String>> PRODUCERS = new ConcurrentHashMap<>();
    static final Map<String, NotedConsumer> CONSUMERS = new ConcurrentHashMap<>();
    static final Map<String, ShareReader> SHARE_READERS = new ConcurrentHashMap<>();
    static final Map<String, GroupAdmin> ADMINS = new ConcurrentHashMap<>();

    public static void main(String[] arguments) throws Exception {
        List<String> rest = List.of(arguments).subList(2, arguments.length);
        Map<String, Object> outcome = new HashMap<>();
        try {
            outcome.put("value", call(arguments[0], arguments[1], rest));
        } catch (Exception exception) {
            List<String> thrown = new ArrayList<>();
            boolean isRetriable = false;
            for (Throwable each = exception; each != null; each = each.getCause()) {
                thrown.add(each.getClass().getSimpleName());
                isRetriable |= each instanceof RetriableException;
            }
            outcome.putAll(Map.of("thrown", thrown, "message", String.valueOf(exception.getMessage()), "retriable", isRetriable));
        }
        System.out.println(new ObjectMapper().writeValueAsString(outcome));
    }

    static Object call(String name, String call, List<String> arguments) throws Exception {
        if (call.equals("new producer"))
            PRODUCERS.put(name, new KafkaProducer<>(settings(arguments), new StringSerializer(), new StringSerializer()));
        else if (call.equals("new consumer"))
            CONSUMERS.put(name, new NotedConsumer(settings(arguments)));
        else if (call.equals("new share consumer"))
            SHARE_READERS.put(name, new ShareReader(settings(arguments)));
        else if (call.equals("new admin"))
            ADMINS.put(name, new GroupAdmin(settings(arguments)));
        else if (call.equals("close") && !PRODUCERS.containsKey(name) && !CONSUMERS.containsKey(name) && !SHARE_READERS.containsKey(name) && !ADMINS.containsKey(name))
            return null; // it is closed already
        else if (ADMINS.containsKey(name))
            return ADMINS.get(name).call(call, arguments);
        else if (CONSUMERS.containsKey(name))
            return CONSUMERS.get(name).call(call, arguments);
        else if (SHARE_READERS.containsKey(name))
            return SHARE_READERS.get(name).call(call, arguments);
        else
            return producerCall(name, call, arguments);
        return null;
    }

    static Object producerCall(String name, String call, List<String> arguments) throws Exception {
        KafkaProducer<String, String> producer = PRODUCERS.get(name);
        switch (call) {
            case "send":
                var record = new ProducerRecord<String, String>(arguments.get(0), 0, null, arguments.get(1));
                return producer.send(record).get(30, TimeUnit.SECONDS).offset();
            case "init":
                producer.initTransactions();
                break;
            case "begin":
                producer.beginTransaction();
                break;
            case "send offsets": // of a consumer, by its name: the topic and the offset
                ConsumerGroupMetadata group = CONSUMERS.get(arguments.get(0)).consumer.groupMetadata();
                producer.sendOffsetsToTransaction(offset(arguments.subList(1, 3)), group);
                break;
            case "commit":
                producer.commitTransaction();
                break;
            case "abort":
                producer.abortTransaction();
                break;
            case "close":
                PRODUCERS.remove(name).close(Duration.ofMillis(500));
                break;
            default:
                throw new IllegalArgumentException(call);
        }
        return null;
    }

    /** A consumer of partition 0 of topics, which notes what happens to its partitions. */
    static class NotedConsumer implements ConsumerRebalanceListener {
        final KafkaConsumer<String, String> consumer;
        final List<String> events = Collections.synchronizedList(new ArrayList<>());

        NotedConsumer(Properties settings) {
            consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
        }

        Object call(String call, List<String> arguments) {
            switch (call) {
                case "subscribe":
                    consumer.subscribe(arguments, this);
                    return null;
                case "assign":
                    consumer.assign(List.of(place(arguments)));
                    return null;
                case "seek": // to an offset, and with the leader epoch of the record before it
                    var epoch = arguments.size() < 3 ? Optional.<Integer>empty() : Optional.of(Integer.parseInt(arguments.get(2)));
                    consumer.seek(place(arguments), new OffsetAndMetadata(Long.parseLong(arguments.get(1)), epoch, ""));
                    return null;
                case "poll":
                    List<String> values = new ArrayList<>();
                    consumer.poll(Duration.ofMillis(50)).forEach(record -> values.add(record.value()));
                    return values;
                case "commit":
                    consumer.commitSync(offset(arguments));
                    return null;
                case "committed":
                    OffsetAndMetadata committed = consumer.committed(Set.of(place(arguments))).get(place(arguments));
                    return committed == null ? null : committed.offset();
                case "events":
                    return List.copyOf(events);
                case "close":
                    CONSUMERS.values().remove(this);
                    consumer.close(CloseOptions.timeout(Duration.ofMillis(500)));
                    return null;
                default:
                    throw new IllegalArgumentException(call);
            }
        }

        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            events.add("assigned");
        }

        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            events.add("revoked");
        }

        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            events.add("lost");
        }
    }

    /** A member of a share group that acknowledges each record by a call. */
    static class ShareReader {
        final KafkaShareConsumer<String, String> consumer;
        final Map<String, ConsumerRecord<String, String>> unacknowledged = new HashMap<>();

        ShareReader(Properties settings) {
            consumer = new KafkaShareConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
        }

        Object call(String call, List<String> arguments) {
            switch (call) {
                case "subscribe":
                    consumer.subscribe(arguments);
                    return null;
                case "poll": // the values of the records, each with its delivery count
                    List<List<Object>> values = new ArrayList<>();
                    for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(50))) {
                        values.add(List.of(record.value(), record.deliveryCount().get()));
                        unacknowledged.put(record.value(), record);
                    }
                    return values;
                case "acknowledge": // the records of these values, as the first argument says
                    for (String value : arguments.subList(1, arguments.size()))
                        consumer.acknowledge(unacknowledged.remove(value), AcknowledgeType.valueOf(arguments.get(0)));
                    return null;
                case "commit": // the exceptions of the partitions that have one
                    List<String> thrown = new ArrayList<>();
                    consumer.commitSync().values().forEach(error -> error.ifPresent(each -> thrown.add(each.getClass().getSimpleName())));
                    return thrown;
                case "close":
                    SHARE_READERS.values().remove(this);
                    consumer.close(Duration.ofMillis(500));
                    return null;
                default:
                    throw new IllegalArgumentException(call);
            }
        }
    }

    /** An admin that asks about consumer groups and changes them; the first argument of each call is a group. */
    static class GroupAdmin {
        final Admin admin;

        GroupAdmin(Properties settings) {
            admin = Admin.create(settings);
        }

        Object call(String call, List<String> arguments) throws Exception {
            switch (call) {
                case "list": // all groups: the type, the protocol and the state of each
                    Map<String, List<String>> listed = new TreeMap<>();
                    for (GroupListing group : admin.listGroups().all().get())
                        listed.put(group.groupId(), List.of(text(group.type()), group.protocol(), text(group.groupState())));
                    return listed;
                case "describe":
                    return described(admin.describeConsumerGroups(arguments).all().get().get(arguments.get(0)));
                case "delete":
                    return admin.deleteConsumerGroups(arguments).all().get();
                case "offsets": // the partitions of the group, as topic-number, with their offsets
                    Map<String, Long> offsets = new TreeMap<>();
                    admin.listConsumerGroupOffsets(arguments.get(0)).partitionsToOffsetAndMetadata().get()
                        .forEach((partition, offset) -> offsets.put(partition.toString(), offset.offset()));
                    return offsets;
                case "alter offset":
                    return admin.alterConsumerGroupOffsets(arguments.get(0), offset(arguments.subList(1, 3))).all().get();
                case "set": // a setting of the group
                    var op = new AlterConfigOp(new ConfigEntry(arguments.get(1), arguments.get(2)), AlterConfigOp.OpType.SET);
                    var group = new ConfigResource(ConfigResource.Type.GROUP, arguments.get(0));
                    return admin.incrementalAlterConfigs(Map.of(group, List.of(op))).all().get();
                case "delete offset":
                    var partitions = Set.of(place(arguments.subList(1, 2)));
                    return admin.deleteConsumerGroupOffsets(arguments.get(0), partitions).all().get();
                case "close":
                    ADMINS.values().remove(this);
                    admin.close(Duration.ofMillis(500));
                    return null;
                default:
                    throw new IllegalArgumentException(call);
            }
        }

        static String text(Optional<?> value) {
            return value.map(Object::toString).orElse("");
        }

        static Map<String, Object> described(ConsumerGroupDescription group) {
            Map<String, Object> description = new HashMap<>();
            description.put("type", group.type().toString());
            description.put("state", group.groupState().toString());
            description.put("assignor", group.partitionAssignor());
            description.put("epoch", group.groupEpoch().orElse(null));
            description.put("target epoch", group.targetAssignmentEpoch().orElse(null));
            description.put("members", group.members().stream().map(GroupAdmin::described).toList());
            return description;
        }

        static Map<String, Object> described(MemberDescription member) {
            Map<String, Object> description = new HashMap<>();
            description.put("client id", member.clientId());
            description.put("host", member.host());
            description.put("instance", member.groupInstanceId().orElse(null));
            description.put("epoch", member.memberEpoch().orElse(null));
            description.put("upgraded", member.upgraded().orElse(null));
            description.put("assignment", partitions(member.assignment()));
            description.put("target", member.targetAssignment().map(GroupAdmin::partitions).orElse(null));
            return description;
        }

        static List<String> partitions(MemberAssignment assignment) {
            return assignment.topicPartitions().stream().map(TopicPartition::toString).sorted().toList();
        }
    }

    static TopicPartition place(List<String> arguments) {
        return new TopicPartition(arguments.get(0), 0);
    }

    static Map<TopicPartition, OffsetAndMetadata> offset(List<String> arguments) {
        return Map.of(place(arguments), new OffsetAndMetadata(Long.parseLong(arguments.get(1))));
    }

    static Properties settings(List<String> arguments) {
        Properties settings = new Properties();
        for (String argument : arguments) {
            String[] parts = argument.split("=", 2);
            if (parts[0].startsWith("system.")) {  // a property of the JVM
                System.setProperty(parts[0].substring("system.".length()), parts[1]);
            } else {
                settings.put(parts[0], parts[1]);
            }
        }
        return settings;
    }
}
