import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Two tests without a framework; in JUnit, each is a method with @Test. */
public class OrdersTest {
    static final String KAFKA = System.getenv().getOrDefault("KAFKA", "localhost:9092");
    static final String KMINI = System.getenv().getOrDefault("KMINI", "http://localhost:8090");
    static final String TOKEN = System.getenv().getOrDefault("KMINI_HTTP_TOKEN", "");
    static final HttpClient HTTP = HttpClient.newHttpClient();

    /** Call the control API; a problem is an exception with what it says. */
    static String api(String verb, String path, String json) throws Exception {
        var request = HttpRequest.newBuilder(URI.create(KMINI + "/api/v1" + path))
            .method(verb, BodyPublishers.ofString(json))
            .header("Content-Type", "application/json")
            .header("Authorization", "Bearer " + TOKEN)
            .build();
        var answer = HTTP.send(request, BodyHandlers.ofString());
        if (answer.statusCode() >= 300) {
            throw new IllegalStateException(verb + " " + path + ": " + answer.body());
        }
        return answer.body();
    }

    static void produce(String order) throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", KAFKA);
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            producer.send(new ProducerRecord<>("orders", order)).get();
        }
    }

    static String firstOrder() {
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", KAFKA, "group.id", "billing", "auto.offset.reset", "earliest");
        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of("orders"));
            for (long end = System.nanoTime() + Duration.ofSeconds(30).toNanos(); System.nanoTime() < end; ) {
                for (var record : consumer.poll(Duration.ofSeconds(1))) {
                    return record.value();
                }
            }
        }
        throw new AssertionError("no order comes");
    }

    static void aProducerGoesOnWhenTheLeaderMoves() throws Exception {
        api("POST", "/reset", "");
        api("POST", "/topics", """
            {"name": "orders", "partitions": 1}""");
        api("PUT", "/faults", """
            {"rules": [{
                "name": "moved",
                "when": {"api": ["Produce"], "topic": "orders"},
                "which": {"times": 2},
                "do": [{"error": "NOT_LEADER_OR_FOLLOWER"}]
            }]}""");
        produce("order 1");
        check(api("GET", "/faults/moved", "").contains("\"hits\": 2"), "the rule was not met twice");
        check(firstOrder().equals("order 1"), "the order is lost");
    }

    static void ordersAreKeptForADay() throws Exception {
        api("POST", "/reset", "");
        api("POST", "/topics", """
            {"name": "orders", "partitions": 1, "config": {
                "retention.ms": 86400000, "message.timestamp.type": "LogAppendTime"
            }}""");
        produce("order 1");
        api("POST", "/clock/advance", """
            {"duration": "7d"}""");
        produce("order 2");
        check(firstOrder().equals("order 2"), "the first order is still there");
    }

    static void check(boolean holds, String otherwise) throws Exception {
        if (!holds) {
            throw new AssertionError(otherwise + "\n" + api("GET", "/report", ""));
        }
    }

    public static void main(String[] arguments) throws Exception {
        aProducerGoesOnWhenTheLeaderMoves();
        ordersAreKeptForADay();
        System.out.println("2 passed");
    }
}
