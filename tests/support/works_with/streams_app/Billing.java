import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.Stores;

/** Kafka Streams with a repartitioned topic, a table that has a changelog, and a join with it, exactly once. */
public class Billing {
    /** The orders are a, b, c and so on: the number of each says whether the table lost or repeated one. */
    private static String invoice(String order, long number) {
        return order.charAt(0) - 'a' + 1 == number ? order.toUpperCase() : order + " is number " + number;
    }

    public static void main(String[] arguments) {
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> orders = builder.<String, String>stream("orders").selectKey((key, order) -> "all").repartition();
        KTable<String, Long> counts = orders.groupByKey().count(
            Materialized.<String, Long>as(Stores.inMemoryKeyValueStore("counts")).withValueSerde(Serdes.Long()));
        orders.join(counts, Billing::invoice).to("invoices");

        Properties settings = new Properties();
        settings.putAll(Map.of(
            "application.id", "billing",
            "bootstrap.servers", System.getenv("BOOTSTRAP_SERVERS"),
            "default.key.serde", Serdes.StringSerde.class,
            "default.value.serde", Serdes.StringSerde.class,
            "processing.guarantee", "exactly_once_v2",
            "state.dir", "state"));
        new KafkaStreams(builder.build(), settings).start();
    }
}
