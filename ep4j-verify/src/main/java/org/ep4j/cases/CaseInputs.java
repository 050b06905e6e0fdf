package org.ep4j.cases;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.ep4j.Tokens;
import org.ep4j.config.BufferConfig;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.io.SafetensorsException;
import org.ep4j.io.SafetensorsFile;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * Checks of the inputs of a case, over the files of all ranks: every rank of a world reads all
 * files, so each finds the same error before any of them opens a buffer or waits for another.
 */
final class CaseInputs {
  private static final List<DType> ROWS =
      List.of(DType.BF16, DType.FP16, DType.FP32, DType.FP8_E4M3, DType.NVFP4);
  private static final List<DType> SUMS = List.of(DType.BF16, DType.FP16, DType.FP32);
  private static final List<DType> LOW_LATENCY = List.of(DType.BF16);

  /** Tensors that all files must have alike, or none. */
  private static final List<String> ALIKE =
      List.of("x", "x_scales", "x_global_scales", "topk_weights", "expert_out");

  /** The names in files of arguments of the API. */
  private static final Map<String, String> NAMES =
      Map.of(
          "topkIdx", "topk_idx",
          "topkWeights", "topk_weights",
          "scales", "x_scales",
          "globalScales", "x_global_scales");

  /** More than any model has; tables of them are small. */
  private static final int MAX_EXPERTS = 1 << 20;

  private final int ranks;
  private final List<String> files = new ArrayList<>();
  private final List<Map<String, String>> types = new ArrayList<>();
  private final List<Long> expertRows = new ArrayList<>();

  /** By rank: tokens that it receives. */
  private long[] received = {};

  /** By expert: tokens that choose it. */
  private long[] ofExperts = {};

  private boolean grouped;
  private long alignment = 1;

  CaseInputs(int ranks) {
    this.ranks = ranks;
  }

  /** Checks the file of the next rank. */
  void add(SafetensorsFile file, CaseMetadata metadata) {
    checkTokens(file, metadata);
    Tensor y = file.find("expert_out");
    if (y != null) {
      checkExpertRows(file, metadata, y);
    }
    files.add(file.name());
    types.add(types(file));
    // The rows of low latency have slots of their own, which the run checks.
    expertRows.add(y == null || metadata.lowLatency() ? -1 : y.size(0));
    grouped = metadata.byExperts();
    alignment = metadata.expertAlignment();
    count(file, metadata);
  }

  /** Compares the files; after the last one. */
  void finish() {
    for (int rank = 1; rank < files.size(); rank++) {
      for (String tensor : ALIKE) {
        String own = types.get(rank).getOrDefault(tensor, "missing");
        String first = types.getFirst().getOrDefault(tensor, "missing");
        if (!own.equals(first)) {
          throw inconsistent(
              files.get(rank),
              tensor,
              "is %s, but %s in the file of rank 0: all ranks need the same".formatted(own, first));
        }
      }
    }
    for (int rank = 0; rank < files.size(); rank++) {
      long rows = expertRows.get(rank);
      if (rows >= 0 && rows != received(rank)) {
        throw inconsistent(
            files.get(rank),
            "expert_out",
            "has %d rows, but rank %d receives %d".formatted(rows, rank, received(rank)));
      }
    }
  }

  private static void checkTokens(SafetensorsFile file, CaseMetadata metadata) {
    Tensor x = file.tensor("x");
    List<DType> allowed = metadata.lowLatency() ? LOW_LATENCY : ROWS;
    if (!allowed.contains(x.dtype())) {
      throw inconsistent(file.name(), "x", text(x) + " has none of the element types " + allowed);
    }
    try {
      var _ = new Tokens(x, file.find("x_scales"), file.find("x_global_scales"));
      var _ = new Routing(file.tensor("topk_idx"), file.find("topk_weights"));
    } catch (InvalidArgumentException e) {
      throw inconsistent(
          file.name(), NAMES.getOrDefault(e.argument(), e.argument()), withoutCode(e));
    }
  }

  private static void checkExpertRows(SafetensorsFile file, CaseMetadata metadata, Tensor y) {
    List<DType> allowed = metadata.lowLatency() ? LOW_LATENCY : SUMS;
    int dimensions = metadata.lowLatency() ? 3 : 2;
    if (!allowed.contains(y.dtype())
        || y.dimensions() != dimensions
        || y.size(dimensions - 1) != metadata.hidden()) {
      throw inconsistent(
          file.name(),
          "expert_out",
          "%s is not %s[%s, %d]"
              .formatted(
                  text(y),
                  String.join(" or ", allowed.stream().map(DType::name).toList()),
                  metadata.lowLatency() ? "local experts, ranks * max_tokens" : "received rows",
                  metadata.hidden()));
    }
  }

  /** Checks the ids of a file, and counts the rows that each rank receives. */
  private void count(SafetensorsFile file, CaseMetadata metadata) {
    int experts = metadata.experts();
    if (experts < 1 || experts > MAX_EXPERTS) {
      throw inconsistent(
          file.name(),
          null,
          "metadata experts is %d; it must be 1 to %d".formatted(experts, MAX_EXPERTS));
    }
    ExpertPlacement placement = ExpertPlacement.blocks(experts, ranks);
    received = received.length == 0 ? new long[ranks] : received;
    ofExperts = ofExperts.length == 0 ? new long[experts] : ofExperts;
    Tensor ids = file.tensor("topk_idx");
    long topK = ids.size(1);
    if (topK > BufferConfig.MAX_TOP_K) {
      throw inconsistent(
          file.name(),
          "topk_idx",
          "has rows of %d; a token has at most %d choices".formatted(topK, BufferConfig.MAX_TOP_K));
    }
    for (long token = 0; token < ids.size(0); token++) {
      boolean[] sent = new boolean[ranks];
      for (long k = 0; k < topK; k++) {
        long id = integer(ids, token * topK + k);
        if (id < -1 || id >= experts) {
          throw inconsistent(
              file.name(),
              "topk_idx",
              "token %d chooses expert %d: an id is 0 to %d, or -1 for none"
                  .formatted(token, id, experts - 1));
        }
        for (long other = 0; id >= 0 && other < k; other++) {
          if (integer(ids, token * topK + other) == id) {
            throw inconsistent(
                file.name(),
                "topk_idx",
                "token %d chooses expert %d twice: each expert at most once".formatted(token, id));
          }
        }
        if (id >= 0) {
          sent[placement.rankOf((int) id)] = true;
          ofExperts[(int) id]++;
        }
      }
      for (int rank = 0; rank < ranks; rank++) {
        received[rank] += sent[rank] ? 1 : 0;
      }
    }
  }

  /** The rows of a rank: one for each token; grouped by experts for each choice, and padding. */
  private long received(int rank) {
    if (!grouped) {
      return received[rank];
    }
    ExpertPlacement placement = ExpertPlacement.blocks(ofExperts.length, ranks);
    long rows = 0;
    for (int l = 0; l < placement.localExperts(rank); l++) {
      rows += Math.ceilDiv(ofExperts[placement.expertAt(rank, l)], alignment) * alignment;
    }
    return rows;
  }

  /** Element type and shape. */
  private static String text(Tensor tensor) {
    return tensor.dtype() + Arrays.toString(tensor.shape());
  }

  private static long integer(Tensor tensor, long i) {
    return tensor.dtype() == DType.INT64 ? tensor.getLong(i) : tensor.getInt(i);
  }

  private static Map<String, String> types(SafetensorsFile file) {
    Map<String, String> types = new LinkedHashMap<>();
    for (String tensor : ALIKE) {
      Tensor found = file.find(tensor);
      if (found != null) {
        types.put(tensor, found.dtype().name());
      }
    }
    return types;
  }

  /** The text of an error of the API without its code: the error of the file has another. */
  static String withoutCode(InvalidArgumentException e) {
    String message = String.valueOf(e.getMessage());
    String code = e.errorCode().message("");
    return message.startsWith(code) ? message.substring(code.length()) : message;
  }

  private static SafetensorsException inconsistent(
      String file, @Nullable String tensor, String problem) {
    return new SafetensorsException(ErrorCode.CASE_INCONSISTENT, file, tensor, problem);
  }
}
