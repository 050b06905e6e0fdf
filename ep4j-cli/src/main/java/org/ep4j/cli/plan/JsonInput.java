package org.ep4j.cli.plan;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.StreamReadFeature;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.FileProblem;
import org.ep4j.error.InvalidArgumentException;
import org.jspecify.annotations.Nullable;

/**
 * Reads one JSON object, strictly: a text of another shape is refused by name.
 *
 * @param origin name of the text, for messages
 * @param code of every refusal
 */
record JsonInput(String origin, ErrorCode code) {
  /** Reads the value of a field. */
  interface Field {
    void read(JsonParser in, String name, @Nullable JsonToken value) throws IOException;
  }

  /**
   * The text of a file.
   *
   * @param mebibytes size of the largest file
   */
  String text(Path file, int mebibytes) {
    try {
      long size = Files.size(file);
      if (size > (long) mebibytes << 20) {
        throw bad(origin, size + " bytes", mebibytes + " MiB at most", "name another file");
      }
      return Files.readString(file);
    } catch (IOException e) {
      throw new UncheckedIOException(
          ErrorCode.FILE_READ.message(origin + ": cannot be read: " + FileProblem.of(e)), e);
    }
  }

  /** Reads a text that is one object. */
  void read(String text, Field field) {
    JsonFactory factory =
        JsonFactory.builder().enable(StreamReadFeature.STRICT_DUPLICATE_DETECTION).build();
    try (JsonParser in = factory.createParser(text)) {
      in.nextToken();
      object(in, origin, field);
      if (in.nextToken() != null) {
        throw bad(origin, "text behind the object", "one JSON object", "remove the rest");
      }
    } catch (IOException e) {
      String reason = String.valueOf(e.getMessage()).lines().findFirst().orElse("");
      throw bad(origin + ": its text", "no JSON (" + reason + ")", "a JSON object", "correct it");
    }
  }

  /** Reads the object at which the parser stands. */
  void object(JsonParser in, String name, Field field) throws IOException {
    expect(in.currentToken(), JsonToken.START_OBJECT, name);
    while (in.nextToken() == JsonToken.FIELD_NAME) {
      String key = in.currentName();
      field.read(in, key, in.nextToken());
    }
  }

  /** Refuses another token. */
  void expect(@Nullable JsonToken found, JsonToken wanted, String field) {
    if (found != wanted) {
      throw bad(
          field.equals(origin) ? origin : origin + ": " + field,
          word(found),
          word(wanted),
          "correct the JSON");
    }
  }

  /** Refuses another version than {@code supported}. */
  void requireVersion(int found, int supported) {
    if (found != supported) {
      throw bad(
          origin + ": version",
          String.valueOf(found),
          String.valueOf(supported),
          "write the file for this version of ep4j");
    }
  }

  private static String word(@Nullable JsonToken token) {
    return token == null
        ? "the end of the text"
        : token.name().toLowerCase(Locale.ROOT).replace('_', ' ');
  }

  InvalidArgumentException bad(String field, String value, String limit, String remedy) {
    return new InvalidArgumentException(code, field, value, limit, remedy);
  }
}
