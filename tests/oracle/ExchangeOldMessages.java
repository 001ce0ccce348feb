import java.io.File;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.Arrays;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;

/**
 * Reads message sets of magic 0 and 1 with Apache Kafka's own classes, and writes some.
 *
 * For every *.ours in a folder it prints a line for each record; every MAGIC-CODEC-TIME.theirs is written with the records of `write`.
 */
public class ExchangeOldMessages {
    static final String[] CODECS = {"none", "gzip", "snappy", "lz4"};

    public static void main(String[] arguments) throws Exception {
        File folder = new File(arguments[0]);
        File[] files = folder.listFiles((directory, name) -> name.endsWith(".ours"));
        Arrays.sort(files);
        for (File file : files)
            read(file);
        for (byte magic = 0; magic < 2; magic++)
            for (String codec : CODECS)
                for (TimestampType type : new TimestampType[] {TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME})
                    if (magic > 0 || type == TimestampType.CREATE_TIME)
                        write(new File(folder, magic + "-" + codec + "-" + type.name + ".theirs"), magic, codec, type);
    }

    static void read(File file) throws Exception {
        for (MutableRecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(Files.readAllBytes(file.toPath()))).batches()) {
            batch.ensureValid();
            for (Record record : batch) {
                record.ensureValid();
                System.out.println(String.join(" ", file.getName(), Byte.toString(batch.magic()), batch.compressionType().name,
                    batch.timestampType().name, Long.toString(batch.lastOffset()), Long.toString(record.offset()),
                    Long.toString(record.timestamp()), text(record.key()), text(record.value())));
            }
        }
    }

    static String text(ByteBuffer field) {
        return field == null ? "null" : "'" + StandardCharsets.UTF_8.decode(field) + "'";
    }

    static void write(File file, byte magic, String codec, TimestampType type) throws Exception {
        Compression compression = Compression.of(CompressionType.forName(codec)).build();
        MemoryRecordsBuilder builder = MemoryRecords.builder(ByteBuffer.allocate(1 << 20), magic, compression, type, 100L, 77L);
        for (int i = 0; i < 1000; i++) {
            byte[] key = i % 3 == 0 ? null : ("k" + i).getBytes(StandardCharsets.UTF_8);
            byte[] value = i % 7 == 0 ? null : ("value " + i).getBytes(StandardCharsets.UTF_8);
            builder.appendWithOffset(100L + 2 * i, 1000L + i % 10, key, value);
        }
        ByteBuffer buffer = builder.build().buffer();
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        Files.write(file.toPath(), bytes);
    }
}
