package org.ep4j.engine.host.lowlatency;

import java.util.Arrays;
import org.ep4j.engine.host.context.CallerTensors;
import org.ep4j.engine.host.context.HostContext;
import org.ep4j.engine.host.kernel.RowKernels;
import org.ep4j.engine.host.layout.LowLatencyLayout;
import org.ep4j.engine.lowlatency.LowLatencyFormat;
import org.ep4j.memory.NativeMemory;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.ScaleLayout;
import org.ep4j.tensor.Tensor;

/**
 * The receiving half of a low-latency dispatch: takes the sources in rank order and appends each of
 * their rows, token by token, to the rows of every local expert that the token chose. The rows of
 * an expert are ordered by source rank, then token.
 */
final class LowLatencyDispatchReceiver {
  private final HostContext context;
  private final LowLatencyLayout layout;
  private final LowLatencyPaths paths;
  private final LowLatencySignals signals;
  private final LowLatencyMemory memory;
  private final RowKernels kernels;
  private final LowLatencyCounters counters;
  private final int experts;

  /** Per local expert: number of rows so far, and before the current source. */
  private final int[] next;

  private final int[] first;

  LowLatencyDispatchReceiver(
      HostContext context,
      LowLatencyLayout layout,
      LowLatencyPaths paths,
      LowLatencySignals signals,
      LowLatencyMemory memory,
      RowKernels kernels,
      LowLatencyCounters counters) {
    this.context = context;
    this.layout = layout;
    this.paths = paths;
    this.signals = signals;
    this.memory = memory;
    this.kernels = kernels;
    this.counters = counters;
    experts = context.placement.localExperts(context.rank);
    next = new int[experts];
    first = new int[experts];
  }

  void receive(LowLatencyDispatchOperation op) {
    Arrays.fill(next, 0);
    long kind = LowLatencyKind.of(op);
    boolean byRanks = op.record.byRanks;
    for (int source = 0; source < context.ranks; source++) {
      System.arraycopy(next, 0, first, 0, experts);
      long header = signals.await(source, op);
      op.record.received[source] = 0;
      if (header != 0) {
        signals.requireSame(
            source, op.number(), kind, NativeMemory.getLong(header + LowLatencyLayout.KIND));
        int entries = (int) NativeMemory.getLong(header + LowLatencyLayout.COUNT);
        op.record.received[source] =
            byRanks ? placeByRank(op, source, entries) : place(op, source, entries);
        op.record.answerTo[source] = (int) NativeMemory.getLong(header + LowLatencyLayout.PLACE);
      }
      if (byRanks) {
        writeRange(op, source);
      } else {
        writeRanges(op.out(), source);
      }
    }
    writeCounts(op);
    signals.received(op.number());
    signals.awaitSent(op.number(), op.operation);
  }

  /** Places the rows of one source; returns their number. */
  private int place(LowLatencyDispatchOperation op, int source, int entries) {
    LowLatencyFormat format = op.format;
    int rowBytes = format.rowBytes();
    int scaleBytes = format.scaleBytes();
    boolean byColumns = op.scaleLayout == ScaleLayout.COLUMN_MAJOR;
    boolean weighted = op.record.weighted;
    LowLatencyMemory.Half out = op.out();
    long rows = out.rows();
    long scales = out.scales();
    long sourceInfo = out.sourceTokens();
    long capacity = memory.rowsPerExpert();
    int[] placed = op.record.rows[source];
    long from = paths.from(source);
    long list = from + layout.list(op.number(), source);
    long inPlace = source == context.rank ? op.ownRows : 0;
    long row = from + layout.row(op.number(), source) - format.stride();
    int token = 0;
    int count = 0;
    int tokens = 0;
    for (int i = 0; i < entries; i++) {
      int entry = NativeMemory.getInt(list + 4L * i);
      if (entry < 0) {
        token = -1 - entry;
        tokens++;
        row = inPlace == 0 ? row + format.stride() : inPlace + (long) token * rowBytes;
        continue;
      }
      int slot = next[entry]++;
      long at = entry * capacity + slot;
      kernels.copy(row, rows + at * rowBytes, rowBytes);
      if (scaleBytes != 0 && byColumns) {
        scatter(row + rowBytes, scales, format, entry, slot, capacity);
      } else if (scaleBytes != 0) {
        kernels.copy(row + rowBytes, scales + at * scaleBytes, scaleBytes);
      }
      NativeMemory.putInt(sourceInfo + 4 * at, token);
      if (weighted) {
        i++;
        NativeMemory.putInt(out.rowWeights() + 4 * at, NativeMemory.getInt(list + 4L * i));
      }
      placed[count++] = (int) at;
    }
    received(op, tokens);
    return count;
  }

  /** By ranks: places the rows of one source and their choices; returns their number. */
  private int placeByRank(LowLatencyDispatchOperation op, int source, int words) {
    LowLatencyFormat format = op.format;
    LowLatencyRecord record = op.record;
    LowLatencyMemory.Half out = op.out();
    int topK = record.topK;
    long stride = 4L * (1 + (record.weighted ? 2 * topK : topK));
    long capacity = memory.rowsPerRank();
    long area = paths.from(source);
    long list = area + layout.list(op.number(), source);
    long row = area + layout.row(op.number(), source);
    boolean inPlace = source == context.rank && op.ownRows != 0;
    int count = (int) (4L * words / stride);
    for (int i = 0; i < count; i++, list += stride, row += format.stride()) {
      int token = NativeMemory.getInt(list);
      long at = source * capacity + i;
      long from = inPlace ? op.ownRows + (long) token * format.rowBytes() : row;
      kernels.copy(from, out.rows() + at * format.rowBytes(), format.rowBytes());
      long scales = from + format.rowBytes();
      if (format.scaleBytes() != 0 && op.scaleLayout == ScaleLayout.COLUMN_MAJOR) {
        scatter(scales, out.scales(), format, source, i, capacity);
      } else if (format.scaleBytes() != 0) {
        kernels.copy(scales, out.scales() + at * format.scaleBytes(), format.scaleBytes());
      }
      NativeMemory.putInt(out.sourceTokens() + 4 * at, token);
      for (int k = 0; k < topK; k++) {
        int expert = NativeMemory.getInt(list + 4L * (1 + k));
        NativeMemory.putLong(out.rowChoices() + 8 * (at * topK + k), expert);
        if (expert >= 0) {
          next[expert]++;
        }
        if (record.weighted) {
          int bits = NativeMemory.getInt(list + 4L * (1 + topK + k));
          NativeMemory.putInt(out.rowWeights() + 4 * (at * topK + k), bits);
        }
      }
      record.rows[source][i] = (int) at;
    }
    received(op, count);
    return count;
  }

  private void received(LowLatencyDispatchOperation op, int rows) {
    counters.received(rows);
    context.log.received(rows, op.format.rowBytes() + op.format.scaleBytes());
  }

  /** By ranks: position and number of the rows of a source. */
  private void writeRange(LowLatencyDispatchOperation op, int source) {
    int count = op.record.received[source];
    long first = source * memory.rowsPerRank();
    NativeMemory.putLong(op.out().ranges() + 8L * source, first << 32 | count);
    NativeMemory.putInt(op.out().rowCounts() + 4L * source, count);
  }

  /** Writes the scales of a row into the columns of its group. */
  private void scatter(
      long from, long scales, LowLatencyFormat format, int group, int slot, long capacity) {
    DType dtype = format.columnDType();
    int columns = format.columns();
    long length = ScaleLayout.columnLength(dtype, capacity);
    long first = (long) group * columns * length + slot;
    for (int c = 0; c < columns; c++) {
      long at = first + c * length;
      if (dtype.bits() == Byte.SIZE) {
        NativeMemory.putByte(scales + at, NativeMemory.getByte(from + c));
      } else {
        NativeMemory.putInt(
            scales + Integer.BYTES * at, NativeMemory.getInt(from + (long) Integer.BYTES * c));
      }
    }
  }

  private void writeRanges(LowLatencyMemory.Half out, int source) {
    long ranges = out.ranges() + 8L * source;
    long stride = 8L * context.ranks;
    for (int e = 0; e < experts; e++) {
      long range = (long) first[e] << 32 | (next[e] - first[e]);
      NativeMemory.putLong(ranges + e * stride, range);
    }
  }

  private void writeCounts(LowLatencyDispatchOperation op) {
    long counts = op.out().rowCounts();
    Tensor stats = op.cumulativeStats;
    for (int e = 0; e < experts; e++) {
      if (!op.record.byRanks) {
        NativeMemory.putInt(counts + 4L * e, next[e]);
      }
      if (stats != null && e < op.record.localExperts) {
        CallerTensors.addInt(stats, e, next[e]);
      }
      if (op.record.localExperts == experts) {
        context.log.expert(e, next[e]);
      }
    }
  }
}
