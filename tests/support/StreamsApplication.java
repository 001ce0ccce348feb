import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.ThreadMetadata;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Produced;

/**
 * One instance of an application of Kafka Streams, until a line comes on its input, or until it is killed.
 *
 * The first argument is the application: "words" counts the words of the topic "lines" in "counts", "join" joins the
 * tables of the topics "left" and "right" in "joined". The others are settings, "key=value". It prints a line whenever
 * its state or its tasks change: the state, the active tasks and the standbys.
 */
public class StreamsApplication {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        for (String argument : Arrays.asList(arguments).subList(1, arguments.length)) {
            String[] pair = argument.split("=", 2);
            settings.put(pair[0], pair[1]);
        }
        StreamsBuilder builder = new StreamsBuilder();
        if (arguments[0].equals("words")) countWords(builder);
        else join(builder);
        KafkaStreams streams = new KafkaStreams(builder.build(settings), settings);
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.start();
        String shown = "";
        while (System.in.available() == 0) {
            String now = show(streams);
            if (!now.equals(shown)) System.out.println(now);
            shown = now;
            Thread.sleep(20);
        }
        streams.close(Duration.ofSeconds(20));
        System.out.println("CLOSED");
        System.exit(0);
    }

    private static void countWords(StreamsBuilder builder) {
        builder.<String, String>stream("lines")
            .flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word, Grouped.as("by-word"))
            .count()
            .toStream()
            .mapValues(count -> Long.toString(count))
            .to("counts", Produced.with(Serdes.String(), Serdes.String()));
    }

    private static void join(StreamsBuilder builder) {
        KTable<String, String> left = builder.table("left");
        KTable<String, String> right = builder.table("right");
        left.join(right, (one, other) -> one + "+" + other).toStream().to("joined");
    }

    private static String show(KafkaStreams streams) {
        TreeSet<String> active = new TreeSet<>();
        TreeSet<String> standby = new TreeSet<>();
        for (ThreadMetadata thread : streams.metadataForLocalThreads()) {
            active.addAll(thread.activeTasks().stream().map(task -> task.taskId().toString()).collect(Collectors.toSet()));
            standby.addAll(thread.standbyTasks().stream().map(task -> task.taskId().toString()).collect(Collectors.toSet()));
        }
        return streams.state() + " " + String.join(",", active) + " " + String.join(",", standby);
    }
}
