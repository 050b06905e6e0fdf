import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/** Reads and writes JSON. */
final class Json {
  private final String text;
  private int at;

  private Json(String text) {
    this.text = text;
  }

  static Map<String, Object> read(Path file) throws IOException {
    Json json = new Json(Files.readString(file));
    try {
      return Values.object(json.value());
    } catch (RuntimeException e) {
      throw new IllegalArgumentException(file + ": no JSON at character " + json.at, e);
    }
  }

  private Object value() {
    char first = next();
    if (first == '{') {
      Map<String, Object> object = new LinkedHashMap<>();
      items('}', () -> object.put(name(), value()));
      return object;
    }
    if (first == '[') {
      List<Object> values = new ArrayList<>();
      items(']', () -> values.add(value()));
      return values;
    }
    if (first == '"') {
      return string();
    }
    int begin = --at;
    while (at < text.length() && ",]} \n\r\t".indexOf(text.charAt(at)) < 0) {
      at++;
    }
    String word = text.substring(begin, at);
    return switch (word) {
      case "null" -> null;
      case "true", "false" -> Boolean.valueOf(word);
      default -> word.matches("-?\\d+") ? (Object) Long.valueOf(word) : Double.valueOf(word);
    };
  }

  private void items(char end, Runnable item) {
    if (peek() == end) {
      at++;
      return;
    }
    do {
      item.run();
    } while (next() == ',');
  }

  /** The name of a member, with its colon. */
  private String name() {
    if (next() != '"') {
      throw new IllegalStateException("no name");
    }
    String name = string();
    if (next() != ':') {
      throw new IllegalStateException("no colon");
    }
    return name;
  }

  /** The rest of a string behind its first quotation mark. */
  private String string() {
    StringBuilder string = new StringBuilder();
    for (char c = text.charAt(at++); c != '"'; c = text.charAt(at++)) {
      if (c != '\\') {
        string.append(c);
        continue;
      }
      char escaped = text.charAt(at++);
      switch (escaped) {
        case 'n' -> string.append('\n');
        case 't' -> string.append('\t');
        case 'u' -> {
          string.append((char) Integer.parseInt(text.substring(at, at + 4), 16));
          at += 4;
        }
        default -> string.append(escaped);
      }
    }
    return string.toString();
  }

  private char peek() {
    while (Character.isWhitespace(text.charAt(at))) {
      at++;
    }
    return text.charAt(at);
  }

  private char next() {
    char c = peek();
    at++;
    return c;
  }

  static String text(Object tree) {
    StringBuilder out = new StringBuilder();
    write(out, tree, "");
    return out.append('\n').toString();
  }

  private static void write(StringBuilder out, Object node, String indent) {
    switch (node) {
      case Map<?, ?> map -> {
        List<String> members = new ArrayList<>();
        map.forEach(
            (key, value) -> {
              StringBuilder member = new StringBuilder(quoted(key.toString())).append(": ");
              write(member, value, indent + "  ");
              members.add(member.toString());
            });
        out.append("{\n").append(indent).append("  ");
        out.append(String.join(",\n" + indent + "  ", members));
        out.append('\n').append(indent).append('}');
      }
      case List<?> values -> {
        List<String> items = new ArrayList<>();
        for (Object value : values) {
          StringBuilder item = new StringBuilder();
          write(item, value, indent);
          items.add(item.toString());
        }
        out.append(items.stream().collect(Collectors.joining(", ", "[", "]")));
      }
      case String string -> out.append(quoted(string));
      case null, default -> out.append(node);
    }
  }

  private static String quoted(String value) {
    return '"' + value.replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", "\\n") + '"';
  }
}
