import com.fasterxml.jackson.jr.ob.JSON;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;

/** Reads and writes JSON. */
final class Json {
  private Json() {}

  /** The tree of a file, members in their order. */
  static Map<String, Object> read(Path file) throws IOException {
    try {
      return JSON.std.mapFrom(Files.readString(file));
    } catch (IOException e) {
      throw new IOException(file + ": " + e.getMessage(), e);
    }
  }

  static String text(Object tree) throws IOException {
    return JSON.std.with(JSON.Feature.PRETTY_PRINT_OUTPUT).asString(tree) + "\n";
  }
}
