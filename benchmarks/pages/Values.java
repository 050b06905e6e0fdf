import java.util.List;
import java.util.Locale;
import java.util.Map;

/** Formats figures, and reads trees of JSON. */
final class Values {
  private Values() {}

  /** Three significant digits; milliseconds with their unit from 1000 µs on. */
  static String micros(double value) {
    return value >= 999.5 ? significant(value / 1000) + " ms" : significant(value);
  }

  static String significant(Object value) {
    if (value instanceof Integer || value instanceof Long) {
      return value.toString();
    }
    double number = number(value);
    double size = Math.abs(number);
    int digits = size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2;
    return String.format(Locale.ROOT, "%." + digits + "f", number);
  }

  static double number(Object value) {
    return ((Number) value).doubleValue();
  }

  static String text(Map<String, Object> tree, String field) {
    return String.valueOf(tree.getOrDefault(field, ""));
  }

  @SuppressWarnings("unchecked")
  static Map<String, Object> object(Object value) {
    return (Map<String, Object>) value;
  }

  static List<?> list(Object value) {
    return value == null ? List.of() : (List<?>) value;
  }

  static List<Map<String, Object>> objects(Object values) {
    return list(values).stream().map(Values::object).toList();
  }
}
