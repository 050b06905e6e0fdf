package org.ep4j.cases;

import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.ep4j.verify.Mismatch;
import org.jspecify.annotations.Nullable;

/**
 * Compares outputs of {@link CaseRunner#run} with those in a recorded file, bit for bit. Rows of
 * low-latency dispatches are paired through {@code layout_range} and {@code src_info}, because each
 * implementation has its own order.
 *
 * @param compared names of the compared outputs
 * @param wrong the first difference of each output that differs
 */
public record CaseComparison(List<String> compared, List<Mismatch> wrong) {
  private static final List<String> HIGH_THROUGHPUT =
      List.of(
          "num_tokens_per_rank",
          "num_tokens_per_expert",
          "is_token_in_rank",
          "recv_x",
          "recv_x_scales",
          "recv_x_global_scales",
          "recv_topk_idx",
          "recv_topk_weights",
          "num_recv_tokens_per_expert",
          "combined_x",
          "combined_topk_weights");
  private static final List<String> LOW_LATENCY =
      List.of("recv_count", "layout_range", "recv_x", "recv_x_scales", "combined_x");
  private static final Set<String> NEED_EXPERT_OUTPUT =
      Set.of("combined_x", "combined_topk_weights");
  private static final Set<String> PAIRED = Set.of("recv_x", "recv_x_scales");

  /** Whether at least one output was compared and none differs. */
  public boolean passed() {
    return wrong.isEmpty() && !compared.isEmpty();
  }

  /**
   * Compares the outputs of one rank.
   *
   * @param rank the rank
   * @param recorded file with the expected outputs
   * @param actual outputs by name
   */
  public static CaseComparison of(int rank, CaseFile recorded, Map<String, Tensor> actual) {
    Comparer comparer = new Comparer(rank, recorded, actual);
    boolean lowLatency = recorded.metadata().lowLatency();
    boolean combined = recorded.find("expert_out") != null;
    for (String name : lowLatency ? LOW_LATENCY : HIGH_THROUGHPUT) {
      Tensor expected = recorded.find(name);
      if (expected != null && (combined || !NEED_EXPERT_OUTPUT.contains(name))) {
        comparer.compare(name, expected, lowLatency);
      }
    }
    return new CaseComparison(List.copyOf(comparer.compared), List.copyOf(comparer.wrong));
  }

  private static final class Comparer {
    final List<String> compared = new ArrayList<>();
    final List<Mismatch> wrong = new ArrayList<>();
    private final int rank;
    private final CaseFile recorded;
    private final Map<String, Tensor> outputs;
    private final String operation;

    Comparer(int rank, CaseFile recorded, Map<String, Tensor> outputs) {
      this.rank = rank;
      this.recorded = recorded;
      this.outputs = outputs;
      this.operation = recorded.metadata().lowLatency() ? "low latency" : "high throughput";
    }

    void compare(String name, Tensor recorded, boolean lowLatency) {
      compared.add(name);
      Tensor expected = lowLatency ? CaseRunner.packed(recorded) : recorded;
      Tensor actual = outputs.get(name);
      if (actual == null) {
        mismatch(name, -1, -1, -1, -1, expected.toString(), "nothing");
      } else if (lowLatency && name.equals("layout_range")) {
        compareCounts(expected, actual);
      } else if (integral(expected) && integral(actual)) {
        compareIntegers(name, expected, actual);
      } else if (expected.dtype() != actual.dtype()
          || !Arrays.equals(expected.shape(), actual.shape())) {
        mismatch(name, -1, -1, -1, -1, expected.toString(), actual.toString());
      } else if (lowLatency && PAIRED.contains(name)) {
        comparePaired(name, expected, actual);
      } else {
        compareRows(name, expected, actual);
      }
    }

    private static boolean integral(Tensor tensor) {
      return tensor.dimensions() < 3
          && (tensor.dtype() == DType.INT32 || tensor.dtype() == DType.INT64);
    }

    /** Treats INT32 and INT64 alike: compares numbers. */
    private void compareIntegers(String name, Tensor expected, Tensor actual) {
      if (!Arrays.equals(expected.shape(), actual.shape())) {
        mismatch(name, -1, -1, -1, -1, expected.toString(), actual.toString());
        return;
      }
      for (long i = 0; i < expected.elements(); i++) {
        long wanted = integer(expected, i);
        long found = integer(actual, i);
        if (wanted != found) {
          mismatch(name, i, -1, -1, -1, String.valueOf(wanted), String.valueOf(found));
          return;
        }
      }
    }

    private static long integer(Tensor tensor, long i) {
      return tensor.dtype() == DType.INT64 ? tensor.getLong(i) : tensor.getInt(i);
    }

    private void compareCounts(Tensor expected, Tensor actual) {
      if (!Arrays.equals(expected.shape(), actual.shape())) {
        mismatch("layout_range", -1, -1, -1, -1, expected.toString(), actual.toString());
        return;
      }
      long ranks = expected.size(1);
      for (long i = 0; i < expected.elements(); i++) {
        long wanted = expected.getLong(i) & 0xFFFF_FFFFL;
        long found = actual.getLong(i) & 0xFFFF_FFFFL;
        if (wanted != found) {
          mismatch(
              "layout_range",
              i / ranks,
              (int) (i % ranks),
              -1,
              -1,
              wanted + " rows",
              found + " rows");
          return;
        }
      }
    }

    private void comparePaired(String name, Tensor expected, Tensor actual) {
      Tensor ranges = outputs.get("layout_range");
      Tensor sources = outputs.get("src_info");
      if (ranges == null || sources == null) {
        mismatch(name, -1, -1, -1, -1, "layout_range and src_info", "nothing");
        return;
      }
      SlotTable theirs =
          new SlotTable(
              recorded.name(), recorded.tensor("layout_range"), recorded.tensor("src_info"));
      SlotTable ours = new SlotTable("output of rank " + rank, ranges, sources);
      if (theirs.ranks() != ours.ranks()
          || theirs.localExperts() != ours.localExperts()
          || theirs.rowsPerExpert() != ours.rowsPerExpert()) {
        mismatch(name, -1, -1, -1, -1, theirs.toString(), ours.toString());
        return;
      }
      long rowBytes = expected.dtype().bytes(expected.size(2));
      for (int l = 0; l < theirs.localExperts(); l++) {
        for (int s = 0; s < theirs.ranks(); s++) {
          for (int n = 0; n < theirs.count(l, s); n++) {
            int slot = theirs.slot(l, s, n);
            int token = theirs.token(slot);
            int found = ours.find(l, s, token);
            if (found < 0) {
              mismatch(name, slot, s, token, -1, "a row", "none");
              return;
            }
            if (differ(
                name,
                found,
                s,
                token,
                row(expected, slot, rowBytes),
                row(actual, found, rowBytes))) {
              return;
            }
          }
        }
      }
    }

    private void compareRows(String name, Tensor expected, Tensor actual) {
      long rows = expected.size(0);
      long rowBytes = rows == 0 ? 0 : expected.byteSize() / rows;
      for (long i = 0; i < rows; i++) {
        if (differ(name, i, -1, -1, row(expected, i, rowBytes), row(actual, i, rowBytes))) {
          return;
        }
      }
    }

    private static MemorySegment row(Tensor tensor, long row, long rowBytes) {
      return tensor.segment().asSlice(row * rowBytes, rowBytes);
    }

    private boolean differ(
        String name,
        long row,
        int source,
        int token,
        MemorySegment expected,
        MemorySegment actual) {
      long at = expected.mismatch(actual);
      if (at >= 0) {
        mismatch(
            name, row, source, token, at, Mismatch.hex(expected, at), Mismatch.hex(actual, at));
      }
      return at >= 0;
    }

    private void mismatch(
        String name,
        long row,
        int source,
        int token,
        long at,
        @Nullable String expected,
        String actual) {
      wrong.add(
          new Mismatch(
              operation, name, rank, row, source, token, -1, at, String.valueOf(expected), actual));
    }
  }
}
