import java.util.Properties;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.flink.metrics.Counter;
import org.apache.flink.metrics.Gauge;
import org.apache.flink.metrics.Metric;
import org.apache.flink.metrics.MetricConfig;
import org.apache.flink.metrics.MetricGroup;
import org.apache.flink.metrics.reporter.MetricReporter;
import org.apache.flink.metrics.reporter.MetricReporterFactory;

/** Flink's own counts of what its sources have read, and the sizes of its checkpoints, in this JVM. */
public final class SourceRecords implements MetricReporter, MetricReporterFactory {
    private static final Queue<Counter> READ = new ConcurrentLinkedQueue<>();
    private static volatile Gauge<?> checkpoint;

    static long read() {
        return READ.stream().mapToLong(Counter::getCount).sum();
    }

    static long checkpointBytes() {
        return checkpoint == null ? 0 : Math.max(0, ((Number) checkpoint.getValue()).longValue());
    }

    @Override
    public void notifyOfAddedMetric(Metric metric, String name, MetricGroup group) {
        String operator = group.getAllVariables().getOrDefault("<operator_name>", "");
        if (name.equals("numRecordsIn") && operator.startsWith("Source: ")) {
            READ.add((Counter) metric);
        } else if (name.equals("lastCheckpointFullSize")) {
            checkpoint = (Gauge<?>) metric;
        }
    }

    @Override
    public void notifyOfRemovedMetric(Metric metric, String name, MetricGroup group) {}

    @Override
    public MetricReporter createMetricReporter(Properties properties) {
        return this;
    }

    @Override
    public void open(MetricConfig config) {}

    @Override
    public void close() {}
}
