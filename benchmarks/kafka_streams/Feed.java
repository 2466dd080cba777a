import java.io.BufferedReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Fills a topic of two partitions from files of lines `key,milliseconds,value`, a line of each in turn.
 *
 * <p>{@code Feed ADDRESS TOPIC FILE...}. Keys and values are text, the time is the record's own, and a key's records
 * share a partition. The last line of the files is not theirs but ends the topic: it goes into every partition.
 */
public final class Feed {
    static final int PARTITIONS = 2;

    public static void main(String[] arguments) throws Exception {
        Map<String, Object> settings =
                Map.of("bootstrap.servers", arguments[0], "linger.ms", "50", "batch.size", "262144");
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", arguments[0]))) {
            admin.createTopics(List.of(new NewTopic(arguments[1], PARTITIONS, (short) 1))).all().get();
        }
        List<BufferedReader> files = new ArrayList<>();
        for (int i = 2; i < arguments.length; i++) {
            files.add(Files.newBufferedReader(Path.of(arguments[i])));
        }
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            feed(producer, arguments[1], files);
        }
    }

    private static void feed(KafkaProducer<String, String> producer, String topic, List<BufferedReader> files)
            throws Exception {
        String end = null;
        while (!files.isEmpty()) {
            for (var each = files.iterator(); each.hasNext(); ) {
                BufferedReader file = each.next();
                String line = file.readLine();
                if (line == null) {
                    file.close();
                    each.remove();
                } else if (line.startsWith("-")) {
                    end = line;
                } else {
                    send(producer, topic, line.split(","), Math.floorMod(Long.parseLong(line.split(",")[0]), PARTITIONS));
                }
            }
        }
        for (int partition = 0; partition < PARTITIONS; partition++) {
            send(producer, topic, end.split(","), partition);
        }
    }

    private static void send(KafkaProducer<String, String> producer, String topic, String[] fields, int partition) {
        producer.send(new ProducerRecord<>(topic, partition, Long.parseLong(fields[1]), fields[0], fields[2]));
    }
}
