package org.ep4j.cli.doctor;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Objects;

/** Where each part of ep4j has run. The table of the README is the same. */
final class StatusFacts {
  private static final String TOPIC = "Status of this version, not of this machine";
  private static final String TABLE = "status.txt";
  private static final String PROVEN = "proven";

  private StatusFacts() {}

  /**
   * A part of ep4j; code in its texts stands between backticks.
   *
   * @param name name of the part
   * @param hasRunOn machines that it has run on
   * @param tier trust that follows
   */
  record Part(String name, String hasRunOn, String tier) {}

  static List<Finding> look() {
    return parts().stream().map(StatusFacts::finding).toList();
  }

  static List<Part> parts() {
    try (InputStream in =
        Objects.requireNonNull(StatusFacts.class.getResourceAsStream(TABLE), TABLE)) {
      return new String(in.readAllBytes(), StandardCharsets.UTF_8)
          .lines()
          .map(line -> line.split(" \\| ", -1))
          .map(cells -> new Part(cells[0], cells[1], cells[2]))
          .toList();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static Finding finding(Part part) {
    String name = part.name().replace("`", "");
    String hasRunOn = "has run on: " + part.hasRunOn().replace("`", "");
    return part.tier().startsWith(PROVEN)
        ? Finding.found(TOPIC, part.tier(), name, hasRunOn)
        : Finding.missing(TOPIC, part.tier(), name, hasRunOn);
  }
}
