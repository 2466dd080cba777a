import java.time.Instant;
import java.time.ZoneId;
import org.apache.flink.table.functions.ScalarFunction;

/** The hour of day of an instant in milliseconds in a zone: {@code HOUR_IN(ms, 'Europe/Paris')}. */
public final class HourIn extends ScalarFunction {
    private transient ZoneId zone;

    public Integer eval(Long milliseconds, String name) {
        if (zone == null) {
            zone = ZoneId.of(name);
        }
        return Instant.ofEpochMilli(milliseconds).atZone(zone).getHour();
    }
}
