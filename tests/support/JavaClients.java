import com.fasterxml.jackson.databind.ObjectMapper;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.serialization.*;

/**
 * Producers and consumers of Kafka's client library that stay from call to call, by their names; JavaPeer runs main for each call.
 *
 * The arguments are the name of a client, the call, and its arguments. It prints one line of JSON: {"value"}, or {"thrown", "message", "retriable"},
 * where "thrown" has the classes of the exception and of its causes.
 */
public class JavaClients {
    static final Map<String, KafkaProducer<String, String>> PRODUCERS = new ConcurrentHashMap<>();
    static final Map<String, NotedConsumer> CONSUMERS = new ConcurrentHashMap<>();

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
        else if (CONSUMERS.containsKey(name))
            return CONSUMERS.get(name).call(call, arguments);
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
            settings.put(parts[0], parts[1]);
        }
        return settings;
    }
}
