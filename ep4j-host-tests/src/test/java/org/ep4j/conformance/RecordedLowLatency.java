package org.ep4j.conformance;

import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Objects;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.LowLatencyHandle;
import org.ep4j.cases.CaseFile;
import org.ep4j.execution.Event;
import org.ep4j.execution.ReceiveHook;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * Outputs of another implementation in a low-latency dispatch, with rows in the order of this
 * library: by source rank and token.
 */
final class RecordedLowLatency implements LowLatencyDispatch, LowLatencyHandle {
  private record Row(int source, int token, int slot) {}

  private final CaseFile file;
  private final Tensor x;
  private final @Nullable Tensor scales;
  private final Tensor srcInfo;
  private final Tensor layoutRange;
  private final int[] recordedSlot;

  RecordedLowLatency(CaseFile file) {
    this.file = file;
    Tensor ranges = file.tensor("layout_range");
    Tensor tokens = file.tensor("src_info");
    int perExpert = (int) tokens.size(1);
    int ranks = (int) ranges.size(1);
    recordedSlot = new int[(int) tokens.elements()];
    int[] sortedTokens = new int[recordedSlot.length];
    long[] sortedRanges = new long[(int) ranges.elements()];
    for (int l = 0; l < ranges.size(0); l++) {
      List<Row> rows = new ArrayList<>();
      for (int s = 0; s < ranks; s++) {
        long range = ranges.getLong((long) l * ranks + s);
        int count = (int) range;
        sortedRanges[l * ranks + s] = (long) rows.size() << 32 | count;
        for (int i = 0; i < count; i++) {
          int slot = l * perExpert + (int) (range >>> 32) + i;
          rows.add(new Row(s, tokens.getInt(slot), slot));
        }
      }
      rows.sort(Comparator.comparingInt(Row::source).thenComparingInt(Row::token));
      for (int i = 0; i < rows.size(); i++) {
        recordedSlot[l * perExpert + i] = rows.get(i).slot();
        sortedTokens[l * perExpert + i] = rows.get(i).token();
      }
    }
    srcInfo = Tensor.of(sortedTokens, tokens.shape());
    layoutRange = Tensor.of(sortedRanges, ranges.shape());
    x = sorted(file.tensor("recv_x"));
    Tensor recordedScales = file.find("recv_x_scales");
    scales = recordedScales == null ? null : sorted(recordedScales);
  }

  private Tensor sorted(Tensor recorded) {
    MemorySegment rows = MemorySegment.ofArray(new byte[(int) recorded.byteSize()]);
    long rowBytes = recorded.dtype().bytes(recorded.size(2));
    for (int slot = 0; slot < recordedSlot.length; slot++) {
      MemorySegment.copy(
          recorded.segment(), recordedSlot[slot] * rowBytes, rows, slot * rowBytes, rowBytes);
    }
    return Tensor.of(rows, recorded.dtype(), recorded.shape());
  }

  /** The row that the experts returned for the row in {@code slot} of the sorted order. */
  MemorySegment expertRow(long slot) {
    Tensor y = file.tensor("expert_out");
    long rowBytes = y.dtype().bytes(y.size(2));
    return y.segment().asSlice(recordedSlot[(int) slot] * rowBytes, rowBytes);
  }

  @Override
  public Tensor x() {
    return x;
  }

  @Override
  public boolean hasScales() {
    return scales != null;
  }

  @Override
  public Tensor scales() {
    return Objects.requireNonNull(scales);
  }

  @Override
  public boolean hasWeights() {
    return false;
  }

  @Override
  public Tensor rowWeights() {
    throw new IllegalStateException("recorded rows have no weights");
  }

  @Override
  public Tensor counts() {
    return file.tensor("recv_count");
  }

  @Override
  public Tensor srcInfo() {
    return srcInfo;
  }

  @Override
  public Tensor layoutRange() {
    return layoutRange;
  }

  @Override
  public LowLatencyHandle handle() {
    return this;
  }

  @Override
  public LowLatencyDispatch pending() {
    return this;
  }

  @Override
  public ReceiveHook hook() {
    throw new UnsupportedOperationException("recorded");
  }

  @Override
  public Event event() {
    return Event.completed();
  }
}
