import java.time.Duration;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.avro.AvroSchema;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.CachedSchemaRegistryClient;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.rest.exceptions.RestClientException;
import org.apache.flink.avro.shaded.org.apache.avro.Schema;
import org.apache.flink.avro.shaded.org.apache.avro.generic.GenericData;
import org.apache.flink.avro.shaded.org.apache.avro.generic.GenericRecord;
import org.apache.flink.formats.avro.registry.confluent.ConfluentRegistryAvroDeserializationSchema;
import org.apache.flink.formats.avro.registry.confluent.ConfluentRegistryAvroSerializationSchema;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Confluent's client of a registry, and Flink's serializers, which use it, through a broker: a line for each step.
 * Arguments: the bootstrap servers and the address of the registry.
 */
public class RegistryClient {
    private static final String ORDER =
            "{\"type\":\"record\",\"name\":\"Order\",\"namespace\":\"shop\",\"fields\":[{\"name\":\"id\",\"type\":\"long\"}";

    public static void main(String[] arguments) throws Exception {
        var servers = arguments[0];
        var url = arguments[1];
        var order = new Schema.Parser().parse(ORDER + "]}");
        var sent = new GenericData.Record(order);
        sent.put("id", 42L);
        var value = ConfluentRegistryAvroSerializationSchema.forGeneric("orders-value", order, url).serialize(sent);
        var newer = new Schema.Parser().parse(ORDER + ",{\"name\":\"price\",\"type\":\"int\",\"default\":7}]}");
        GenericRecord read = ConfluentRegistryAvroDeserializationSchema.forGeneric(newer, url)
                .deserialize(throughTheBroker(servers, value));
        say("read", read.get("id") + " " + read.get("price"));

        var client = new CachedSchemaRegistryClient(url, 100);
        say("subjects", client.getAllSubjects());
        say("same id", client.register("orders-value", new AvroSchema(order)) == client.getId("orders-value", new AvroSchema(order)));
        say("text", client.getSchemaById(1).canonicalString().equals(order.toString()));
        say("newer fits", client.testCompatibility("orders-value", new AvroSchema(newer)));
        say("newer", client.register("orders-value", new AvroSchema(newer)) + " " + client.getAllVersions("orders-value"));
        var wrong = new AvroSchema(new Schema.Parser().parse(ORDER.replace("long", "boolean") + "]}"));
        say("wrong fits", client.testCompatibility("orders-value", wrong));
        say("why", client.testCompatibilityVerbose("orders-value", wrong).get(0).contains("/fields/0/type"));
        try {
            client.register("orders-value", wrong);
        } catch (RestClientException refused) {
            say("refused", refused.getStatus() + " " + refused.getErrorCode());
        }
        try {
            client.getLatestSchemaMetadata("nothing");
        } catch (RestClientException refused) {
            say("no subject", refused.getStatus() + " " + refused.getErrorCode());
        }
        say("level", client.updateCompatibility("orders-value", "NONE") + " " + client.getCompatibility("orders-value"));
        say("mode", client.setMode("READONLY", "orders-value") + " " + client.getMode("orders-value"));
        client.setMode("READWRITE", "orders-value");
        say("deleted", client.deleteSubject("orders-value") + " " + client.deleteSubject("orders-value", true));
        say("left", client.getAllSubjects());
    }

    private static byte[] throughTheBroker(String servers, byte[] value) throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", servers);
        try (var producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            producer.send(new ProducerRecord<>("orders", value)).get();
        }
        try (var consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            var partition = new TopicPartition("orders", 0);
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(Collections.singleton(partition));
            for (int polls = 0; polls < 30; polls++) {
                for (var record : consumer.poll(Duration.ofSeconds(1))) {
                    return record.value();
                }
            }
        }
        throw new IllegalStateException("the record did not come");
    }

    private static void say(String step, Object result) {
        System.out.println(step + ": " + result);
    }
}
