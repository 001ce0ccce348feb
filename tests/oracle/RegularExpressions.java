import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.google.re2j.Pattern;
import com.google.re2j.PatternSyntaxException;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;

/** Answers each line, a list of an expression and texts, with a digit for each text: whether all of it matches. */
public class RegularExpressions {
    public static void main(String[] arguments) throws Exception {
        var json = new ObjectMapper();
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode given = json.readTree(line);
            try {
                Pattern pattern = Pattern.compile(given.get(0).asText());
                var answer = new StringBuilder();
                for (JsonNode text : given.get(1)) {
                    answer.append(pattern.matches(text.asText()) ? '1' : '0');
                }
                System.out.println(answer);
            } catch (PatternSyntaxException error) {
                System.out.println("none");
            }
        }
    }
}
