package org.ep4j.cases;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.ep4j.error.ErrorCode;
import org.ep4j.io.SafetensorsException;
import org.ep4j.io.SafetensorsFile;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.RowFormat;
import org.ep4j.tensor.ScaleKind;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * Parameters of a case, from the metadata strings of a file and, if these are missing, from its
 * tensors. Booleans may be {@code True}, {@code true}, {@code yes} or {@code 1}.
 *
 * @param lowLatency kind {@code ll}; otherwise {@code ht}
 * @param ranks number of ranks, 0 if the file does not contain it
 * @param experts number of experts
 * @param topK choices per token
 * @param hidden elements of a row
 * @param byExperts whether sums are in the order of experts, high-throughput rows grouped by them
 * @param expertAlignment counts per expert are rounded up to multiples of this number
 * @param maxTokens low latency: fixed maximum of tokens per rank, 0 if the file does not contain it
 * @param format low latency: format of the rows in a dispatch
 * @param scaleKind low latency: kind of the scales of FP8 rows
 * @param logFmt low latency: whether combine sends LogFMT-10
 */
public record CaseMetadata(
    boolean lowLatency,
    int ranks,
    int experts,
    int topK,
    int hidden,
    boolean byExperts,
    int expertAlignment,
    int maxTokens,
    RowFormat format,
    ScaleKind scaleKind,
    boolean logFmt) {
  /**
   * Reads the metadata of a file.
   *
   * @param given metadata strings of the caller for entries that the file lacks
   * @throws SafetensorsException if an entry is missing or malformed, or the caller gives another
   *     value than the file
   */
  static CaseMetadata of(SafetensorsFile file, Map<String, String> given) {
    CaseMetadata read = read(file, completed(given, file.metadata()));
    CaseMetadata wanted = read(file, completed(file.metadata(), given));
    if (!wanted.equals(read)) {
      throw new SafetensorsException(
          ErrorCode.CASE_METADATA,
          file.name(),
          null,
          "contradicts the options: " + read.differences(wanted) + ": leave the options out");
    }
    return read;
  }

  /** Metadata strings; {@code strings} win. */
  static Map<String, String> completed(Map<String, String> missing, Map<String, String> strings) {
    Map<String, String> all = new LinkedHashMap<>(missing);
    all.putAll(strings);
    return all;
  }

  private static CaseMetadata read(SafetensorsFile file, Map<String, String> strings) {
    Reader in = new Reader(file, strings);
    Tensor x = in.matrix("x");
    Tensor idx = in.matrix("topk_idx");
    if (idx.size(0) != x.size(0)) {
      throw new SafetensorsException(
          ErrorCode.CASE_INCONSISTENT,
          file.name(),
          "topk_idx",
          "has " + idx.size(0) + " rows, x has " + x.size(0) + ": pass one row per token");
    }
    boolean lowLatency = in.lowLatency();
    int hidden = in.number(CaseStrings.HIDDEN, x.size(1));
    int topK = in.number(CaseStrings.TOP_K, idx.size(1));
    in.agree("x", "hidden", hidden, x.size(1));
    in.agree("topk_idx", "topk", topK, idx.size(1));
    boolean fp8 = in.flag(CaseStrings.FP8, in.holdsFp8()) && lowLatency;
    boolean nvFp4 = in.flag(CaseStrings.NVFP4, false) && lowLatency;
    boolean ue8m0 = in.flag(CaseStrings.UE8M0, in.packedScales());
    boolean round = in.flag(CaseStrings.ROUND_SCALE, false);
    return new CaseMetadata(
        lowLatency,
        in.number(CaseStrings.RANKS, 0),
        in.number(CaseStrings.EXPERTS, null),
        topK,
        hidden,
        in.byExperts(),
        Math.max(1, in.number(CaseStrings.EXPERT_ALIGNMENT, 1)),
        in.maxTokens(lowLatency),
        nvFp4 ? RowFormat.NVFP4 : fp8 ? RowFormat.FP8 : RowFormat.BF16,
        ue8m0 ? ScaleKind.UE8M0 : round ? ScaleKind.FLOAT32_POW2 : ScaleKind.FLOAT32,
        in.flag(CaseStrings.LOGFMT, false));
  }

  /** The parameters by their names in files. */
  Map<String, Object> fields() {
    Map<String, Object> fields = new LinkedHashMap<>();
    fields.put("kind", lowLatency ? "ll" : "ht");
    fields.put("ranks", ranks);
    fields.put("experts", experts);
    fields.put("topk", topK);
    fields.put("hidden", hidden);
    fields.put("order", byExperts ? "expert" : "rank");
    fields.put("expert_alignment", expertAlignment);
    fields.put("max_tokens", maxTokens);
    fields.put("format of the rows", format);
    fields.put("kind of the scales", scaleKind);
    fields.put("use_logfmt", logFmt);
    return fields;
  }

  /** The parameters that differ, with both values. */
  String differences(CaseMetadata expected) {
    Map<String, Object> others = expected.fields();
    return fields().entrySet().stream()
        .filter(field -> !field.getValue().equals(others.get(field.getKey())))
        .map(
            field ->
                "%s is %s instead of %s"
                    .formatted(field.getKey(), field.getValue(), others.get(field.getKey())))
        .collect(Collectors.joining(", "));
  }

  /** Reads the value of a string. */
  @FunctionalInterface
  private interface Meaning<T> {
    @Nullable T of(String word);
  }

  private record Reader(SafetensorsFile file, Map<String, String> strings) {
    Tensor matrix(String name) {
      Tensor tensor = file.tensor(name);
      if (tensor.dimensions() != 2) {
        throw new SafetensorsException(
            ErrorCode.CASE_INCONSISTENT,
            file.name(),
            name,
            tensor + " does not have two dimensions");
      }
      // An empty tensor may have any other extent, which no bytes of the file confirm.
      if (tensor.size(1) < 1 || Math.max(tensor.size(0), tensor.size(1)) > Integer.MAX_VALUE) {
        throw new SafetensorsException(
            ErrorCode.CASE_INCONSISTENT,
            file.name(),
            name,
            tensor + " does not have 1 to 2147483647 columns and at most as many rows");
      }
      return tensor;
    }

    private @Nullable String text(String key) {
      String value = strings.get(key);
      return value == null ? null : CaseStrings.word(value);
    }

    boolean lowLatency() {
      Boolean said = value(List.of(CaseStrings.KIND), CaseStrings::lowLatency);
      return said == null
          ? file.find("layout_range") != null
              || file.find("max_tokens") != null
              || text("max_tokens") != null
          : said;
    }

    boolean byExperts() {
      Boolean said = value(List.of(CaseStrings.ORDER), CaseStrings::byExperts);
      return said != null && said;
    }

    /**
     * A flag.
     *
     * @param keys its names; a file may use any
     */
    boolean flag(List<String> keys, boolean otherwise) {
      Boolean found = value(keys, CaseStrings::flag);
      return found == null ? otherwise : found;
    }

    /**
     * What the strings of these names mean; null without one.
     *
     * @param meaning null for a value that is not allowed
     */
    private <T> @Nullable T value(List<String> keys, Meaning<T> meaning) {
      String first = "";
      @Nullable T found = null;
      for (String key : keys) {
        String text = text(key);
        if (text != null) {
          T value = meaning.of(text);
          if (value == null) {
            throw bad(
                "metadata %s is '%s'; it must be %s"
                    .formatted(key, text, CaseStrings.limit(key, text)));
          }
          if (found != null && !found.equals(value)) {
            throw bad(
                "%s is %s, but %s is %s, in the file or as an option: keep the right one"
                    .formatted(first, found, key, value));
          }
          first = key;
          found = value;
        }
      }
      return found;
    }

    /**
     * A number.
     *
     * @param keys its names; a file may use any
     */
    int number(List<String> keys, @Nullable Number otherwise) {
      Integer found = value(keys, CaseStrings::number);
      if (found != null) {
        return found;
      }
      if (otherwise == null) {
        throw bad(
            "metadata '"
                + keys.getFirst()
                + "' is missing: add it to the file, or pass it as an option");
      }
      return Math.toIntExact(otherwise.longValue());
    }

    int maxTokens(boolean lowLatency) {
      if (!lowLatency) {
        return 0;
      }
      Tensor tensor = file.find("max_tokens");
      List<String> keys = CaseStrings.MAX_TOKENS;
      if (tensor != null && tensor.elements() == 1) {
        long held = tensor.dtype().floating() ? -1 : tensor.getLong(0);
        if (held < 0 || held > Integer.MAX_VALUE) {
          throw new SafetensorsException(
              ErrorCode.CASE_INCONSISTENT,
              file.name(),
              "max_tokens",
              "does not hold a natural number of at most 2147483647");
        }
        int said = number(keys, held);
        if (said != held) {
          throw bad(
              "tensor max_tokens is %d, but the string or the option is %d: keep the right one"
                  .formatted(held, said));
        }
        return said;
      }
      return number(keys, 0);
    }

    boolean holdsFp8() {
      Tensor rows = file.find("recv_x");
      return rows != null && rows.dtype() == DType.FP8_E4M3;
    }

    boolean packedScales() {
      Tensor scales = file.find("recv_x_scales");
      return scales != null && (scales.dtype() == DType.INT32 || scales.dtype() == DType.UE8M0);
    }

    void agree(String tensor, String key, long said, long found) {
      if (said != found) {
        throw new SafetensorsException(
            ErrorCode.CASE_INCONSISTENT,
            file.name(),
            tensor,
            "has rows of " + found + ", metadata " + key + " is " + said);
      }
    }

    private SafetensorsException bad(String problem) {
      return new SafetensorsException(ErrorCode.CASE_METADATA, file.name(), null, problem);
    }
  }
}
