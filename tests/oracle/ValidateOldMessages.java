import java.io.File;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.util.Arrays;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.PrimitiveRef;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogValidator;
import org.apache.kafka.storage.internals.log.RecordValidationException;

/**
 * Has Apache Kafka's LogValidator make batches of message sets of magic 0 and 1, which its classes still can, although its brokers no longer do.
 *
 * ValidateOldMessages FOLDER NOW_MS: for every NUMBER-KIND.set, KIND one of plain, compacted, stamped, strict and lz4, it prints
 * NUMBER-KIND and the error code, and writes NUMBER-KIND.batch if that is 0.
 */
public class ValidateOldMessages {
    public static void main(String[] arguments) throws Exception {
        File[] files = new File(arguments[0]).listFiles((directory, name) -> name.endsWith(".set"));
        Arrays.sort(files);
        for (File file : files) {
            String name = file.getName().replace(".set", "");
            int error = 0;
            try {
                byte[] batch = validate(Files.readAllBytes(file.toPath()), name.substring(name.indexOf("-") + 1), Long.parseLong(arguments[1]));
                Files.write(new File(arguments[0], name + ".batch").toPath(), batch);
            } catch (RecordValidationException e) {
                error = Errors.forException(e.invalidException()).code();
            } catch (Throwable e) {
                error = Errors.forException(e).code();
            }
            System.out.println(name + " " + error);
        }
    }

    /** What UnifiedLog does before it asks the validator, and what it asks. */
    static byte[] validate(byte[] set, String kind, long nowMs) {
        MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(set));
        CompressionType source = CompressionType.NONE;
        int validBytes = 0;
        for (MutableRecordBatch batch : records.batches()) {
            batch.ensureValid();
            if (batch.compressionType() != CompressionType.NONE)
                source = batch.compressionType();
            validBytes += batch.sizeInBytes();
        }
        MemoryRecords valid = MemoryRecords.readableRecords(ByteBuffer.wrap(set, 0, validBytes));
        CompressionType target = kind.equals("lz4") ? CompressionType.LZ4 : source;
        boolean isStrict = kind.equals("strict");
        LogValidator validator = new LogValidator(valid, new TopicPartition("t", 0), new At(nowMs), source, Compression.of(target).build(),
            kind.equals("compacted"), (byte) 2, kind.equals("stamped") ? TimestampType.LOG_APPEND_TIME : TimestampType.CREATE_TIME,
            isStrict ? 1000L : Long.MAX_VALUE, isStrict ? 1000L : 3600000L, 0, AppendOrigin.CLIENT);
        MemoryRecords validated = validator.validateMessagesAndAssignOffsets(PrimitiveRef.ofLong(5000), NO_METRICS, BufferSupplier.NO_CACHING)
            .validatedRecords();
        byte[] bytes = new byte[validated.sizeInBytes()];
        validated.buffer().get(bytes);
        return bytes;
    }

    /** A clock that stands still. */
    static class At implements Time {
        final long nowMs;

        At(long nowMs) {
            this.nowMs = nowMs;
        }

        public long milliseconds() {
            return nowMs;
        }

        public long nanoseconds() {
            return nowMs * 1000000;
        }

        public void sleep(long ms) {
            throw new UnsupportedOperationException();
        }

        public void waitObject(Object object, java.util.function.Supplier<Boolean> condition, long deadlineMs) {
            throw new UnsupportedOperationException();
        }
    }

    static final LogValidator.MetricsRecorder NO_METRICS = new LogValidator.MetricsRecorder() {
        public void recordInvalidMagic() {
        }

        public void recordInvalidOffset() {
        }

        public void recordInvalidSequence() {
        }

        public void recordInvalidChecksums() {
        }

        public void recordNoKeyCompactedTopic() {
        }
    };
}
