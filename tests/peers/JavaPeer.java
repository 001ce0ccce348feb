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
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.*;
import org.apache.kafka.common.utils.Exit;

/**
 * One JVM for all the Java work of a test run: Kafka's own tools, a producer and a consumer.
 *
 * Each line on stdin is a request {"id", "main", "arguments", "stdin"}, answered in any order by a line {"id", "exit", "stdout", "stderr"}.
 * A "main" with a dot is a class of Kafka's whose main is run; "produce" and "consume" are ours. Each request has a thread, its own System.in,
 * System.out and System.err (threads started by it inherit them), and its own copy of the tool's classes, because tools keep state in statics.
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

    static byte[] bytes(JsonNode base64) throws IOException {
        return base64.isNull() ? null : base64.binaryValue();
    }
}
