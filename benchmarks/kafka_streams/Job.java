import com.sun.management.OperatingSystemMXBean;
import java.io.PrintWriter;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.Suppressed.BufferConfig;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.TimeWindowedKStream;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.WindowStore;

/**
 * Counts and sums the records of a topic in windows, from its beginning to the records of key -1 that end it.
 *
 * <p>{@code Job ADDRESS TOPIC SIZE ADVANCE EMIT FOLDER RUNS}, in milliseconds; an advance of 0 means windows that slide
 * by KIP-450, one of -1 sessions with the gap SIZE. EMIT is one of suppress, limit, close and update. Of RUNS runs all
 * but the last write their rows into FOLDER/rows; the last drops them and is timed, unless it is the only one. Prints
 * what that took, as JSON.
 */
public final class Job {
    static final Duration GRACE = Duration.ofSeconds(5);
    static final Duration LIMIT = Duration.ofSeconds(10);
    static final long SESSION = -1;

    /** Records so far and their sum. */
    record Partial(long records, long total) {
        Partial with(String value) {
            return new Partial(records + 1, total + Long.parseLong(value));
        }

        Partial and(Partial other) {
            return new Partial(records + other.records, total + other.total);
        }
    }

    static final Serializer<Partial> TO_BYTES =
            (topic, data) -> data == null ? null : ByteBuffer.allocate(16).putLong(data.records).putLong(data.total).array();
    static final Deserializer<Partial> FROM_BYTES = (topic, bytes) -> {
        if (bytes == null) {
            return null;
        }
        ByteBuffer buffer = ByteBuffer.wrap(bytes);
        return new Partial(buffer.getLong(), buffer.getLong());
    };
    static final Serde<Partial> PARTIALS = Serdes.serdeFrom(TO_BYTES, FROM_BYTES);

    private final String address;
    private final String topic;
    private final long size;
    private final long advance;
    private final String emit;
    private final Path folder;

    private Job(String[] arguments) {
        address = arguments[0];
        topic = arguments[1];
        size = Long.parseLong(arguments[2]);
        advance = Long.parseLong(arguments[3]);
        emit = arguments[4];
        folder = Path.of(arguments[5]);
    }

    public static void main(String[] arguments) throws Exception {
        Job job = new Job(arguments);
        int runs = Integer.parseInt(arguments[6]);
        for (int run = 1; run <= runs; run++) {
            boolean timed = run == runs && runs > 1;
            try (PrintWriter rows = timed ? null : new PrintWriter(Files.newBufferedWriter(job.folder.resolve("rows")))) {
                System.out.println(job.run(run, rows));
            }
        }
    }

    private String run(int number, PrintWriter rows) throws Exception {
        CountDownLatch ended = new CountDownLatch(Feed.PARTITIONS);
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> records = builder.stream(topic, Consumed.with(Serdes.String(), Serdes.String()));
        records.process(() -> new End(ended));
        KTable<Windowed<String>, Partial> table = windowed(records.groupByKey(Grouped.with(Serdes.String(), Serdes.String())));
        if (emit.equals("suppress")) {
            table = table.suppress(Suppressed.untilWindowCloses(BufferConfig.unbounded()));
        } else if (emit.equals("limit")) {
            table = table.suppress(Suppressed.untilTimeLimit(LIMIT, BufferConfig.unbounded()));
        }
        long[] count = {0};
        table.toStream().foreach((window, partial) -> {
            synchronized (count) {
                count[0]++;
                if (rows != null) {
                    rows.println(window.key() + "," + window.window().start() + "," + window.window().end() + ","
                            + partial.records + "," + partial.total);
                }
            }
        });
        KafkaStreams streams = new KafkaStreams(builder.build(), settings(number));
        var machine = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        long start = System.nanoTime();
        long processor = machine.getProcessCpuTime();
        streams.start();
        ended.await();
        double dropped = dropped(streams);
        streams.close(); // which puts out what is cached
        return String.format(
                "{\"seconds\": %.3f, \"processor\": %.3f, \"rows\": %d, \"dropped\": %.0f}",
                (System.nanoTime() - start) / 1e9, (machine.getProcessCpuTime() - processor) / 1e9, count[0], dropped);
    }

    private KTable<Windowed<String>, Partial> sessions(KGroupedStream<String, String> grouped, EmitStrategy strategy) {
        Materialized<String, Partial, SessionStore<Bytes, byte[]>> stored =
                Materialized.<String, Partial, SessionStore<Bytes, byte[]>>as("windows").withKeySerde(Serdes.String()).withValueSerde(PARTIALS);
        return grouped.windowedBy(SessionWindows.ofInactivityGapAndGrace(Duration.ofMillis(size), GRACE))
                .emitStrategy(strategy)
                .aggregate(
                        () -> new Partial(0, 0),
                        (key, value, partial) -> partial.with(value),
                        (key, left, right) -> left.and(right),
                        stored);
    }

    private KTable<Windowed<String>, Partial> windowed(KGroupedStream<String, String> grouped) {
        Materialized<String, Partial, WindowStore<Bytes, byte[]>> stored =
                Materialized.<String, Partial, WindowStore<Bytes, byte[]>>as("windows").withKeySerde(Serdes.String()).withValueSerde(PARTIALS);
        EmitStrategy strategy = emit.equals("close") ? EmitStrategy.onWindowClose() : EmitStrategy.onWindowUpdate();
        if (advance == SESSION) {
            return sessions(grouped, strategy);
        }
        if (advance == 0) {
            SlidingWindows sliding = SlidingWindows.ofTimeDifferenceAndGrace(Duration.ofMillis(size), GRACE);
            return grouped.windowedBy(sliding)
                    .emitStrategy(strategy)
                    .aggregate(() -> new Partial(0, 0), (key, value, partial) -> partial.with(value), stored);
        }
        TimeWindows hopping = TimeWindows.ofSizeAndGrace(Duration.ofMillis(size), GRACE).advanceBy(Duration.ofMillis(advance));
        return grouped.windowedBy(hopping)
                .emitStrategy(strategy)
                .aggregate(() -> new Partial(0, 0), (key, value, partial) -> partial.with(value), stored);
    }

    private Properties settings(int number) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, topic + "-" + emit + "-" + size + "-" + advance + "-" + number);
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, address);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, folder.resolve("state").toString());
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, Feed.PARTITIONS);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 10_000); // as often as Flink's checkpoints
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 1L << 30);
        settings.put("auto.offset.reset", "earliest");
        // Windows that close are looked for once a second else, so that the last ones would not go out at the end.
        settings.put(StreamsConfig.InternalConfig.EMIT_INTERVAL_MS_KSTREAMS_WINDOWED_AGGREGATION, 0L);
        settings.put("max.poll.interval.ms", 600_000);
        return settings;
    }

    private static double dropped(KafkaStreams streams) {
        return streams.metrics().entrySet().stream()
                .filter(each -> each.getKey().name().equals("dropped-records-total"))
                .mapToDouble(each -> (Double) each.getValue().metricValue())
                .sum();
    }

    /** Counts the partitions whose records are all counted but the one that ends them. */
    private static final class End extends ContextualProcessor<String, String, Void, Void> {
        private final CountDownLatch ended;

        End(CountDownLatch ended) {
            this.ended = ended;
        }

        @Override
        public void process(Record<String, String> record) {
            if (record.key().equals("-1")) {
                ended.countDown();
            }
        }
    }
}
