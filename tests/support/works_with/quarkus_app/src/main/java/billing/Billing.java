package billing;

import jakarta.enterprise.context.ApplicationScoped;
import org.eclipse.microprofile.reactive.messaging.Incoming;
import org.eclipse.microprofile.reactive.messaging.Outgoing;

/** Quarkus with its connector for Kafka, at its defaults but for where a new group begins. */
@ApplicationScoped
public class Billing {
    @Incoming("orders")
    @Outgoing("invoices")
    public String bill(String order) {
        return order.toUpperCase();
    }
}
