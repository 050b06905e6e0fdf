package org.ep4j.cli.plan;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.EnumMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.ep4j.cli.text.Json;
import org.ep4j.error.ErrorCode;
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
  private static final int MAX_MEBIBYTES = 1;

  private final String origin;
  private final JsonInput input;
  private String name;
  private int version;
  private final Map<ProfileConstant, MachineProfile.Sourced> constants =
      new EnumMap<>(ProfileConstant.class);

  private ProfileFile(String origin) {
    this.origin = origin;
    input = new JsonInput(origin, ErrorCode.PROFILE_INVALID);
    name = origin;
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
    JsonInput input = new JsonInput(machine, ErrorCode.PROFILE_INVALID);
    if (NAMES.contains(machine)) {
      return builtIn(machine);
    }
    Path file = Path.of(machine);
    if (!Files.isRegularFile(file)) {
      throw input.bad(
          "--machine", machine, "one of " + String.join(", ", NAMES) + " or a file", "correct it");
    }
    return input.text(file, MAX_MEBIBYTES);
  }

  private static String builtIn(String machine) {
    try (InputStream in = ProfileFile.class.getResourceAsStream("profiles/" + machine + ".json")) {
      if (in == null) {
        throw new AssertionError("the jar lacks the profile " + machine);
      }
      return new String(in.readAllBytes(), StandardCharsets.UTF_8);
    } catch (IOException e) {
      throw new UncheckedIOException(
          ErrorCode.FILE_READ.message(machine + ": cannot be read: " + e), e);
    }
  }

  /** The text of a profile that is in no file. */
  static String text(MachineProfile profile, String description) {
    Map<String, Object> constants = new LinkedHashMap<>();
    for (ProfileConstant constant : ProfileConstant.values()) {
      Map<String, Object> sourced = new LinkedHashMap<>();
      sourced.put("value", profile.value(constant));
      sourced.put("source", profile.source(constant));
      constants.put(constant.key(), sourced);
    }
    Map<String, Object> tree = new LinkedHashMap<>();
    tree.put("version", VERSION);
    tree.put("name", profile.name());
    tree.put("description", description);
    tree.put("constants", constants);
    return Json.text(tree);
  }

  /** Parses and checks the text of a profile. */
  static MachineProfile parse(String origin, String text) {
    ProfileFile file = new ProfileFile(origin);
    file.input.read(text, file::readField);
    file.input.requireVersion(file.version, VERSION);
    return new MachineProfile(file.name, origin, file.constants);
  }

  private void readField(JsonParser in, String field, @Nullable JsonToken value)
      throws IOException {
    switch (field) {
      case "version" -> {
        input.expect(value, JsonToken.VALUE_NUMBER_INT, field);
        version = in.getIntValue();
      }
      case "name" -> {
        input.expect(value, JsonToken.VALUE_STRING, field);
        name = in.getText();
      }
      case "description" -> input.expect(value, JsonToken.VALUE_STRING, field);
      case "constants" -> input.object(in, field, this::readConstant);
      default ->
          throw input.bad(
              origin + ": a field",
              "'" + field + "'",
              "version, name, description or constants",
              "remove it");
    }
  }

  private void readConstant(JsonParser in, String key, @Nullable JsonToken token)
      throws IOException {
    ProfileConstant constant =
        Arrays.stream(ProfileConstant.values())
            .filter(known -> known.key().equals(key))
            .findFirst()
            .orElseThrow(
                () ->
                    input.bad(
                        origin + ": a constant",
                        "'" + key + "'",
                        "one of "
                            + Arrays.stream(ProfileConstant.values())
                                .map(ProfileConstant::key)
                                .toList(),
                        "remove it or correct its name"));
    constants.put(constant, readSourced(in, key));
  }

  private MachineProfile.Sourced readSourced(JsonParser in, String key) throws IOException {
    input.expect(in.currentToken(), JsonToken.START_OBJECT, key);
    double value = Double.NaN;
    String source = "";
    while (in.nextToken() == JsonToken.FIELD_NAME) {
      String field = in.currentName();
      JsonToken token = in.nextToken();
      switch (field) {
        case "value" -> {
          if (!token.isNumeric()) {
            throw input.bad(origin + ": " + key, in.getText(), "a number", "write a JSON number");
          }
          value = in.getDoubleValue();
        }
        case "source" -> {
          input.expect(token, JsonToken.VALUE_STRING, key + ".source");
          source = in.getText();
        }
        default ->
            throw input.bad(
                origin + ": " + key + ": a field",
                "'" + field + "'",
                "value or source",
                "remove it");
      }
    }
    return new MachineProfile.Sourced(value, source);
  }
}
