package org.ep4j.engine.host.lowlatency;

import static java.util.Objects.requireNonNull;

import org.ep4j.engine.host.context.CallerTensors;
import org.ep4j.engine.host.context.HostContext;
import org.ep4j.engine.host.internode.InternodeLowLatency;
import org.ep4j.engine.host.kernel.LogFmt;
import org.ep4j.engine.host.kernel.RowKernels;
import org.ep4j.engine.host.layout.LowLatencyLayout;
import org.ep4j.memory.NativeMemory;
import org.ep4j.tensor.Tensor;

/**
 * The sending half of a low-latency combine: makes the rows that each rank waits for readable and
 * publishes their location. Rows already in the combine region stay in place, and the list holds
 * their numbers; other rows are copied (or encoded) into the region densely, in the order of the
 * dispatch list.
 */
final class LowLatencyCombineSender {
  private final HostContext context;
  private final LowLatencyLayout layout;
  private final LowLatencyPaths paths;
  private final LowLatencySignals signals;
  private final LowLatencyMemory memory;
  private final RowKernels kernels;
  private final long own;

  /** For each combine region, the last operation with rows in it. */
  private final long[] lastUse = new long[2];

  LowLatencyCombineSender(
      HostContext context,
      LowLatencyLayout layout,
      LowLatencyPaths paths,
      LowLatencySignals signals,
      LowLatencyMemory memory,
      RowKernels kernels) {
    this.context = context;
    this.layout = layout;
    this.paths = paths;
    this.signals = signals;
    this.memory = memory;
    this.kernels = kernels;
    own = context.lowLatency(context.rank);
  }

  /** The last operation with rows in a combine region. */
  long lastUse(int half) {
    return lastUse[half];
  }

  void send(LowLatencyCombineOperation op) {
    signals.start(op.number());
    signals.awaitReceived(op.number() - 2, op.number(), op.operation);
    if (!op.zeroCopy) {
      signals.awaitReceived(lastUse[op.half], op.number(), op.operation);
    }
    lastUse[op.half] = op.number();
    Tensor y = requireNonNull(op.y);
    long place = layout.combine(op.half);
    for (int i = 1; i <= context.ranks; i++) {
      int r = (context.rank + i) % context.ranks;
      if (context.masked[r]) {
        continue;
      }
      int rows = op.record.received[r];
      InternodeLowLatency internode = paths.internodeSource(r);
      if (internode != null) {
        answer(internode, op, y, r);
      } else if (op.zeroCopy) {
        sendListed(op, r, layout.combine(op.half));
      } else if (r == context.rank && op.ownInPlace) {
        sendListed(op, r, y.address() - own);
      } else {
        long bytes = write(op, y, r, own + place);
        signals.send(r, op.number(), denseKind(op), rows, place, op.record.number, 0, 0);
        place += bytes;
      }
    }
  }

  /** Sends the rows that {@code r}, a rank of another node, waits for. */
  private void answer(
      InternodeLowLatency internode, LowLatencyCombineOperation op, Tensor y, int r) {
    long bytes = write(op, y, r, internode.answersTo(r, op.number()));
    internode.answer(r, op.number(), op.record.answerTo[r], bytes);
    signals.send(r, op.number(), denseKind(op), op.record.received[r], 0, op.record.number, 0, 0);
  }

  private static long denseKind(LowLatencyCombineOperation op) {
    return op.logFmt ? LowLatencyKind.DENSE_LOGFMT : LowLatencyKind.DENSE;
  }

  /** Writes the rows of {@code r} consecutively to {@code target}; returns the number of bytes. */
  private long write(LowLatencyCombineOperation op, Tensor y, int r, long target) {
    return op.logFmt ? encode(op, y, r, target) : copy(op, y, r, target);
  }

  /** Sends {@code r} the numbers of its rows, which start at {@code place}. */
  private void sendListed(LowLatencyCombineOperation op, int r, long place) {
    int rows = op.record.received[r];
    int[] numbers = op.record.rows[r];
    long list = paths.listTo(r, op.number());
    for (int i = 0; i < rows; i++) {
      NativeMemory.putInt(list + 4L * i, numbers[i]);
    }
    signals.send(r, op.number(), LowLatencyKind.LISTED, rows, place, op.record.number, rows, 0);
  }

  private long copy(LowLatencyCombineOperation op, Tensor y, int r, long begin) {
    int rows = op.record.received[r];
    int[] numbers = op.record.rows[r];
    long rowBytes = 2L * op.record.hidden;
    long target = begin;
    for (int i = 0; i < rows; i++) {
      CallerTensors.copy(y, numbers[i] * rowBytes, target, rowBytes);
      target += rowBytes;
    }
    return target - begin;
  }

  private long encode(LowLatencyCombineOperation op, Tensor y, int r, long begin) {
    int rows = op.record.received[r];
    int[] numbers = op.record.rows[r];
    int hidden = op.record.hidden;
    long rowBytes = 2L * hidden;
    int stride = LogFmt.maxBytes(hidden);
    long target = begin;
    for (int i = 0; i < rows; i++) {
      long source = y.address() + numbers[i] * rowBytes;
      if (!y.nativeHost()) {
        source = memory.scratch(0);
        CallerTensors.copy(y, numbers[i] * rowBytes, source, rowBytes);
      }
      kernels.encodeLogFmt(source, hidden, target);
      target += stride;
    }
    return target - begin;
  }
}
