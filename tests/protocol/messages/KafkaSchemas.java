import java.util.Map;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.protocol.types.Field;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.TaggedFields;
import org.apache.kafka.common.protocol.types.Type;

/** Prints every field of every message of Apache Kafka, a line each: message, version, tag or -, path, type. */
public class KafkaSchemas {
    public static void main(String[] arguments) {
        for (ApiMessageType api : ApiMessageType.values()) {
            for (int version = api.lowestSupportedVersion(); version <= api.highestSupportedVersion(true); version++) {
                print(api.name + "Request " + version, "", api.requestSchemas()[version]);
                print(api.name + "Response " + version, "", api.responseSchemas()[version]);
            }
        }
    }

    static void print(String message, String path, Schema schema) {
        for (var bound : schema.fields()) {
            if (bound.def.type instanceof TaggedFields) {
                for (Map.Entry<Integer, Field> tagged : ((TaggedFields) bound.def.type).fields().entrySet())
                    print(message, path, tagged.getValue(), tagged.getKey().toString());
            } else {
                print(message, path, bound.def, "-");
            }
        }
    }

    static void print(String message, String path, Field field, String tag) {
        Type type = field.type;
        Type element = type.arrayElementType().orElse(null);
        String nullable = type.isNullable() ? "nullable " : "";
        Type inner = element == null ? type : element;
        String name = inner instanceof Schema ? "struct" : inner.toString();
        String what = nullable + (element == null ? "" : "array of ") + name;
        System.out.println(message + " " + tag + " " + path + field.name + " " + what);
        if (inner instanceof Schema)
            print(message, path + field.name + ".", (Schema) inner);
    }
}
