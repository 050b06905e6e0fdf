package org.ep4j.engine.host.lowlatency;

import java.util.Arrays;
import org.ep4j.engine.host.context.ExpertTable;
import org.ep4j.engine.host.context.HostContext;
import org.ep4j.engine.host.internode.InternodeLowLatency;
import org.ep4j.engine.host.kernel.LogFmt;
import org.ep4j.engine.host.kernel.RowKernels;
import org.ep4j.engine.host.layout.LowLatencyLayout;
import org.ep4j.memory.NativeMemory;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;

/**
 * The receiving half of a low-latency combine: pulls the rows of this rank's tokens from the memory
 * of their owners and sums them. An owner holds a token's rows in dispatch order, so one cursor per
 * owner finds all of them.
 */
final class LowLatencyCombineReceiver {
  private final HostContext context;
  private final LowLatencyLayout layout;
  private final LowLatencyPaths paths;
  private final LowLatencySignals signals;
  private final LowLatencyMemory memory;
  private final ExpertTable experts;
  private final RowKernels kernels;

  /**
   * Per owner: address of the first row, 0 = skip its rows; stride of dense rows, 0 = listed rows.
   */
  private final long[] base;

  private final int[] stride;
  private final boolean[] encoded;

  /** Per owner: number of rows passed. */
  private final int[] cursor;

  /** Rows of the current token in summation order. */
  private final long[] rows;

  private final float[] weights;
  private final int[] owners;

  /** What orders the rows of the current token: their owners or their experts. */
  private final long[] keys;

  private final int[] groupEnd;

  LowLatencyCombineReceiver(
      HostContext context,
      LowLatencyLayout layout,
      LowLatencyPaths paths,
      LowLatencySignals signals,
      LowLatencyMemory memory,
      ExpertTable experts,
      RowKernels kernels) {
    this.context = context;
    this.layout = layout;
    this.paths = paths;
    this.signals = signals;
    this.memory = memory;
    this.experts = experts;
    this.kernels = kernels;
    base = new long[context.ranks];
    stride = new int[context.ranks];
    encoded = new boolean[context.ranks];
    cursor = new int[context.ranks];
    int topK = context.config.topK();
    rows = new long[topK];
    weights = new float[topK];
    owners = new int[topK];
    keys = new long[topK];
    groupEnd = new int[topK];
  }

  void receive(LowLatencyCombineOperation op) {
    for (int owner = 0; owner < context.ranks; owner++) {
      base[owner] = 0;
      if (op.record.sent[owner] > 0) {
        locate(op, owner);
      }
    }
    Tensor out = op.out();
    long sums = out.nativeHost() ? out.address() : memory.half(op.flight.half()).sums();
    do {
      reduce(op, sums);
    } while (lost(op));
    if (!out.nativeHost()) {
      NativeMemory.copy(sums, out.segment(), 0, out.byteSize());
    }
    signals.received(op.number());
    signals.awaitSent(op.number(), op.operation);
  }

  /** Finds this rank's rows at an owner. */
  private void locate(LowLatencyCombineOperation op, int owner) {
    long header = signals.await(owner, op);
    if (header == 0) {
      return;
    }
    long kind = NativeMemory.getLong(header + LowLatencyLayout.KIND);
    if (!LowLatencyKind.isCombine(kind)) {
      signals.requireSame(owner, op.number(), LowLatencyKind.DENSE, kind);
    }
    signals.requireSameDispatch(
        owner,
        op.number(),
        op.record.number,
        NativeMemory.getLong(header + LowLatencyLayout.DISPATCH));
    long held = NativeMemory.getLong(header + LowLatencyLayout.COUNT);
    if (held != op.record.sent[owner]) {
      signals.hasNoRows(owner, op.number(), op.operation, op.record.sent[owner], held);
      return;
    }
    int hidden = op.record.hidden;
    encoded[owner] = kind == LowLatencyKind.DENSE_LOGFMT;
    stride[owner] =
        kind == LowLatencyKind.LISTED ? 0 : encoded[owner] ? LogFmt.maxBytes(hidden) : 2 * hidden;
    InternodeLowLatency internode = paths.internodeSource(owner);
    base[owner] =
        internode == null
            ? context.lowLatency(owner) + NativeMemory.getLong(header + LowLatencyLayout.PLACE)
            : internode.answers(op.number(), op.record.answerFrom[owner]);
  }

  private void reduce(LowLatencyCombineOperation op, long sums) {
    Arrays.fill(cursor, 0);
    if (op.record.byRanks) {
      addByRanks(op, sums);
    } else {
      weigh(op, sums);
    }
  }

  /** Adds one row of each rank that got the token, in ascending order of ranks. */
  private void addByRanks(LowLatencyCombineOperation op, long sums) {
    LowLatencyRecord record = op.record;
    int hidden = record.hidden;
    Arrays.fill(weights, 1);
    for (int token = 0; token < record.tokens; token++) {
      int count = 0;
      for (int at = token * record.topK; at < (token + 1) * record.topK; at++) {
        int expert = record.ids[at];
        int owner = expert < 0 ? -1 : experts.rankOf[expert];
        if (owner >= 0 && record.sent[owner] > 0) {
          count = insert(owner, count);
        }
      }
      int present = 0;
      for (int i = 0; i < count; i++) {
        int row = cursor[owners[i]]++;
        if (base[owners[i]] != 0) {
          rows[present++] = address(op, owners[i], row, i);
        }
      }
      kernels.weightedReduce(
          DType.BF16, rows, weights, present, sums + 2L * token * hidden, hidden);
    }
  }

  /**
   * Inserts an owner into the ascending list of {@code count} owners unless present; returns the
   * new count.
   */
  private int insert(int owner, int count) {
    int at = count;
    while (at > 0 && owners[at - 1] > owner) {
      at--;
    }
    if (at > 0 && owners[at - 1] == owner) {
      return count;
    }
    System.arraycopy(owners, at, owners, at + 1, count - at);
    owners[at] = owner;
    return count + 1;
  }

  private void weigh(LowLatencyCombineOperation op, long sums) {
    LowLatencyRecord record = op.record;
    int hidden = record.hidden;
    int at = 0;
    for (int token = 0; token < record.tokens; token++) {
      int count = 0;
      for (int k = 0; k < record.topK; k++, at++) {
        int expert = record.ids[at];
        int owner = expert < 0 ? -1 : experts.rankOf[expert];
        if (owner < 0 || record.sent[owner] == 0) {
          continue;
        }
        int row = cursor[owner]++;
        if (base[owner] == 0 || !op.kept[at]) {
          continue;
        }
        rows[count] = address(op, owner, row, count);
        weights[count] = op.weights[at];
        keys[count] = op.byExperts ? op.experts[at] : owner;
        count++;
      }
      long target = sums + 2L * token * hidden;
      if (op.byExperts || op.partialRounding) {
        sort(count);
      }
      if (op.partialRounding) {
        kernels.weightedReduceGroups(rows, weights, groupEnd, groups(count), target, hidden);
      } else {
        kernels.weightedReduce(DType.BF16, rows, weights, count, target, hidden);
      }
    }
  }

  /** Address at which row {@code row} of an owner is readable as BF16. */
  private long address(LowLatencyCombineOperation op, int owner, int row, int scratch) {
    int hidden = op.record.hidden;
    if (stride[owner] == 0) {
      long list = context.lowLatency(context.rank) + layout.list(op.number(), owner);
      return base[owner] + 2L * hidden * NativeMemory.getInt(list + 4L * row);
    }
    long address = base[owner] + (long) row * stride[owner];
    if (!encoded[owner]) {
      return address;
    }
    long decoded = memory.scratch(scratch);
    kernels.decodeLogFmt(address, hidden, decoded);
    return decoded;
  }

  /** Orders the current token's rows by key and keeps top-k order among equal keys. */
  private void sort(int count) {
    for (int i = 1; i < count; i++) {
      long key = keys[i];
      long row = rows[i];
      float weight = weights[i];
      int j = i;
      for (; j > 0 && keys[j - 1] > key; j--) {
        keys[j] = keys[j - 1];
        rows[j] = rows[j - 1];
        weights[j] = weights[j - 1];
      }
      keys[j] = key;
      rows[j] = row;
      weights[j] = weight;
    }
  }

  /** Ends a group where the key changes; returns the number of groups. */
  private int groups(int count) {
    int groups = 0;
    for (int i = 0; i < count; i++) {
      if (i + 1 == count || keys[i + 1] != keys[i]) {
        groupEnd[groups++] = i + 1;
      }
    }
    return groups;
  }

  /** Whether an owner has overwritten rows that were summed; the next attempt skips its rows. */
  private boolean lost(LowLatencyCombineOperation op) {
    boolean lost = false;
    for (int owner = 0; owner < context.ranks; owner++) {
      if (owner != context.rank
          && base[owner] != 0
          && !signals.stillHolds(owner, op.number(), op.operation)) {
        base[owner] = 0;
        lost = true;
      }
    }
    return lost;
  }
}
