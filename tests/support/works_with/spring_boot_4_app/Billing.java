package billing;

import java.util.Map;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.kafka.annotation.KafkaListener;
import org.springframework.kafka.core.KafkaTemplate;

/** Spring Boot 4 with spring-kafka, at its defaults but for where a new group begins. */
@SpringBootApplication
public class Billing {
    private final KafkaTemplate<String, String> invoices;

    public Billing(KafkaTemplate<String, String> invoices) {
        this.invoices = invoices;
    }

    @KafkaListener(topics = "orders", groupId = "billing")
    public void bill(String order) {
        invoices.send("invoices", order.toUpperCase()).join();
    }

    public static void main(String[] arguments) {
        SpringApplication application = new SpringApplication(Billing.class);
        application.setDefaultProperties(Map.of(
            "spring.kafka.bootstrap-servers", System.getenv("BOOTSTRAP_SERVERS"),
            "spring.kafka.consumer.auto-offset-reset", "earliest"));
        application.run(arguments);
    }
}
