import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.*;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.ConcurrentHashMap;
import javax.tools.ToolProvider;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.serialization.*;
import org.apache.kafka.common.utils.Exit;

/**
 * One JVM for all the Java work of a test run: Kafka's own tools, a producer and a consumer.
 *
 * Each line on stdin is a request {"id", "main", "arguments", "stdin"}, answered in any order by a line {"id", "exit", "stdout", "stderr"}.
 * A "main" with a dot is a class of Kafka's whose main is run; "produce", "consume" and "administer" are ours. Each request has a thread, its own System.in,
 * System.out and System.err (threads started by it inherit them), and its own copy of the tool's classes, because tools keep state in statics.
 * A "main" that ends with .java is a source of ours, which is compiled with its first request: its statics stay.
 */
public class JavaPeer {
    static final ObjectMapper JSON = new ObjectMapper();
    static final InheritableThreadLocal<Run> CURRENT = new InheritableThreadLocal<>();

    /** What one request reads, writes and ends with. */
    static class Run {
        final InputStream in;
        final ByteArrayOutputStream out = new ByteArrayOutputStream();
        final ByteArrayOutputStream err = new ByteArrayOutputStream();
        final List<Runnable> hooks = new ArrayList<>();
        Integer exit;

        Run(String stdin) {
            in = new ByteArrayInputStream(stdin.getBytes(StandardCharsets.UTF_8));
        }
    }

    /** Unwinds a tool that called exit; an Error, so that a tool's own `catch (Exception)` lets it pass. */
    static class Exited extends Error {
        Exited() {
            super("the tool called exit", null, false, false);
        }
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        PrintStream log = System.err;
        System.setIn(new InputStream() {
            public int read() throws IOException {
                return CURRENT.get().in.read();
            }

            public int read(byte[] buffer, int offset, int length) throws IOException {
                return CURRENT.get().in.read(buffer, offset, length);
            }
        });
        InputStream requests = new FileInputStream(FileDescriptor.in);
        System.setOut(dispatching(run -> run.out, log));
        System.setErr(dispatching(run -> run.err, log));
        Exit.setExitProcedure((code, message) -> exit(code, message));
        Exit.setHaltProcedure((code, message) -> exit(code, message));
        Exit.setShutdownHookAdder((name, hook) -> CURRENT.get().hooks.add(hook));
        BufferedReader lines = new BufferedReader(new InputStreamReader(requests, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode request = JSON.readTree(line);
            Thread thread = new Thread(() -> {
                ObjectNode answer = answer(request);
                synchronized (answers) {
                    answers.println(answer);
                    answers.flush();
                }
            });
            thread.setDaemon(true);
            thread.start();
        }
    }

    interface Stream {
        OutputStream of(Run run);
    }

    static PrintStream dispatching(Stream stream, PrintStream otherwise) {
        return new PrintStream(new OutputStream() {
            OutputStream target() {
                return CURRENT.get() == null ? otherwise : stream.of(CURRENT.get());
            }

            public void write(int value) throws IOException {
                target().write(value);
            }

            public void write(byte[] buffer, int offset, int length) throws IOException {
                target().write(buffer, offset, length);
            }
        }, true, StandardCharsets.UTF_8) {
            @Override
            public void close() { // a tool that closes its output must not close the next one's
                flush();
            }
        };
    }

    static void exit(int code, String message) {
        Run run = CURRENT.get();
        if (run.exit == null)
            run.exit = code;
        if (message != null)
            System.err.println(message);
        throw new Exited();
    }

    static ObjectNode answer(JsonNode request) {
        Run run = new Run(request.path("stdin").asText(""));
        CURRENT.set(run);
        List<String> arguments = new ArrayList<>();
        request.path("arguments").forEach(argument -> arguments.add(argument.asText()));
        try {
            String main = request.get("main").asText();
            if (main.equals("produce"))
                produce(arguments);
            else if (main.equals("consume"))
                consume(arguments);
            else if (main.equals("administer"))
                administer(arguments);
            else if (main.endsWith(".java"))
                COMPILED.computeIfAbsent(main, JavaPeer::compile).invoke(null, (Object) arguments.toArray(new String[0]));
            else
                runTool(main, arguments.toArray(new String[0]));
        } catch (Exited exited) {
            // the code is in run.exit
        } catch (Throwable failure) {
            failure.printStackTrace();
            if (run.exit == null)
                run.exit = 1;
        }
        run.hooks.forEach(Runnable::run);
        System.out.flush();
        System.err.flush();
        ObjectNode answer = JSON.createObjectNode();
        answer.set("id", request.get("id"));
        answer.put("exit", run.exit == null ? 0 : run.exit);
        answer.put("stdout", run.out.toString(StandardCharsets.UTF_8));
        answer.put("stderr", run.err.toString(StandardCharsets.UTF_8));
        return answer;
    }

    static final Map<String, Method> COMPILED = new ConcurrentHashMap<>();

    /** Compiles a source to the folder of the system property compiled.classes; returns the main of its class. */
    static Method compile(String source) {
        String classes = System.getProperty("compiled.classes");
        String[] options = {"-cp", System.getProperty("java.class.path"), "-proc:none", "-d", classes, source};
        if (ToolProvider.getSystemJavaCompiler().run(null, null, null, options) != 0)
            throw new IllegalArgumentException(source + " is not compiled");
        try {
            var loader = new URLClassLoader(new URL[] {new File(classes).toURI().toURL()}); // open as long as the classes are used
            return loader.loadClass(new File(source).getName().replace(".java", "")).getMethod("main", String[].class);
        } catch (IOException | ReflectiveOperationException failure) {
            throw new IllegalStateException(failure);
        }
    }

    static void runTool(String name, String[] arguments) throws Throwable {
        List<URL> jars = new ArrayList<>();
        for (String entry : System.getProperty("java.class.path").split(File.pathSeparator))
            if (new File(entry).getName().startsWith("kafka-tools-"))
                jars.add(new File(entry).toURI().toURL());
        try (URLClassLoader tools = new ToolLoader(jars.toArray(new URL[0]))) {
            Thread.currentThread().setContextClassLoader(tools);
            Method main = tools.loadClass(name).getMethod("main", String[].class);
            main.setAccessible(true);
            main.invoke(null, (Object) arguments);
        } catch (InvocationTargetException invocation) {
            throw invocation.getCause();
        }
    }

    /** Loads Kafka's tools afresh for each run, and everything below them once. */
    static class ToolLoader extends URLClassLoader {
        ToolLoader(URL[] jars) {
            super(jars, JavaPeer.class.getClassLoader());
        }

        @Override
        protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
            synchronized (getClassLoadingLock(name)) {
                if (!name.startsWith("org.apache.kafka.tools.") || name.startsWith("org.apache.kafka.tools.api."))
                    return super.loadClass(name, resolve);
                Class<?> loaded = findLoadedClass(name);
                return loaded != null ? loaded : findClass(name);
            }
        }
    }

    static Properties properties(List<String> settings) {
        Properties properties = new Properties();
        for (String setting : settings) {
            int equals = setting.indexOf('=');
            properties.put(setting.substring(0, equals), setting.substring(equals + 1));
        }
        return properties;
    }

    /**
     * produce TOPIC PARTITION FILE HOLD key=value…: send FILE's records; print the offset of each acknowledged one, "error" for the others.
     * The last records are held back until the file HOLD exists.
     */
    static void produce(List<String> arguments) throws Exception {
        String topic = arguments.get(0);
        int partition = Integer.parseInt(arguments.get(1));
        List<String> lines = Files.readAllLines(Path.of(arguments.get(2)));
        Path hold = Path.of(arguments.get(3));
        String[] outcomes = new String[lines.size()];
        Properties properties = properties(arguments.subList(4, arguments.size()));
        try (var producer = new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (int i = 0; i < outcomes.length; i++) {
                int index = i;
                while (i == outcomes.length - 10 && !Files.exists(hold))
                    Thread.sleep(10);
                JsonNode record = JSON.readTree(lines.get(i));
                RecordHeaders headers = new RecordHeaders();
                for (JsonNode header : record.get("headers"))
                    headers.add(header.get(0).asText(), bytes(header.get(1)));
                Long timestamp = record.get("timestamp").isNull() ? null : record.get("timestamp").asLong();
                producer.send(
                    new ProducerRecord<>(topic, partition, timestamp, bytes(record.get("key")), bytes(record.get("value")), headers),
                    (metadata, failure) -> outcomes[index] = failure == null ? Long.toString(metadata.offset()) : "error");
            }
        }
        System.out.println(String.join("\n", outcomes));
    }

    /** consume TOPIC PARTITION COUNT FILE key=value…: write the first COUNT records of a partition, with their offsets, to FILE. */
    static void consume(List<String> arguments) throws Exception {
        TopicPartition partition = new TopicPartition(arguments.get(0), Integer.parseInt(arguments.get(1)));
        int count = Integer.parseInt(arguments.get(2));
        long deadline = System.nanoTime() + Duration.ofSeconds(30).toNanos();
        Properties properties = properties(arguments.subList(4, arguments.size()));
        try (var consumer = new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
             Writer file = Files.newBufferedWriter(Path.of(arguments.get(3)))) {
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            for (int seen = 0; seen < count && System.nanoTime() < deadline; ) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    ObjectNode line = JSON.createObjectNode();
                    line.put("offset", record.offset()).put("timestamp", record.timestamp());
                    line.put("key", record.key()).put("value", record.value());
                    ArrayNode headers = line.putArray("headers");
                    for (Header header : record.headers())
                        headers.addArray().add(header.key()).add(header.value());
                    file.write(line + "\n");
                    seen++;
                }
            }
        }
    }

    interface Call {
        Object get() throws Exception;
    }

    /**
     * administer TOPIC GROUP key=value…: ask, and then change, what AKHQ and Kafka-UI ask and change.
     * A line "call<TAB>answer" for each; a failure as "!" and its class.
     */
    static void administer(List<String> arguments) throws Exception {
        Properties properties = properties(arguments.subList(2, arguments.size()));
        try (Admin admin = Admin.create(properties);
             var consumer = new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            int node = admin.describeCluster().nodes().get().iterator().next().id();
            Map<String, Call> calls = new LinkedHashMap<>();
            askTheCluster(calls, admin, node);
            askAboutATopic(calls, admin, arguments.get(0), node);
            askAboutOffsets(calls, admin, consumer, new TopicPartition(arguments.get(0), 0));
            askAboutGroups(calls, admin, arguments.get(1));
            changeThings(calls, admin, arguments.get(0), arguments.get(1), node);
            for (var entry : calls.entrySet())
                System.out.println(entry.getKey() + "\t" + outcome(entry.getValue()));
        }
    }

    static void askTheCluster(Map<String, Call> calls, Admin admin, int node) {
        ConfigResource broker = new ConfigResource(ConfigResource.Type.BROKER, Integer.toString(node));
        var operations = new DescribeClusterOptions().includeAuthorizedOperations(true);
        var fenced = new DescribeClusterOptions().includeFencedBrokers(true);
        var everything = new DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(true);
        calls.put("describeCluster", () -> admin.describeCluster(operations).authorizedOperations().get());
        calls.put("clusterId", () -> admin.describeCluster().clusterId().get());
        calls.put("controller", () -> admin.describeCluster(fenced).controller().get());
        calls.put("describeFeatures", () -> admin.describeFeatures().featureMetadata().get());
        calls.put("describeMetadataQuorum", () -> admin.describeMetadataQuorum().quorumInfo().get());
        calls.put("describeConfigsOfBroker", () -> admin.describeConfigs(List.of(broker), everything).all().get());
        calls.put("describeLogDirs", () -> admin.describeLogDirs(List.of(node)).allDescriptions().get());
        calls.put("describeAcls", () -> admin.describeAcls(AclBindingFilter.ANY).values().get());
        calls.put("describeClientQuotas", () -> admin.describeClientQuotas(ClientQuotaFilter.all()).entities().get());
        calls.put("describeUserScramCredentials", () -> admin.describeUserScramCredentials().all().get());
        calls.put("listConfigResources", () -> admin.listConfigResources().all().get());
        calls.put("listPartitionReassignments", () -> admin.listPartitionReassignments().reassignments().get());
    }

    static void askAboutATopic(Map<String, Call> calls, Admin admin, String topic, int node) {
        List<String> topics = List.of(topic);
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        var internal = new ListTopicsOptions().listInternal(true);
        var operations = new DescribeTopicsOptions().includeAuthorizedOperations(true);
        var pages = new DescribeTopicsOptions().partitionSizeLimitPerResponse(1);
        var replica = new TopicPartitionReplica(topic, 0, node);
        var partition = new TopicPartition(topic, 0);
        calls.put("listTopics", () -> admin.listTopics(internal).names().get());
        calls.put("describeTopics", () -> admin.describeTopics(topics, operations).allTopicNames().get());
        calls.put("describeTopicsInPages", () -> admin.describeTopics(topics, pages).allTopicNames().get());
        calls.put("describeConfigsOfTopic", () -> admin.describeConfigs(List.of(resource)).all().get());
        calls.put("describeReplicaLogDirs", () -> admin.describeReplicaLogDirs(List.of(replica)).all().get());
        calls.put("describeProducers", () -> admin.describeProducers(List.of(partition)).all().get());
    }

    static void askAboutOffsets(Map<String, Call> calls, Admin admin, Consumer<?, ?> consumer, TopicPartition partition) {
        var specs = List.of(OffsetSpec.earliest(), OffsetSpec.latest(), OffsetSpec.maxTimestamp(), OffsetSpec.forTimestamp(0),
            OffsetSpec.earliestLocal(), OffsetSpec.latestTiered());
        for (var spec : specs)
            calls.put("listOffsets" + spec.getClass().getSimpleName(), () -> admin.listOffsets(Map.of(partition, spec)).all().get());
        calls.put("beginningOffsets", () -> consumer.beginningOffsets(List.of(partition)));
        calls.put("endOffsets", () -> consumer.endOffsets(List.of(partition)));
    }

    static void askAboutGroups(Map<String, Call> calls, Admin admin, String group) {
        var operations = new DescribeConsumerGroupsOptions().includeAuthorizedOperations(true);
        calls.put("listGroups", () -> admin.listGroups().all().get());
        calls.put("listConsumerGroups", () -> admin.listGroups(ListGroupsOptions.forConsumerGroups()).all().get());
        calls.put("describeConsumerGroups", () -> admin.describeConsumerGroups(List.of(group), operations).all().get());
        calls.put("describeClassicGroups", () -> admin.describeClassicGroups(List.of(group)).all().get());
        calls.put("listConsumerGroupOffsets", () -> admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get());
    }

    static void changeThings(Map<String, Call> calls, Admin admin, String topic, String group, int node) {
        TopicPartition partition = new TopicPartition(topic, 0);
        var ofTopic = setting(ConfigResource.Type.TOPIC, topic, "retention.ms", "100000000000");
        var ofBroker = setting(ConfigResource.Type.BROKER, Integer.toString(node), "log.cleaner.backoff.ms", "15000");
        var here = Optional.of(new NewPartitionReassignment(List.of(node)));
        calls.put("electLeaders", () -> admin.electLeaders(ElectionType.PREFERRED, Set.of(partition)).partitions().get().keySet());
        calls.put("alterPartitionReassignments", () -> admin.alterPartitionReassignments(Map.of(partition, here)).all().get());
        calls.put("alterReplicaLogDirs", () -> {
            String directory = admin.describeLogDirs(List.of(node)).allDescriptions().get().get(node).keySet().iterator().next();
            return admin.alterReplicaLogDirs(Map.of(new TopicPartitionReplica(topic, 0, node), directory)).all().get();
        });
        calls.put("createPartitions", () -> admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(3))).all().get());
        calls.put("alterConfigsOfTopic", () -> admin.incrementalAlterConfigs(ofTopic).all().get());
        calls.put("alterConfigsOfBroker", () -> admin.incrementalAlterConfigs(ofBroker).all().get());
        calls.put("deleteRecords", () -> admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(0))).all().get());
        for (Double limit : new Double[] {1024.0, null}) {
            var op = new ClientQuotaAlteration.Op("producer_byte_rate", limit);
            var alteration = new ClientQuotaAlteration(new ClientQuotaEntity(Map.of("user", topic)), List.of(op));
            calls.put("alterClientQuotas" + limit, () -> admin.alterClientQuotas(List.of(alteration)).all().get());
        }
        String moved = group + "-moved";
        var first = Map.of(partition, new OffsetAndMetadata(1));
        calls.put("alterConsumerGroupOffsets", () -> admin.alterConsumerGroupOffsets(moved, first).all().get());
        calls.put("deleteConsumerGroupOffsets", () -> admin.deleteConsumerGroupOffsets(moved, Set.of(partition)).all().get());
        calls.put("deleteConsumerGroups", () -> admin.deleteConsumerGroups(List.of(moved)).all().get());
        NewTopic fresh = new NewTopic(topic + "-fresh", Optional.of(2), Optional.empty()).configs(Map.of("cleanup.policy", "compact"));
        calls.put("createTopics", () -> admin.createTopics(List.of(fresh)).all().get());
        calls.put("deleteTopics", () -> admin.deleteTopics(List.of(fresh.name())).all().get());
    }

    static Map<ConfigResource, Collection<AlterConfigOp>> setting(ConfigResource.Type type, String name, String key, String value) {
        AlterConfigOp set = new AlterConfigOp(new ConfigEntry(key, value), AlterConfigOp.OpType.SET);
        return Map.of(new ConfigResource(type, name), List.of(set));
    }

    static String outcome(Call call) {
        try {
            return String.valueOf(call.get()).replace('\n', ' ');
        } catch (Exception failure) {
            Throwable cause = failure instanceof java.util.concurrent.ExecutionException ? failure.getCause() : failure;
            return "!" + cause.getClass().getSimpleName() + " " + String.valueOf(cause.getMessage()).replace('\n', ' ');
        }
    }

    static byte[] bytes(JsonNode base64) throws IOException {
        return base64.isNull() ? null : base64.binaryValue();
    }
}
