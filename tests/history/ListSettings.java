import java.util.Arrays;

/** Print the names of the settings that the Kafka on the class path knows, each behind "broker" or "topic". */
public class ListSettings {
    public static void main(String[] arguments) throws Exception {
        print("broker", call("kafka.server.KafkaConfig"));
        print("topic", call("org.apache.kafka.storage.internals.log.LogConfig", "kafka.log.LogConfig"));
    }

    private static Object call(String... classes) throws Exception {
        for (String name : classes) {
            try {
                return Class.forName(name).getMethod("configNames").invoke(null);
            } catch (ClassNotFoundException elsewhere) {
                continue;
            }
        }
        throw new IllegalStateException("None of these classes is there: " + String.join(", ", classes));
    }

    private static void print(String kind, Object names) throws Exception {
        if (!(names instanceof Iterable)) { // Scala's
            Object lines = names.getClass().getMethod("mkString", String.class).invoke(names, "\n");
            names = Arrays.asList(lines.toString().split("\n"));
        }
        for (Object name : (Iterable<?>) names) {
            System.out.println(kind + " " + name);
        }
    }
}
