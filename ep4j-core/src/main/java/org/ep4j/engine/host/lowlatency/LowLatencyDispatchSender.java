package org.ep4j.engine.host.lowlatency;

import static java.util.Objects.requireNonNull;

import java.util.Arrays;
import org.ep4j.engine.host.context.CallerTensors;
import org.ep4j.engine.host.context.ExpertTable;
import org.ep4j.engine.host.context.HostContext;
import org.ep4j.engine.host.kernel.RowKernels;
import org.ep4j.engine.lowlatency.LowLatencyFormat;
import org.ep4j.memory.NativeMemory;
import org.ep4j.tensor.RowFormat;
import org.ep4j.tensor.Tensor;

/**
 * The sending half of a low-latency dispatch: quantises each row once and writes it once to every
 * rank that owns one of its experts.
 */
final class LowLatencyDispatchSender {
  private final HostContext context;
  private final LowLatencyPaths paths;
  private final LowLatencySignals signals;
  private final LowLatencyMemory memory;
  private final ExpertTable experts;
  private final RowKernels kernels;
  private final LowLatencyCounters counters;

  /** Per destination: addresses of list and rows, entries of each so far, last listed token. */
  private final long[] list;

  private final long[] rowsAt;
  private final int[] listed;
  private final int[] rows;
  private final int[] lastToken;

  /** Destinations of the current token; destinations that need its row first. */
  private final int[] destinations;

  LowLatencyDispatchSender(
      HostContext context,
      LowLatencyPaths paths,
      LowLatencySignals signals,
      LowLatencyMemory memory,
      ExpertTable experts,
      RowKernels kernels,
      LowLatencyCounters counters) {
    this.context = context;
    this.paths = paths;
    this.signals = signals;
    this.memory = memory;
    this.experts = experts;
    this.kernels = kernels;
    this.counters = counters;
    list = new long[context.ranks];
    rowsAt = new long[context.ranks];
    listed = new int[context.ranks];
    rows = new int[context.ranks];
    lastToken = new int[context.ranks];
    destinations = new int[context.ranks];
  }

  void send(LowLatencyDispatchOperation op) {
    signals.start(op.number());
    signals.awaitReceived(op.number() - 2, op.number(), op.operation);
    begin(op);
    Tensor x = requireNonNull(op.x);
    int tokens = op.record.tokens;
    for (int token = 0; token < tokens; token++) {
      int count = list(op.record, token);
      if (count > 0) {
        write(op, x, token, count);
      }
    }
    finish(op);
  }

  private void begin(LowLatencyDispatchOperation op) {
    LowLatencyRecord record = op.record;
    record.number = op.number();
    Arrays.fill(record.sent, 0);
    for (int r = 0; r < context.ranks; r++) {
      list[r] = context.masked[r] ? 0 : paths.listTo(r, op.number());
      rowsAt[r] = context.masked[r] ? 0 : paths.rowsTo(r, op.number());
      listed[r] = 0;
      rows[r] = 0;
      lastToken[r] = -1;
    }
  }

  /** Adds a token to the lists; returns the number of destinations that need its row. */
  private int list(LowLatencyRecord record, int token) {
    int count = 0;
    int end = (token + 1) * record.topK;
    for (int at = token * record.topK; at < end; at++) {
      int expert = record.ids[at];
      if (expert < 0) {
        continue;
      }
      int r = experts.rankOf[expert];
      if (context.masked[r]) {
        continue;
      }
      boolean first = lastToken[r] != token;
      if (first) {
        lastToken[r] = token;
        destinations[count++] = r;
      }
      if (record.byRanks) {
        if (first) {
          beginToken(record, r, token);
        }
        choose(record, r, at - token * record.topK, at);
        continue;
      }
      if (first) {
        NativeMemory.putInt(list[r] + 4L * listed[r]++, -1 - token);
      }
      NativeMemory.putInt(list[r] + 4L * listed[r]++, experts.localOf[expert]);
      if (record.weighted) {
        int bits = Float.floatToRawIntBits(record.weights[at]);
        NativeMemory.putInt(list[r] + 4L * listed[r]++, bits);
      }
      record.sent[r]++;
    }
    return count;
  }

  /** By ranks: adds a token to a list, without choices. */
  private void beginToken(LowLatencyRecord record, int r, int token) {
    NativeMemory.putInt(list[r] + 4L * listed[r]++, token);
    for (int k = 0; k < record.topK; k++) {
      NativeMemory.putInt(list[r] + 4L * listed[r]++, -1);
    }
    for (int k = 0; record.weighted && k < record.topK; k++) {
      NativeMemory.putInt(list[r] + 4L * listed[r]++, 0);
    }
    record.sent[r]++;
  }

  /** By ranks: adds choice {@code k} of the last token, which is choice {@code at} of all. */
  private void choose(LowLatencyRecord record, int r, int k, int at) {
    int ends = record.weighted ? 2 * record.topK : record.topK;
    long place = list[r] + 4L * (listed[r] - ends + k);
    NativeMemory.putInt(place, experts.localOf[record.ids[at]]);
    if (record.weighted) {
      NativeMemory.putInt(place + 4L * record.topK, Float.floatToRawIntBits(record.weights[at]));
    }
  }

  private void write(LowLatencyDispatchOperation op, Tensor x, int token, int count) {
    LowLatencyFormat format = op.format;
    long first = 0;
    for (int i = 0; i < count; i++) {
      int r = destinations[i];
      int row = rows[r]++;
      if (r == context.rank && op.ownRows != 0) {
        continue;
      }
      long target = rowsAt[r] + (long) row * format.stride();
      if (first == 0) {
        first = target;
        produce(op, x, token, target);
      } else {
        kernels.copy(first, target, format.rowBytes() + format.scaleBytes());
      }
    }
  }

  /** Writes a row of the caller in the format of the transfer: values, then scales. */
  private void produce(LowLatencyDispatchOperation op, Tensor x, int token, long target) {
    LowLatencyFormat format = op.format;
    int hidden = format.hidden();
    long rowBytes = 2L * hidden;
    long offset = token * rowBytes;
    if (format.format() == RowFormat.BF16) {
      CallerTensors.copy(x, offset, target, rowBytes);
      return;
    }
    long source = x.address() + offset;
    if (!x.nativeHost()) {
      source = memory.scratch(0);
      CallerTensors.copy(x, offset, source, rowBytes);
    }
    long scales = target + format.rowBytes();
    if (format.format() == RowFormat.FP8) {
      kernels.encodeFp8(source, hidden, target, scales, format.scaleKind());
    } else {
      kernels.encodeNvFp4(source, hidden, op.globalScale, target, scales);
    }
  }

  private void finish(LowLatencyDispatchOperation op) {
    long kind = LowLatencyKind.of(op);
    int answers = 0;
    for (int i = 1; i <= context.ranks; i++) {
      int r = (context.rank + i) % context.ranks;
      if (!context.masked[r]) {
        op.record.answerFrom[r] = answers;
        long rowBytes = (long) rows[r] * op.format.stride();
        signals.send(r, op.number(), kind, listed[r], answers, op.number(), listed[r], rowBytes);
        answers += context.isIntranode(r) ? 0 : op.record.sent[r];
        counters.sent(rows[r], (long) rows[r] * (op.format.rowBytes() + op.format.scaleBytes()));
      }
    }
  }
}
