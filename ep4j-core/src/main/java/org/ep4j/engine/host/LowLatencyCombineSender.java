package org.ep4j.engine.host;

import static java.util.Objects.requireNonNull;

import org.ep4j.Tensor;
import org.ep4j.engine.host.kernel.LogFmt;
import org.ep4j.engine.host.kernel.RowKernels;
import org.ep4j.memory.NativeMemory;

/**
 * The sending half of a low-latency combine: makes the rows that each rank is waiting for readable
 * to it and says where they are. Rows already in the combine region stay there, and their numbers
 * are told; others are copied (or encoded) into it densely, in the order of the dispatch list.
 */
final class LowLatencyCombineSender {
  private final HostContext context;
  private final LowLatencyLayout layout;
  private final LowLatencySignals signals;
  private final LowLatencyMemory memory;
  private final RowKernels kernels;
  private final int hidden;
  private final int rowBytes;
  private final long own;

  /** For each combine region the last operation whose rows lay in it. */
  private final long[] lastUse = new long[2];

  LowLatencyCombineSender(
      HostContext context,
      LowLatencyLayout layout,
      LowLatencySignals signals,
      LowLatencyMemory memory,
      RowKernels kernels) {
    this.context = context;
    this.layout = layout;
    this.signals = signals;
    this.memory = memory;
    this.kernels = kernels;
    hidden = context.config.hidden();
    rowBytes = 2 * hidden;
    own = context.lowLatency(context.rank);
  }

  /** The last operation whose rows lay in a combine region. */
  long lastUse(int half) {
    return lastUse[half];
  }

  void send(LowLatencyCombineOperation op) {
    signals.start(op.number);
    signals.awaitReceived(op.number - 2, op.number, op.operation);
    if (!op.zeroCopy) {
      signals.awaitReceived(lastUse[op.half], op.number, op.operation);
    }
    lastUse[op.half] = op.number;
    Tensor y = requireNonNull(op.y);
    long place = layout.combine(op.half);
    for (int i = 1; i <= context.ranks; i++) {
      int r = (context.rank + i) % context.ranks;
      if (context.masked[r]) {
        continue;
      }
      int rows = op.record.received[r];
      if (op.zeroCopy) {
        sendListed(op, r, layout.combine(op.half));
      } else if (r == context.rank && op.ownInPlace) {
        sendListed(op, r, y.address() - own);
      } else {
        long end = op.logFmt ? encode(op, y, r, place) : copy(op, y, r, place);
        long kind = op.logFmt ? LowLatencyKind.DENSE_LOGFMT : LowLatencyKind.DENSE;
        signals.send(r, op.number, kind, rows, place, op.record.number);
        place = end;
      }
    }
  }

  /** Tells {@code r} the numbers of its rows, which start at {@code place}. */
  private void sendListed(LowLatencyCombineOperation op, int r, long place) {
    int rows = op.record.received[r];
    int[] numbers = op.record.rows[r];
    long list = context.lowLatency(r) + layout.list(op.number, context.rank);
    for (int i = 0; i < rows; i++) {
      NativeMemory.putInt(list + 4L * i, numbers[i]);
    }
    signals.send(r, op.number, LowLatencyKind.LISTED, rows, place, op.record.number);
  }

  private long copy(LowLatencyCombineOperation op, Tensor y, int r, long place) {
    int rows = op.record.received[r];
    int[] numbers = op.record.rows[r];
    long target = own + place;
    for (int i = 0; i < rows; i++) {
      LowLatencyTensors.copy(y, (long) numbers[i] * rowBytes, target, rowBytes);
      target += rowBytes;
    }
    return target - own;
  }

  private long encode(LowLatencyCombineOperation op, Tensor y, int r, long place) {
    int rows = op.record.received[r];
    int[] numbers = op.record.rows[r];
    int stride = LogFmt.maxBytes(hidden);
    long target = own + place;
    for (int i = 0; i < rows; i++) {
      long source = y.address() + (long) numbers[i] * rowBytes;
      if (!y.nativeHost()) {
        source = memory.scratch(0);
        LowLatencyTensors.copy(y, (long) numbers[i] * rowBytes, source, rowBytes);
      }
      kernels.encodeLogFmt(source, hidden, target);
      target += stride;
    }
    return target - own;
  }
}
