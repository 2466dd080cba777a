import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.ZoneOffset;
import java.util.concurrent.CompletableFuture;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.table.api.TableResult;

/**
 * Runs statements of SQL, of which the last one inserts, in a cluster inside this JVM.
 *
 * <p>{@code Job FROM TO NAME=VALUE... -- STATEMENT...}. FROM is 0 for a run to the end. Otherwise the job is cancelled
 * once its source has read TO records, and what it took since FROM is printed as JSON: windows that are open at the end
 * are not fired, as in a stream that goes on.
 */
public final class Job {
    private static final OperatingSystemMXBean MACHINE = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    public static void main(String[] arguments) throws Exception {
        long from = Long.parseLong(arguments[0]);
        Configuration settings = new Configuration();
        int at = 2;
        for (; !arguments[at].equals("--"); at++) {
            String[] setting = arguments[at].split("=", 2);
            settings.setString(setting[0], setting[1]);
        }
        var environment = EnvironmentSettings.newInstance().inStreamingMode().withConfiguration(settings).build();
        TableEnvironment tables = TableEnvironment.create(environment);
        tables.getConfig().setLocalTimeZone(ZoneOffset.UTC);
        tables.createTemporarySystemFunction("HOUR_IN", HourIn.class);
        TableResult inserted = null;
        for (at++; at < arguments.length; at++) {
            inserted = tables.executeSql(arguments[at]);
        }
        if (from == 0) {
            inserted.await();
        } else {
            System.out.println(timed(inserted.getJobClient().orElseThrow(), from, Long.parseLong(arguments[1])));
        }
        System.exit(0); // Flink has threads that do not end
    }

    private static String timed(JobClient job, long from, long to) throws Exception {
        CompletableFuture<?> ended = job.getJobExecutionResult();
        wait(from, ended);
        long start = System.nanoTime();
        long processor = MACHINE.getProcessCpuTime();
        wait(to, ended);
        String figures = String.format(
                "{\"seconds\": %.3f, \"processor\": %.3f, \"state\": %d, \"peak\": %d}",
                (System.nanoTime() - start) / 1e9, (MACHINE.getProcessCpuTime() - processor) / 1e9,
                SourceRecords.checkpointBytes(), peak());
        job.cancel();
        return figures;
    }

    private static void wait(long records, CompletableFuture<?> ended) throws Exception {
        while (SourceRecords.read() < records) {
            if (ended.isDone()) {
                ended.get(); // which throws what went wrong, if anything
                if (SourceRecords.read() < records) {
                    throw new IllegalStateException("the source has read " + SourceRecords.read() + " records, not " + records);
                }
            }
            Thread.sleep(2);
        }
    }

    /** The most memory that this process has had, in KiB. */
    private static long peak() throws Exception {
        String line = Files.lines(Path.of("/proc/self/status")).filter(each -> each.startsWith("VmHWM")).findFirst().orElseThrow();
        return Long.parseLong(line.replaceAll("\\D", ""));
    }
}
