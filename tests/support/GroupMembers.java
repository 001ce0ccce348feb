import com.fasterxml.jackson.databind.ObjectMapper;
import java.time.Duration;
import java.time.Instant;
import java.util.*;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.serialization.*;

/**
 * Members of consumer groups, each in a thread of its own, which handle records until they are told to leave; JavaPeer runs main for each call.
 *
 * The arguments are a member's name, the call, and its arguments:
 * "start" SUBSCRIPTION key=value…: with the topics "topics=a,b", or the expression "expression=…";
 * "events" NUMBER: print the events from that number on as a list in JSON, as group_member.py tells them;
 * "pause" and "resume": no longer poll, and poll again; "leave": close the consumer and wait for its end.
 */
public class GroupMembers {
    static final Map<String, Member> MEMBERS = new ConcurrentHashMap<>();

    public static void main(String[] arguments) throws Exception {
        String name = arguments[0];
        List<String> rest = List.of(arguments).subList(2, arguments.length);
        switch (arguments[1]) {
            case "start":
                Member member = new Member(rest.get(0), settings(rest.subList(1, rest.size())));
                MEMBERS.put(name, member);
                member.start();
                break;
            case "events":
                System.out.println(new ObjectMapper().writeValueAsString(MEMBERS.get(name).eventsFrom(Integer.parseInt(rest.get(0)))));
                break;
            case "pause":
                MEMBERS.get(name).pause(true);
                break;
            case "resume":
                MEMBERS.get(name).pause(false);
                break;
            case "leave":
                MEMBERS.get(name).leave();
                break;
            default:
                throw new IllegalArgumentException(arguments[1]);
        }
    }

    static Properties settings(List<String> arguments) {
        Properties settings = new Properties();
        for (String argument : arguments) {
            String[] parts = argument.split("=", 2);
            settings.put(parts[0], parts[1]);
        }
        return settings;
    }

    /** Commits after it has handled records, and before it gives partitions up what it could not commit until then. */
    static class Member extends Thread implements ConsumerRebalanceListener {
        final KafkaConsumer<String, String> consumer;
        final List<Object> events = new ArrayList<>();
        final Set<TopicPartition> owned = new HashSet<>();
        final Map<TopicPartition, OffsetAndMetadata> uncommitted = new HashMap<>();
        final List<Object> uncommittedRecords = new ArrayList<>();
        volatile boolean isLeaving;
        boolean isPaused;

        Member(String subscription, Properties settings) {
            consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
            setDaemon(true);
            String[] parts = subscription.split("=", 2);
            if (parts[0].equals("expression"))
                consumer.subscribe(new SubscriptionPattern(parts[1]), this);
            else
                consumer.subscribe(List.of(parts[1].split(",")), this);
        }

        @Override
        public void run() {
            try {
                while (!isLeaving) {
                    waitWhilePaused();
                    handle(consumer.poll(Duration.ofMillis(100)));
                    checkOwned();
                }
            } catch (Exception failure) {
                tell("failed", failure.toString());
            }
            try {
                consumer.close();
            } catch (Exception failure) {
                tell("close failed", failure.toString());
            }
        }

        /** A consumer that left since it was not polled may run its callback of an assignment afterwards: that assignment is lost. */
        void checkOwned() {
            if (owned.retainAll(consumer.assignment()))
                tellOwned("lost");
        }

        void handle(ConsumerRecords<String, String> records) {
            for (ConsumerRecord<String, String> record : records) {
                var partition = new TopicPartition(record.topic(), record.partition());
                uncommitted.put(partition, new OffsetAndMetadata(record.offset() + 1));
                uncommittedRecords.add(List.of(record.topic(), record.partition(), record.offset()));
                tell("record", record.topic(), record.partition(), record.offset());
            }
            if (!uncommitted.isEmpty())
                commit();
        }

        void commit() {
            try {
                consumer.commitSync(uncommitted);
                uncommitted.clear();
                uncommittedRecords.clear();
            } catch (CommitFailedException | RebalanceInProgressException refused) {
                tell("commit failed", List.copyOf(uncommittedRecords), refused.toString());
            }
        }

        synchronized void tell(Object... kindAndRest) {
            List<Object> event = new ArrayList<>(List.of(kindAndRest));
            Instant now = Instant.now();
            event.add(1, now.getEpochSecond() * 1_000_000 + now.getNano() / 1_000);
            events.add(event);
        }

        void tellOwned(String kind) {
            tell(kind, owned.stream().map(one -> List.of(one.topic(), one.partition())).toList());
        }

        synchronized List<Object> eventsFrom(int number) {
            return List.copyOf(events.subList(number, events.size()));
        }

        synchronized void pause(boolean isPaused) {
            this.isPaused = isPaused;
            notifyAll();
        }

        synchronized void waitWhilePaused() throws InterruptedException {
            while (isPaused && !isLeaving)
                wait();
        }

        void leave() throws InterruptedException {
            isLeaving = true;
            pause(false);
            join(30_000);
            if (isAlive())
                throw new IllegalStateException("a member does not end");
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            owned.addAll(partitions);
            tellOwned("owned");
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            if (!uncommitted.isEmpty())
                commit();
            giveUp(partitions);
            tellOwned("owned");
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            giveUp(partitions);
            tellOwned("lost");
        }

        static TopicPartition partitionOf(List<?> record) {
            return new TopicPartition((String) record.get(0), (Integer) record.get(1));
        }

        void giveUp(Collection<TopicPartition> partitions) {
            owned.removeAll(partitions);
            uncommitted.keySet().removeAll(partitions);
            uncommittedRecords.removeIf(record -> partitions.contains(partitionOf((List<?>) record)));
        }
    }
}
