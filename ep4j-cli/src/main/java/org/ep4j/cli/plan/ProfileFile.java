package org.ep4j.cli.plan;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.StreamReadFeature;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.EnumMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.ep4j.ErrorCode;
import org.ep4j.InvalidArgumentException;
import org.ep4j.plan.MachineProfile;
import org.ep4j.plan.ProfileConstant;
import org.jspecify.annotations.Nullable;

/**
 * A machine profile as JSON: {@code version} (1), {@code name}, {@code description} and {@code
 * constants}, each an object of {@code value} and {@code source}.
 */
final class ProfileFile {
  /** Profiles that ep4j has, by name. */
  static final List<String> NAMES =
      List.of("h800-cx7", "h100-cx7", "h100-roce-2x200", "h200", "b200", "gb200-nvl72");

  private static final int VERSION = 1;

  /** A larger file is no profile. */
  private static final long MAX_BYTES = 1 << 20;

  private final String origin;
  private String name;
  private int version;
  private final Map<ProfileConstant, MachineProfile.Sourced> constants =
      new EnumMap<>(ProfileConstant.class);

  private ProfileFile(String origin) {
    this.origin = origin;
    this.name = origin;
  }

  /**
   * The profile of a machine.
   *
   * @param machine one of {@link #NAMES}, or a file
   */
  static MachineProfile read(String machine) {
    return parse(machine, text(machine));
  }

  /** The text of a profile. */
  static String text(String machine) {
    try {
      if (NAMES.contains(machine)) {
        try (InputStream in =
            ProfileFile.class.getResourceAsStream("profiles/" + machine + ".json")) {
          if (in == null) {
            throw new AssertionError("the jar lacks the profile " + machine);
          }
          return new String(in.readAllBytes(), StandardCharsets.UTF_8);
        }
      }
      Path file = Path.of(machine);
      if (!Files.isRegularFile(file)) {
        throw bad(
            "--machine",
            machine,
            "one of " + String.join(", ", NAMES) + " or a file",
            "correct it");
      }
      if (Files.size(file) > MAX_BYTES) {
        throw bad(machine, Files.size(file) + " bytes", "1 MiB at most", "name a profile");
      }
      return Files.readString(file);
    } catch (IOException e) {
      throw new UncheckedIOException(
          ErrorCode.FILE_READ.message(machine + ": cannot be read: " + e), e);
    }
  }

  /** Parses and checks the text of a profile. */
  static MachineProfile parse(String origin, String text) {
    ProfileFile file = new ProfileFile(origin);
    JsonFactory factory =
        JsonFactory.builder().enable(StreamReadFeature.STRICT_DUPLICATE_DETECTION).build();
    try (JsonParser in = factory.createParser(text)) {
      file.readProfile(in);
    } catch (IOException e) {
      String reason = String.valueOf(e.getMessage()).lines().findFirst().orElse("");
      throw bad(origin, reason, "a JSON object", "correct the text");
    }
    if (file.version != VERSION) {
      throw bad(
          origin + ": version",
          String.valueOf(file.version),
          String.valueOf(VERSION),
          "write the profile for this version of ep4j");
    }
    return new MachineProfile(file.name, origin, file.constants);
  }

  private void readProfile(JsonParser in) throws IOException {
    expect(in.nextToken(), JsonToken.START_OBJECT, origin);
    while (in.nextToken() == JsonToken.FIELD_NAME) {
      String field = in.currentName();
      JsonToken value = in.nextToken();
      switch (field) {
        case "version" -> {
          expect(value, JsonToken.VALUE_NUMBER_INT, field);
          version = in.getIntValue();
        }
        case "name" -> {
          expect(value, JsonToken.VALUE_STRING, field);
          name = in.getText();
        }
        case "description" -> expect(value, JsonToken.VALUE_STRING, field);
        case "constants" -> readConstants(in);
        default ->
            throw bad(
                origin,
                "field '" + field + "'",
                "version, name, description or constants",
                "remove it");
      }
    }
    if (in.nextToken() != null) {
      throw bad(origin, "text behind the object", "one JSON object", "remove the rest");
    }
  }

  private void readConstants(JsonParser in) throws IOException {
    expect(in.currentToken(), JsonToken.START_OBJECT, "constants");
    while (in.nextToken() == JsonToken.FIELD_NAME) {
      String key = in.currentName();
      ProfileConstant constant =
          Arrays.stream(ProfileConstant.values())
              .filter(known -> known.key().equals(key))
              .findFirst()
              .orElseThrow(
                  () ->
                      bad(
                          origin,
                          "constant '" + key + "'",
                          "one of "
                              + Arrays.stream(ProfileConstant.values())
                                  .map(ProfileConstant::key)
                                  .toList(),
                          "remove it or correct its name"));
      in.nextToken();
      constants.put(constant, readConstant(in, key));
    }
  }

  private MachineProfile.Sourced readConstant(JsonParser in, String key) throws IOException {
    expect(in.currentToken(), JsonToken.START_OBJECT, key);
    double value = Double.NaN;
    String source = "";
    while (in.nextToken() == JsonToken.FIELD_NAME) {
      String field = in.currentName();
      JsonToken token = in.nextToken();
      switch (field) {
        case "value" -> {
          if (!token.isNumeric()) {
            throw bad(origin + ": " + key, in.getText(), "a number", "write a JSON number");
          }
          value = in.getDoubleValue();
        }
        case "source" -> {
          expect(token, JsonToken.VALUE_STRING, key + ".source");
          source = in.getText();
        }
        default ->
            throw bad(origin + ": " + key, "field '" + field + "'", "value or source", "remove it");
      }
    }
    return new MachineProfile.Sourced(value, source);
  }

  private void expect(@Nullable JsonToken found, JsonToken wanted, String field) {
    if (found != wanted) {
      throw bad(origin + ": " + field, word(found), word(wanted), "correct the JSON");
    }
  }

  private static String word(@Nullable JsonToken token) {
    return token == null
        ? "the end of the text"
        : token.name().toLowerCase(Locale.ROOT).replace('_', ' ');
  }

  private static InvalidArgumentException bad(
      String field, String value, String limit, String remedy) {
    return new InvalidArgumentException(ErrorCode.PROFILE_INVALID, field, value, limit, remedy);
  }
}
