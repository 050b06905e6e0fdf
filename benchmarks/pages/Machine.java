import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;

/** The files of a machine by name: figures that were written down, and those of commands. */
record Machine(
    String name,
    Map<String, Map<String, Object>> recorded,
    Map<String, Map<String, Object>> measured) {
  static Machine read(Path directory) throws IOException {
    Map<String, Map<String, Object>> recorded = new LinkedHashMap<>();
    Map<String, Map<String, Object>> measured = new LinkedHashMap<>();
    List<Path> files;
    try (Stream<Path> all = Files.list(directory)) {
      files = all.filter(file -> file.toString().endsWith(".json")).toList();
    }
    // In the order in which a reader counts: ll-16 before ll-128.
    List<Path> sorted = new ArrayList<>(files);
    sorted.sort((a, b) -> naturalOrder(a.getFileName().toString(), b.getFileName().toString()));
    for (Path file : sorted) {
      Map<String, Object> tree = Json.read(file);
      String name = file.getFileName().toString().replace(".json", "");
      (tree.containsKey("recorded") ? recorded : measured).put(name, tree);
    }
    return new Machine(directory.getFileName().toString(), recorded, measured);
  }

  private static int naturalOrder(String a, String b) {
    return padded(a).compareTo(padded(b));
  }

  private static String padded(String name) {
    StringBuilder text = new StringBuilder();
    for (String part : name.replace(".json", "").split("(?<=\\D)(?=\\d)|(?<=\\d)(?=\\D)")) {
      text.append(part.matches("\\d+") ? "0".repeat(12 - part.length()) + part : part);
    }
    return text.toString();
  }
}
