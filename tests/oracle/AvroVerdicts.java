import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import org.apache.flink.avro.shaded.org.apache.avro.Schema;
import org.apache.flink.avro.shaded.org.apache.avro.SchemaCompatibility;

/** Answers each line "reader TAB writer" with the reader as Java writes it, and with each reason why it cannot read. */
public class AvroVerdicts {
    public static void main(String[] arguments) throws Exception {
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            var given = line.split("\t");
            Schema reader = new Schema.Parser().setValidateDefaults(false).parse(given[0]);
            Schema writer = new Schema.Parser().setValidateDefaults(false).parse(given[1]);
            var result = SchemaCompatibility.checkReaderWriterCompatibility(reader, writer).getResult();
            var answer = new StringBuilder(reader.toString());
            for (var reason : result.getIncompatibilities()) {
                answer.append('\t').append(reason.getType()).append(' ').append(reason.getLocation());
            }
            System.out.println(answer);
        }
    }
}
