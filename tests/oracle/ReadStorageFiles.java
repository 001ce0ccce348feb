import java.io.File;
import java.io.FileReader;
import java.io.RandomAccessFile;
import java.util.Properties;
import org.apache.kafka.metadata.properties.MetaProperties;
import org.apache.kafka.storage.internals.checkpoint.CleanShutdownFileHandler;
import org.apache.kafka.storage.internals.checkpoint.LeaderEpochCheckpointFile;
import org.apache.kafka.storage.internals.checkpoint.OffsetCheckpointFile;
import org.apache.kafka.storage.internals.checkpoint.PartitionMetadataFile;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.OffsetIndex;
import org.apache.kafka.storage.internals.log.ProducerStateManager;
import org.apache.kafka.storage.internals.log.TimeIndex;
import org.apache.kafka.storage.internals.log.TransactionIndex;

/** Reads the small files of a folder with Apache Kafka's own classes, and prints what it found, a line a file. */
public class ReadStorageFiles {
    public static void main(String[] arguments) throws Exception {
        File folder = new File(arguments[0]);
        OffsetIndex offsets = new OffsetIndex(new File(folder, "00000000000000001000.index"), 1000L, 10485760, false);
        offsets.sanityCheck();
        System.out.println(offsets.entries() + " " + offsets.entry(0) + " " + offsets.entry(1));
        TimeIndex times = new TimeIndex(new File(folder, "00000000000000001000.timeindex"), 1000L, 10485760, false);
        times.sanityCheck();
        System.out.println(times.entries() + " " + times.lookup(103) + " " + times.lastEntry());
        TransactionIndex aborts = new TransactionIndex(1000L, new File(folder, "00000000000000001000.txnindex"));
        aborts.sanityCheck();
        System.out.println(aborts.allAbortedTxns());
        System.out.println(ProducerStateManager.readSnapshot(new File(folder, "00000000000000000022.snapshot")));
        System.out.println(new OffsetCheckpointFile(new File(folder, "recovery-point-offset-checkpoint"), null).read());
        LogDirFailureChannel failures = new LogDirFailureChannel(1);
        System.out.println(new LeaderEpochCheckpointFile(new File(folder, "leader-epoch-checkpoint"), failures).read());
        System.out.println(new PartitionMetadataFile(new File(folder, "partition.metadata"), null).read().topicId());
        Properties properties = new Properties();
        try (FileReader reader = new FileReader(new File(folder, "meta.properties"))) {
            properties.load(reader);
        }
        System.out.println(new MetaProperties.Builder(properties).build());
        System.out.println(new CleanShutdownFileHandler(folder.getPath()).read());
        try (RandomAccessFile file = new RandomAccessFile(new File(folder, ".lock"), "rw")) {
            System.out.println(file.getChannel().tryLock() == null ? "locked" : "free");
        }
    }
}
