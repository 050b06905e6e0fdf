package org.ep4j.cli.plan;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.OptionalInt;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.io.SafetensorsException;
import org.ep4j.io.SafetensorsFile;
import org.ep4j.plan.RecordedRouting;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;

/**
 * Reads a recorded routing: tensor {@code topk_idx}, I64 or I32 [tokens, topk], of a safetensors
 * file, or of {@code rank0.safetensors}, {@code rank1.safetensors} and so on of a directory.
 */
final class RecordingFile {
  private static final String IDS = "topk_idx";

  private int[] experts = {};
  private int topK;
  private final List<Integer> parts = new ArrayList<>();
  private OptionalInt number = OptionalInt.empty();

  private RecordingFile() {}

  /**
   * What a recording holds.
   *
   * @param routing all tokens
   * @param experts number of experts by its metadata, if any
   */
  record Recording(RecordedRouting routing, OptionalInt experts) {}

  static Recording read(Path path) {
    RecordingFile recording = new RecordingFile();
    Path last = path;
    if (Files.isDirectory(path)) {
      Path file = path.resolve("rank0.safetensors");
      if (!Files.isRegularFile(file)) {
        throw bad(path, "holds no rank0.safetensors: name a file, or the directory of a case");
      }
      for (int rank = 0; Files.isRegularFile(file); rank++) {
        recording.add(file);
        last = file;
        file = path.resolve("rank" + (rank + 1) + ".safetensors");
      }
    } else {
      recording.add(path);
    }
    try {
      int[] parts = recording.parts.stream().mapToInt(Integer::intValue).toArray();
      return new Recording(
          new RecordedRouting(recording.experts, recording.topK, parts), recording.number);
    } catch (InvalidArgumentException e) {
      String message = String.valueOf(e.getMessage());
      throw bad(last, message.substring(e.errorCode().message("").length()));
    }
  }

  private void add(Path path) {
    try (SafetensorsFile file = SafetensorsFile.open(path)) {
      Tensor ids = file.tensor(IDS);
      if (ids.dimensions() != 2 || (ids.dtype() != DType.INT64 && ids.dtype() != DType.INT32)) {
        throw bad(path, "is " + ids + ", not I64 or I32 [tokens, topk]: record it again");
      }
      if (!parts.isEmpty() && ids.size(1) != topK) {
        throw bad(
            path,
            "has rows of %d, the files before it of %d: record all ranks together"
                .formatted(ids.size(1), topK));
      }
      if (ids.size(1) > Integer.MAX_VALUE || experts.length + ids.elements() > Integer.MAX_VALUE) {
        throw bad(path, "has too many ids: record fewer tokens");
      }
      topK = (int) ids.size(1);
      int first = experts.length;
      experts = Arrays.copyOf(experts, first + (int) ids.elements());
      for (int i = 0; first + i < experts.length; i++) {
        experts[first + i] = id(path, ids, i);
      }
      parts.add((int) ids.size(0));
      readNumber(path, file.metadata());
    }
  }

  private void readNumber(Path path, Map<String, String> metadata) {
    String text = metadata.getOrDefault("experts", metadata.getOrDefault("num_experts", ""));
    if (text.isEmpty()) {
      return;
    }
    if (!text.matches("\\d{1,9}")) {
      throw bad(path, "metadata experts is '" + text + "': write a number");
    }
    number = OptionalInt.of(Integer.parseInt(text));
  }

  private static int id(Path path, Tensor ids, int at) {
    long id = ids.dtype() == DType.INT64 ? ids.getLong(at) : ids.getInt(at);
    if (id != (int) id) {
      throw bad(path, "token %d names expert %d: ids are small".formatted(at / ids.size(1), id));
    }
    return (int) id;
  }

  private static SafetensorsException bad(Path path, String problem) {
    return new SafetensorsException(ErrorCode.RECORDED_ROUTING, path.toString(), IDS, problem);
  }
}
