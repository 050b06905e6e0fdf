package org.ep4j.cli.plan;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.stream.IntStream;
import org.ep4j.cli.text.Json;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.ReplicatedPlacement;
import org.jspecify.annotations.Nullable;

/**
 * A placement as JSON: {@code version} (1), {@code ranks}, {@code experts} (logical), {@code
 * rank_of} and {@code logical_of}, which have a number for each physical expert.
 */
final class PlacementFile {
  private static final int VERSION = 1;
  private static final int MAX_MEBIBYTES = 16;
  private static final int MAX_RANKS = 1 << 16;

  private final JsonInput input;
  private int version;
  private int ranks;
  private int experts;
  private int @Nullable [] rankOf;
  private int @Nullable [] logicalOf;

  private PlacementFile(String origin) {
    input = new JsonInput(origin, ErrorCode.PLACEMENT_INVALID);
  }

  static ReplicatedPlacement read(Path file) {
    String origin = file.toString();
    JsonInput input = new JsonInput(origin, ErrorCode.PLACEMENT_INVALID);
    if (!Files.isRegularFile(file)) {
      throw input.bad("--placement", origin, "a file", "correct the path");
    }
    return parse(origin, input.text(file, MAX_MEBIBYTES));
  }

  /** Parses and checks the text of a placement. */
  static ReplicatedPlacement parse(String origin, String text) {
    PlacementFile file = new PlacementFile(origin);
    file.input.read(text, file::readField);
    return file.placement();
  }

  /** The text of a placement. */
  static String text(ReplicatedPlacement placement) {
    ExpertPlacement physical = placement.placement();
    Map<String, Object> tree = new LinkedHashMap<>();
    tree.put("version", VERSION);
    tree.put("ranks", placement.ranks());
    tree.put("experts", placement.experts());
    IntStream ids = IntStream.range(0, physical.experts());
    tree.put("rank_of", ids.map(physical::rankOf).boxed().toList());
    ids = IntStream.range(0, physical.experts());
    tree.put("logical_of", ids.map(placement::logicalOf).boxed().toList());
    return Json.text(tree);
  }

  private void readField(JsonParser in, String field, @Nullable JsonToken value)
      throws IOException {
    switch (field) {
      case "version" -> version = number(in, field);
      case "ranks" -> ranks = number(in, field);
      case "experts" -> experts = number(in, field);
      case "rank_of" -> rankOf = numbers(in, field);
      case "logical_of" -> logicalOf = numbers(in, field);
      default ->
          throw input.bad(
              input.origin() + ": a field",
              "'" + field + "'",
              "version, ranks, experts, rank_of or logical_of",
              "remove it");
    }
  }

  private int number(JsonParser in, String field) throws IOException {
    input.expect(in.currentToken(), JsonToken.VALUE_NUMBER_INT, field);
    return in.getIntValue();
  }

  private int[] numbers(JsonParser in, String field) throws IOException {
    input.expect(in.currentToken(), JsonToken.START_ARRAY, field);
    int[] numbers = new int[16];
    int count = 0;
    while (in.nextToken() != JsonToken.END_ARRAY) {
      if (count == numbers.length) {
        numbers = Arrays.copyOf(numbers, 2 * count);
      }
      numbers[count] = number(in, field + "[" + count + "]");
      count++;
    }
    return Arrays.copyOf(numbers, count);
  }

  private ReplicatedPlacement placement() {
    input.requireVersion(version, VERSION);
    if (ranks > MAX_RANKS) {
      throw input.bad(
          input.origin() + ": ranks", String.valueOf(ranks), "at most " + MAX_RANKS, "correct it");
    }
    try {
      return ReplicatedPlacement.of(
          ExpertPlacement.table(required(rankOf, "rank_of"), ranks),
          required(logicalOf, "logical_of"),
          experts);
    } catch (InvalidArgumentException e) {
      String message = String.valueOf(e.getMessage());
      throw input.bad(
          input.origin(),
          message.substring(e.errorCode().message("").length()),
          "a table that fits",
          "correct the file");
    }
  }

  private int[] required(int @Nullable [] table, String field) {
    if (table == null) {
      throw input.bad(input.origin() + ": " + field, "missing", "an array", "add it");
    }
    return table;
  }
}
