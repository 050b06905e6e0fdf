package org.ep4j.cases;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.ep4j.Combine;
import org.ep4j.CombineOptions;
import org.ep4j.CombineOrder;
import org.ep4j.Dispatch;
import org.ep4j.DispatchHandle;
import org.ep4j.DispatchLayout;
import org.ep4j.DispatchOptions;
import org.ep4j.ExpertBuffer;
import org.ep4j.FlatDispatch;
import org.ep4j.LowLatencyCombine;
import org.ep4j.LowLatencyCombineOptions;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.Tokens;
import org.ep4j.config.Layout;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.io.SafetensorsException;
import org.ep4j.io.SafetensorsFile;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.ep4j.verify.Outputs;
import org.ep4j.verify.Poison;
import org.jspecify.annotations.Nullable;

/**
 * Runs a case: dispatch and, if the file has {@code expert_out}, combine. Collective: every rank
 * runs its own file on its own buffer.
 */
public final class CaseRunner {
  private static final List<String> INPUTS =
      List.of(
          "x",
          "x_scales",
          "x_global_scales",
          "topk_idx",
          "topk_weights",
          "expert_out",
          "max_tokens");

  /** Outputs with a row for each received row; a dispatch does not define those of padding. */
  private static final List<String> RECEIVED =
      List.of("recv_x", "recv_x_scales", "recv_x_global_scales");

  private CaseRunner() {}

  /**
   * Runs the file of this rank.
   *
   * <p>Outputs have the names of the recorded vectors and the row order of this library. Rows of
   * low-latency outputs without a token are zero, and -1 in {@code src_info}. Low latency also
   * returns {@code expert_out}, in that row order.
   *
   * @param buffer opened with {@link CaseDirectory#config()}
   * @param file inputs {@code x}, {@code x_scales}, {@code topk_idx}, {@code topk_weights}, {@code
   *     expert_out}
   * @param out memory for the outputs
   * @return outputs by name, owned by {@code out}
   * @throws SafetensorsException if the file does not match the buffer, or {@code expert_out} the
   *     dispatch
   */
  public static Map<String, Tensor> run(ExpertBuffer buffer, CaseFile file, Arena out) {
    try {
      return file.metadata().lowLatency()
          ? runLowLatency(buffer, file, out)
          : runHighThroughput(buffer, file, out);
    } catch (InvalidArgumentException e) {
      // The caller passed a file, and no argument of that name.
      SafetensorsException named =
          new SafetensorsException(
              ErrorCode.CASE_INCONSISTENT, file.name(), null, CaseInputs.withoutCode(e));
      named.initCause(e);
      throw named;
    }
  }

  /** The inputs of a file that {@link #run} reads, by name. */
  public static Map<String, Tensor> inputs(CaseFile file) {
    Map<String, Tensor> inputs = new LinkedHashMap<>();
    for (String name : INPUTS) {
      Tensor tensor = file.find(name);
      if (tensor != null) {
        inputs.put(name, tensor);
      }
    }
    return inputs;
  }

  private static Routing routing(CaseFile file) {
    return new Routing(file.tensor("topk_idx"), file.find("topk_weights"));
  }

  private static Map<String, Tensor> runHighThroughput(
      ExpertBuffer buffer, CaseFile file, Arena out) {
    Map<String, Tensor> outputs = new LinkedHashMap<>();
    Routing routing = routing(file);
    DispatchLayout layout = buffer.dispatchLayout(routing);
    keep(outputs, "num_tokens_per_rank", layout.tokensPerRank(), out);
    keep(outputs, "num_tokens_per_expert", layout.tokensPerExpert(), out);
    keep(outputs, "is_token_in_rank", layout.tokenInRank(), out);
    DispatchOptions options =
        DispatchOptions.builder().expertAlignment(file.metadata().expertAlignment()).build();
    Tokens tokens =
        new Tokens(file.tensor("x"), file.find("x_scales"), file.find("x_global_scales"));
    boolean byExperts = file.metadata().byExperts();
    Dispatch dispatch =
        buffer.dispatch(byExperts ? Layout.EXPERT_MAJOR : Layout.FLAT, tokens, routing, options);
    keep(outputs, "recv_x", dispatch.x(), out);
    keep(outputs, "recv_x_scales", Outputs.scales(dispatch), out);
    keep(outputs, "recv_x_global_scales", Outputs.globalScales(dispatch), out);
    if (byExperts) {
      clearPadding(outputs, dispatch.sourceTokens().onHost(out));
    }
    keep(
        outputs,
        "recv_topk_idx",
        dispatch instanceof FlatDispatch flat ? flat.topkIdx() : null,
        out);
    keep(outputs, "recv_topk_weights", Outputs.weights(dispatch), out);
    keep(outputs, "num_recv_tokens_per_expert", dispatch.alignedCounts(), out);
    // So that a later run of the case finds nothing of this one.
    Poison.fill(dispatch);
    try (DispatchHandle handle = dispatch.handle()) {
      Tensor y = file.find("expert_out");
      if (y != null) {
        if (y.size(0) != handle.rows()) {
          throw new SafetensorsException(
              ErrorCode.CASE_INCONSISTENT,
              file.name(),
              "expert_out",
              y
                  + " has "
                  + y.size(0)
                  + " rows, but rank "
                  + buffer.rank()
                  + " received "
                  + handle.rows());
        }
        // The recorded sums are those of one node: the same bits across any number of nodes.
        CombineOptions.Builder combining = CombineOptions.builder().partialRounding(false);
        Tensor weights = outputs.get("recv_topk_weights");
        if (byExperts) {
          Tensor readByPeers = dispatch.combineInput(y.dtype()).rows(0, y.size(0));
          readByPeers.copyFrom(y.segment());
          y = readByPeers;
          combining.order(CombineOrder.EXPERT).applyWeights(weights != null);
        }
        if (weights != null) {
          combining.topkWeights(weights);
        }
        Combine combine = buffer.combine(y, handle, combining.build());
        keep(outputs, "combined_x", combine.x(), out);
        keep(outputs, "combined_topk_weights", Outputs.weights(combine), out);
        Poison.fill(combine);
      }
    }
    return outputs;
  }

  private static Map<String, Tensor> runLowLatency(ExpertBuffer buffer, CaseFile file, Arena out) {
    CaseMetadata metadata = file.metadata();
    Routing routing = routing(file);
    LowLatencyDispatch dispatch =
        buffer.lowLatencyDispatch(
            file.tensor("x"),
            routing,
            LowLatencyDispatchOptions.builder()
                .format(metadata.format())
                .scaleKind(metadata.scaleKind())
                .build());
    SlotTable ours =
        new SlotTable(
            "dispatch",
            dispatch.handle().layoutRange().onHost(out),
            dispatch.handle().srcInfo().onHost(out));
    Map<String, Tensor> outputs = new LinkedHashMap<>();
    outputs.put("recv_x", usedRows(dispatch.x().onHost(out), ours, out));
    Tensor scales = Outputs.scales(dispatch);
    if (scales != null) {
      outputs.put("recv_x_scales", packed(usedRows(scales.onHost(out), ours, out)));
    }
    keep(outputs, "recv_count", dispatch.counts(), out);
    outputs.put("src_info", sources(ours, out));
    keep(outputs, "layout_range", dispatch.handle().layoutRange(), out);
    Poison.fill(dispatch);
    Tensor y = file.find("expert_out");
    if (y != null) {
      Tensor placed = place(file, y, ours, out);
      outputs.put("expert_out", placed);
      LowLatencyCombine combine =
          buffer.lowLatencyCombine(
              placed,
              routing,
              dispatch.handle(),
              LowLatencyCombineOptions.builder()
                  .logFmt(metadata.logFmt())
                  .order(metadata.byExperts() ? CombineOrder.EXPERT : CombineOrder.CHOICE)
                  .build());
      keep(outputs, "combined_x", combine.x(), out);
      Poison.fill(combine.x());
    }
    return outputs;
  }

  /** Rows of the experts, from the row order of the file to that of ep4j. */
  private static Tensor place(CaseFile file, Tensor y, SlotTable ours, Arena out) {
    int experts = ours.localExperts();
    if (y.dimensions() != 3 || y.size(0) != experts) {
      throw new SafetensorsException(
          ErrorCode.CASE_INCONSISTENT,
          file.name(),
          "expert_out",
          y + " is not [" + experts + ", ranks * max_tokens, hidden]");
    }
    Tensor ranges = file.find("layout_range");
    Tensor sources = file.find("src_info");
    SlotTable theirs =
        ranges == null || sources == null ? ours : new SlotTable(file.name(), ranges, sources);
    if (y.size(1) != theirs.rowsPerExpert() || theirs.localExperts() != experts) {
      throw new SafetensorsException(
          ErrorCode.CASE_INCONSISTENT,
          file.name(),
          "expert_out",
          y
              + " does not agree with src_info ["
              + theirs.localExperts()
              + ", "
              + theirs.rowsPerExpert()
              + "]");
    }
    long rowBytes = y.dtype().bytes(y.size(2));
    MemorySegment target =
        out.allocate(Math.max(1, experts * (long) ours.rowsPerExpert() * rowBytes), 64);
    for (int l = 0; l < experts; l++) {
      for (int s = 0; s < ours.ranks(); s++) {
        for (int n = 0; n < ours.count(l, s); n++) {
          int slot = ours.slot(l, s, n);
          int from = s < theirs.ranks() ? theirs.find(l, s, ours.token(slot)) : -1;
          if (from < 0) {
            throw new SafetensorsException(
                ErrorCode.CASE_INCONSISTENT,
                file.name(),
                "src_info",
                "local expert %d has no row for token %d of rank %d, which was dispatched to it"
                    .formatted(l, ours.token(slot), s));
          }
          MemorySegment.copy(y.segment(), from * rowBytes, target, slot * rowBytes, rowBytes);
        }
      }
    }
    return Tensor.of(target, y.dtype(), experts, ours.rowsPerExpert(), y.size(2));
  }

  private static void keep(
      Map<String, Tensor> outputs, String name, @Nullable Tensor tensor, Arena out) {
    if (tensor != null) {
      outputs.put(name, SafetensorsFile.copyOf(tensor, out));
    }
  }

  /** Zeros in received rows without a token, whose contents are undefined. */
  private static void clearPadding(Map<String, Tensor> outputs, Tensor sourceTokens) {
    for (String name : RECEIVED) {
      Tensor rows = outputs.get(name);
      for (long row = 0; rows != null && row < rows.size(0); row++) {
        if (sourceTokens.getInt(row) < 0) {
          rows.rows(row, row + 1).segment().fill((byte) 0);
        }
      }
    }
  }

  /** A copy of [L, R*M, n] with zeros in rows without a token. */
  private static Tensor usedRows(Tensor rows, SlotTable slots, Arena out) {
    long rowBytes = rows.dtype().bytes(rows.size(2));
    MemorySegment copy = out.allocate(Math.max(1, rows.byteSize()), 64);
    for (int l = 0; l < slots.localExperts(); l++) {
      for (int s = 0; s < slots.ranks(); s++) {
        long at = slots.slot(l, s, 0) * rowBytes;
        MemorySegment.copy(rows.segment(), at, copy, at, slots.count(l, s) * rowBytes);
      }
    }
    return Tensor.of(copy, rows.dtype(), rows.shape());
  }

  private static Tensor sources(SlotTable slots, Arena out) {
    int elements = slots.localExperts() * slots.rowsPerExpert();
    MemorySegment copy = out.allocate(Math.max(1, elements) * (long) Integer.BYTES, 64);
    for (int slot = 0; slot < elements; slot++) {
      copy.set(ValueLayout.JAVA_INT, slot * (long) Integer.BYTES, slots.token(slot));
    }
    return Tensor.of(copy, DType.INT32, slots.localExperts(), slots.rowsPerExpert());
  }

  /** Exponent bytes in the form of the recorded vectors: four per INT32. */
  static Tensor packed(Tensor scales) {
    if (scales.dtype() != DType.UE8M0
        || scales.dimensions() != 3
        || scales.size(2) % Integer.BYTES != 0) {
      return scales;
    }
    return Tensor.of(
        scales.segment(),
        DType.INT32,
        scales.size(0),
        scales.size(1),
        scales.size(2) / Integer.BYTES);
  }
}
