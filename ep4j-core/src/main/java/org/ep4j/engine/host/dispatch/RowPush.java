package org.ep4j.engine.host.dispatch;

import java.util.Arrays;
import org.ep4j.config.Layout;
import org.ep4j.engine.host.context.ExpertTable;
import org.ep4j.engine.host.context.Forward;
import org.ep4j.engine.host.context.HostContext;
import org.ep4j.engine.host.context.HostHandle;
import org.ep4j.engine.host.context.HostHandle.RowTarget;
import org.ep4j.engine.host.context.Staging.Payload;
import org.ep4j.engine.host.exec.WorkerTeam;
import org.ep4j.engine.host.layout.HighThroughputLayout;
import org.ep4j.memory.NativeMemory;
import org.ep4j.memory.NonTemporalCopy;
import org.ep4j.memory.NonTemporalCopy.PresentPages;
import org.jspecify.annotations.Nullable;

/**
 * The sending half of a dispatch: writes each row, with its scales and metadata, directly to its
 * final slot at its destination. Workers take consecutive tokens, so a row with several
 * destinations is read from memory once.
 *
 * <p>FLAT: each target gets the local numbers and the weights of its own experts, and -1 and 0 for
 * all other choices. A worker clears the entries of a target when it sends the row, then writes
 * each choice to the one target of that choice: the work grows with targets plus choices, not with
 * their product.
 */
final class RowPush implements WorkerTeam.Task {
  private final ExpertTable table;
  private final Payload payload;
  private final int rank;
  private final int maxTopK;

  /** Addresses of the receive arrays of each rank. */
  private final long[] rows;

  private final long[] scales;
  private final long[] globalScales;
  private final long[] topkIdx;
  private final long[] topkWeights;
  private final long[] sourceTokens;
  private final long[] sourceRanks;

  /** Null if all memory belongs to this process. */
  private final @Nullable PresentPages pages;

  /** First and last slot of this rank at each target, in the current run. */
  private final int[] firstSlot;

  private final int[] lastSlot;

  /** The routes of the current run. */
  private int first;

  private int last;

  private int topK;
  private boolean flat;
  private boolean streaming;

  /**
   * Source rank of the pushed tokens, and their numbers there if these differ from their indices
   * here.
   */
  private int source;

  private int @Nullable [] names;
  private Worker[] workerStates = new Worker[0];
  private int[] start = new int[1];
  private long[] routes = new long[0];

  /** State of a worker. */
  private static final class Worker {
    final NonTemporalCopy stream;

    /** Number of tokens so far, including the current one. */
    long number;

    /** For each rank, the number of its last token, and the slot. */
    final long[] numberAt;

    final long[] slotAt;

    Worker(int maxTopK, int ranks) {
      stream = new NonTemporalCopy(1 + maxTopK);
      numberAt = new long[ranks];
      slotAt = new long[ranks];
    }
  }

  RowPush(HostContext context, HighThroughputLayout layout, ExpertTable table, Payload payload) {
    pages = PresentPages.of(context.memory, context.ranks);
    this.table = table;
    this.payload = payload;
    rank = context.rank;
    maxTopK = context.config.topK();
    rows = addresses(context, layout.rows);
    scales = addresses(context, layout.scales);
    globalScales = addresses(context, layout.globalScales);
    topkIdx = addresses(context, layout.topkIdx);
    topkWeights = addresses(context, layout.topkWeights);
    sourceTokens = addresses(context, layout.sourceTokens);
    sourceRanks = addresses(context, layout.sourceRanks);
    firstSlot = new int[pages == null ? 0 : rows.length];
    lastSlot = new int[firstSlot.length];
  }

  /**
   * Another push to the same ranks. It shares their addresses: a rank has one for each chunk that
   * may arrive, so that copies would be quadratic in the number of ranks.
   *
   * @param pages that are known to be present, which several pushes of one thread may share; null
   *     if all memory belongs to this process
   */
  RowPush(RowPush like, Payload payload, @Nullable PresentPages pages) {
    this.pages = pages;
    this.payload = payload;
    table = like.table;
    rank = like.rank;
    maxTopK = like.maxTopK;
    rows = like.rows;
    scales = like.scales;
    globalScales = like.globalScales;
    topkIdx = like.topkIdx;
    topkWeights = like.topkWeights;
    sourceTokens = like.sourceTokens;
    sourceRanks = like.sourceRanks;
    firstSlot = new int[pages == null ? 0 : rows.length];
    lastSlot = new int[firstSlot.length];
  }

  /** Sends the payload along the routes of {@code handle}. */
  void push(HostHandle handle, WorkerTeam team) {
    prepare(handle, team);
    team.run(this);
  }

  /**
   * Prepares to send the payload along the routes of {@code handle}: the caller may then call
   * {@link #rows} for its tokens.
   */
  void prepare(HostHandle handle, WorkerTeam team) {
    source = rank;
    names = null;
    begin(handle, 0, handle.tokens, handle.start, handle.intranodeRoutes, team);
  }

  /**
   * Prepares to forward the tokens of {@code source} from number {@code from} of {@code forward}:
   * the caller may then call {@link #rows} for them.
   *
   * @param handle of the dispatch
   */
  void prepare(HostHandle handle, Forward forward, int from, int source, WorkerTeam team) {
    this.source = source;
    names = forward.sourceTokens;
    // Streamed too: the rows have just passed through the cache, but their slots are not in it.
    begin(handle, from, forward.tokens, forward.start, forward.routes, team);
  }

  private void begin(
      HostHandle handle, int from, int to, int[] ends, long[] along, WorkerTeam team) {
    hire(team);
    first = from;
    last = to;
    topK = handle.topK;
    flat = handle.layout == Layout.FLAT;
    start = ends;
    routes = along;
    streaming =
        payload.streamable
            && NonTemporalCopy.pays(handle.rowsSent * payload.rowBytes * rows.length);
    if (streaming && pages != null) {
      pages.forget(handle.generation);
      requirePages(pages);
    }
  }

  private void hire(WorkerTeam team) {
    if (workerStates.length < team.size()) {
      workerStates = new Worker[team.size()];
      for (int i = 0; i < workerStates.length; i++) {
        workerStates[i] = new Worker(maxTopK, rows.length);
      }
    }
  }

  private void requirePages(PresentPages present) {
    Arrays.fill(firstSlot, Integer.MAX_VALUE);
    Arrays.fill(lastSlot, -1);
    int end = start[last];
    for (int i = start[first]; i < end; i++) {
      long route = routes[i];
      if (route >= 0) {
        int target = RowTarget.rank(route);
        firstSlot[target] = Math.min(firstSlot[target], RowTarget.slot(route));
        lastSlot[target] = Math.max(lastSlot[target], RowTarget.slot(route));
      }
    }
    for (int r = 0; r < rows.length; r++) {
      if (lastSlot[r] >= 0) {
        long from = rows[r] + firstSlot[r] * payload.rowBytes;
        long to = rows[r] + (lastSlot[r] + 1) * payload.rowBytes;
        present.require(r, from, to);
      }
    }
  }

  @Override
  public void run(int worker, int workers) {
    long tokens = (long) last - first;
    int from = first + (int) (tokens * worker / workers);
    int to = first + (int) (tokens * (worker + 1) / workers);
    rows(from, to, worker);
  }

  /** Sends the tokens {@code from} to {@code to}; workers call it concurrently. */
  void rows(int from, int to, int worker) {
    if (streaming) {
      streamRows(workerStates[worker].stream, from, to);
    } else {
      copyRows(from, to);
    }
    pushRest(workerStates[worker], from, to);
  }

  private void copyRows(int from, int to) {
    long rowBytes = payload.rowBytes;
    for (int t = from; t < to; t++) {
      long source = payload.x + t * rowBytes;
      int end = start[t + 1];
      for (int i = start[t]; i < end; i++) {
        long route = routes[i];
        if (route >= 0) {
          NativeMemory.copy(
              source, rows[RowTarget.rank(route)] + RowTarget.slot(route) * rowBytes, rowBytes);
        }
      }
    }
  }

  private void streamRows(NonTemporalCopy stream, int from, int to) {
    long rowBytes = payload.rowBytes;
    long[] places = stream.places;
    for (int t = from; t < to; t++) {
      long source = payload.x + t * rowBytes;
      places[0] = source; // prefetch: the next row follows this one
      int copies = 0;
      int end = start[t + 1];
      for (int i = start[t]; i < end; i++) {
        long route = routes[i];
        if (route >= 0) {
          places[++copies] = rows[RowTarget.rank(route)] + RowTarget.slot(route) * rowBytes;
        }
      }
      stream.copy(source, rowBytes, 1, copies);
    }
    // Each worker fences its own stores before the rank publishes its progress.
    NonTemporalCopy.fence();
  }

  /**
   * Sends scales and metadata of the rows, in a separate pass: between the rows it would cost more.
   */
  private void pushRest(Worker worker, int from, int to) {
    boolean withChoices = flat && payload.ids != 0;
    boolean withWeights = !flat && payload.ids != 0 && payload.weights != 0;
    int[] numbers = names;
    for (int t = from; t < to; t++) {
      worker.number++;
      int end = start[t + 1];
      for (int i = start[t]; i < end; i++) {
        long route = routes[i];
        if (route < 0) {
          continue;
        }
        int target = RowTarget.rank(route);
        long slot = RowTarget.slot(route);
        pushScales(t, target, slot);
        NativeMemory.putInt(sourceTokens[target] + slot * 4, numbers == null ? t : numbers[t]);
        NativeMemory.putInt(sourceRanks[target] + slot * 4, source);
        if (withChoices) {
          clearChoices(worker, target, slot, topK);
        } else if (withWeights) {
          long choice = (long) t * topK + RowTarget.choice(route);
          NativeMemory.putFloat(
              topkWeights[target] + slot * 4, NativeMemory.getFloat(payload.weights + choice * 4));
        }
      }
      if (withChoices) {
        pushChoices(worker, t, topK);
      }
    }
  }

  private void pushScales(int token, int target, long slot) {
    long scaleBytes = payload.scaleBytes;
    if (scaleBytes != 0) {
      NativeMemory.copy(
          payload.scales + token * scaleBytes, scales[target] + slot * scaleBytes, scaleBytes);
    }
    if (payload.globalScales != 0) {
      NativeMemory.putInt(
          globalScales[target] + slot * 4, NativeMemory.getInt(payload.globalScales + token * 4L));
    }
  }

  /** Notes that the current token has {@code slot} of {@code target}, and clears its choices. */
  private void clearChoices(Worker worker, int target, long slot, int topK) {
    worker.numberAt[target] = worker.number;
    worker.slotAt[target] = slot;
    long idx = topkIdx[target] + slot * topK * 8;
    for (int k = 0; k < topK; k++) {
      NativeMemory.putLong(idx + k * 8L, -1);
    }
    if (payload.weights != 0) {
      long weights = topkWeights[target] + slot * topK * 4;
      for (int k = 0; k < topK; k++) {
        NativeMemory.putInt(weights + k * 4L, 0);
      }
    }
  }

  /** Writes the choices of {@code token} to its targets. */
  private void pushChoices(Worker worker, int token, int topK) {
    long choice = (long) token * topK;
    for (int k = 0; k < topK; k++) {
      long id =
          payload.wideIds
              ? NativeMemory.getLong(payload.ids + (choice + k) * 8)
              : NativeMemory.getInt(payload.ids + (choice + k) * 4);
      if (id < 0) {
        continue;
      }
      int expert = (int) id;
      int target = table.rankOf[expert];
      if (worker.numberAt[target] != worker.number) {
        continue; // the target has no room for the row
      }
      long place = worker.slotAt[target] * topK + k;
      NativeMemory.putLong(topkIdx[target] + place * 8, table.localOf[expert]);
      if (payload.weights != 0) {
        NativeMemory.putInt(
            topkWeights[target] + place * 4,
            NativeMemory.getInt(payload.weights + (choice + k) * 4));
      }
    }
  }

  private static long[] addresses(HostContext context, long offset) {
    long[] addresses = new long[context.ranks];
    for (int r = 0; r < addresses.length; r++) {
      addresses[r] = context.highThroughput(r) + offset;
    }
    return addresses;
  }
}
