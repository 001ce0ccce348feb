package billing;

import java.util.Map;
import java.util.function.Function;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.annotation.Bean;

/** Spring Cloud Stream with its binder for Kafka, at its defaults: a group begins at the earliest offset. */
@SpringBootApplication
public class Billing {
    @Bean
    public Function<String, String> bill() {
        return String::toUpperCase;
    }

    public static void main(String[] arguments) {
        SpringApplication application = new SpringApplication(Billing.class);
        application.setDefaultProperties(Map.of(
            "spring.cloud.stream.kafka.binder.brokers", System.getenv("BOOTSTRAP_SERVERS"),
            "spring.cloud.stream.bindings.bill-in-0.destination", "orders",
            "spring.cloud.stream.bindings.bill-in-0.group", "billing",
            "spring.cloud.stream.bindings.bill-out-0.destination", "invoices"));
        application.run(arguments);
    }
}
