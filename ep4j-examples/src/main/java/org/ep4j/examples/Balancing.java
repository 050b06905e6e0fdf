package org.ep4j.examples;

import static java.lang.foreign.ValueLayout.JAVA_FLOAT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Arrays;
import java.util.Random;
import org.ep4j.CombineOptions;
import org.ep4j.CombineOrder;
import org.ep4j.ExpertBuffer;
import org.ep4j.GroupedDispatch;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.EngineName;
import org.ep4j.config.HighThroughputConfig;
import org.ep4j.config.Layout;
import org.ep4j.group.Group;
import org.ep4j.group.ThreadRanks;
import org.ep4j.observe.RankObservation;
import org.ep4j.relocation.ExpertRelocation;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.ReplicatedPlacement;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.ep4j.wire.WireConfig;

/**
 * A layer whose router prefers a few experts: counts the load of each in some steps, gives the hot
 * ones replicas on other ranks, and moves the weights while steps continue.
 *
 * <p>The tokens and weights of a rank never change, and combines sum in the order of experts: the
 * output has the same bits under each placement.
 */
public final class Balancing {
  static final ToyModel MODEL = new ToyModel(64, 128, 16, 2, 5);
  static final int TOKENS = 64;
  private static final int RANKS = 4;
  private static final int REPLICAS = 8;
  private static final int STEPS = 10;
  private static final Duration TIMEOUT = Duration.ofSeconds(30);

  /** Both matrices of an expert. */
  private static final long EXPERT_BYTES =
      2L * MODEL.hidden() * MODEL.inner() * JAVA_FLOAT.byteSize();

  private static final CombineOptions BY_EXPERTS =
      CombineOptions.builder().order(CombineOrder.EXPERT).applyWeights(true).build();

  private final Group group;
  private final ExpertBuffer buffer;
  private final MemorySegment[] slots;
  private final ExpertRelocation relocation;
  private final Tensor x;
  private final Routing routing;

  /** Rows of each slot of all steps before the current count. */
  private long[] seen = {};

  /**
   * What a rank has measured.
   *
   * @param before mean over maximum of the rows of the ranks, with equally many slots for all
   * @param after the same, with the balanced placement
   * @param moved slots that got another expert
   * @param stepNanos a step while nothing moves
   * @param movingNanos a step while weights move, with the time for their bytes
   * @param first output of this rank before, [tokens, hidden]
   * @param last output of this rank after
   */
  @SuppressWarnings("ArrayRecordComponent") // results are not compared
  record Report(
      double before,
      double after,
      int moved,
      long stepNanos,
      long movingNanos,
      float[] first,
      float[] last) {
    @Override
    public String toString() {
      return "mean/max of rows %.2f, balanced %.2f%nstep %.2f ms, %.2f ms while %d slots move"
          .formatted(before, after, stepNanos / 1e6, movingNanos / 1e6, moved);
    }
  }

  private Balancing(
      Group group, ExpertBuffer buffer, MemorySegment[] slots, ExpertRelocation relocation) {
    this.group = group;
    this.buffer = buffer;
    this.slots = slots;
    this.relocation = relocation;
    x = Tensor.of(MODEL.tokens(group.rank(), TOKENS), TOKENS, MODEL.hidden());
    routing = routing(group.rank());
  }

  /** Runs the ranks as threads, and prints what rank 0 has measured. */
  public static void main(String... arguments) {
    System.out.println(ThreadRanks.call(RANKS, Balancing::run).getFirst());
  }

  /** Work of each rank; collective. */
  static Report run(Group group) {
    long[] unknown = new long[MODEL.experts()];
    Arrays.fill(unknown, 1);
    ReplicatedPlacement placed = ExpertPlacement.balance(unknown, group.size(), REPLICAS);
    try (Arena arena = Arena.ofShared();
        ExpertBuffer buffer = open(group, placed)) {
      MemorySegment[] slots = weights(arena, placed, group.rank());
      try (ExpertRelocation relocation =
          ExpertRelocation.open(
              group, placed, local -> slots[local], EXPERT_BYTES, WireConfig.builder())) {
        return new Balancing(group, buffer, slots, relocation).balance();
      }
    }
  }

  private static ExpertBuffer open(Group group, ReplicatedPlacement placed) {
    return ExpertBuffer.open(
        group,
        BufferConfig.builder()
            .engine(EngineName.HOST) // these experts are Java code
            .hidden(MODEL.hidden())
            .topK(MODEL.topK())
            .placement(placed.placement())
            .highThroughput(
                HighThroughputConfig.builder()
                    .maxTokens(TOKENS)
                    .rowDType(DType.FP32)
                    .layouts(Layout.EXPERT_MAJOR)
                    .build())
            .build());
  }

  /** The weights of the experts in this rank's slots. */
  private static MemorySegment[] weights(Arena arena, ReplicatedPlacement placed, int rank) {
    MemorySegment[] slots = new MemorySegment[placed.placement().localExperts(rank)];
    for (int local = 0; local < slots.length; local++) {
      int logical = placed.logicalOf(placed.placement().expertAt(rank, local));
      ToyModel.Expert expert = MODEL.expert(logical);
      slots[local] = arena.allocate(EXPERT_BYTES, JAVA_FLOAT.byteAlignment());
      MemorySegment.copy(expert.up(), 0, slots[local], JAVA_FLOAT, 0, expert.up().length);
      MemorySegment.copy(
          expert.down(), 0, slots[local], JAVA_FLOAT, EXPERT_BYTES / 2, expert.down().length);
    }
    return slots;
  }

  private Report balance() {
    float[] first = step();
    steps(); // the compiler's time
    count();
    long stepNanos = steps();
    long[] rows = count();
    ReplicatedPlacement placed = relocation.current();

    // This rank has counted its own slots; replicas of an expert lie on several ranks.
    long[] load = relocation.totalLoad(placed.logicalLoad(rows), TIMEOUT);
    ReplicatedPlacement next =
        ExpertPlacement.balance(load, group.size(), REPLICAS).alignedTo(placed, group.size());
    int moved = relocation.begin(next, TIMEOUT);
    int steps = 0;
    long start = System.nanoTime();
    do {
      step();
      steps++;
    } while (!everyRankHas(relocation.advance()));
    long movingNanos = (System.nanoTime() - start) / steps;
    relocation.commit(TIMEOUT);

    count(); // from here on, the rows of a slot are those of its new expert
    steps();
    return new Report(
        meanOverMax(rows), meanOverMax(count()), moved, stepNanos, movingNanos, first, step());
  }

  /** Nanoseconds of a step, the mean of some. */
  private long steps() {
    long start = System.nanoTime();
    for (int i = 0; i < STEPS; i++) {
      step();
    }
    return (System.nanoTime() - start) / STEPS;
  }

  /** The output for this rank's tokens, [tokens, hidden]; collective. */
  private float[] step() {
    Routing physical = relocation.current().physicalRouting(routing, group.rank());
    GroupedDispatch received = buffer.dispatchGrouped(x, physical);
    long[] starts = received.expertOffsets().segment().toArray(JAVA_LONG);
    for (int local = 0; local < slots.length; local++) {
      ToyModel.Expert expert =
          new ToyModel.Expert(
              slots[local].asSlice(0, EXPERT_BYTES / 2).toArray(JAVA_FLOAT),
              slots[local].asSlice(EXPERT_BYTES / 2).toArray(JAVA_FLOAT));
      for (long row = starts[local]; row < starts[local + 1]; row++) {
        Tensor one = received.x().rows(row, row + 1);
        float[] token = one.toFloatArray();
        MODEL.apply(expert, token);
        one.copyFrom(token); // in place: combine copies nothing
      }
    }
    return buffer.combine(received.x(), received.handle(), BY_EXPERTS).x().toFloatArray();
  }

  /** Rows of each slot since the last count; 0 for slots of other ranks. */
  private long[] count() {
    RankObservation observation = buffer.observe();
    long[] now = new long[relocation.current().placement().experts()];
    for (int local = 0; local < observation.localExperts(); local++) {
      now[observation.expert(local)] = observation.tokens(local);
    }
    long[] rows = now.clone();
    for (int slot = 0; slot < seen.length; slot++) {
      rows[slot] -= seen[slot];
    }
    seen = now;
    return rows;
  }

  /** Mean of the rows of the ranks over those of the busiest; collective. */
  private double meanOverMax(long[] rows) {
    byte[] mine = ByteBuffer.allocate(Long.BYTES).putLong(Arrays.stream(rows).sum()).array();
    long sum = 0;
    long max = 1;
    for (byte[] ofRank : group.allGather(mine, TIMEOUT)) {
      long theirs = ByteBuffer.wrap(ofRank).getLong();
      sum += theirs;
      max = Math.max(max, theirs);
    }
    return (double) sum / group.size() / max;
  }

  /** Whether all ranks are done, so that they leave the loop in the same step; collective. */
  private boolean everyRankHas(boolean done) {
    boolean all = true;
    for (byte[] ofRank : group.allGather(new byte[] {(byte) (done ? 1 : 0)}, TIMEOUT)) {
      all &= ofRank[0] == 1;
    }
    return all;
  }

  /** Choices of a router that prefers the first experts, the same in each step. */
  static Routing routing(int rank) {
    Random random = new Random(rank);
    int[] idx = new int[TOKENS * MODEL.topK()];
    float[] weights = new float[idx.length];
    for (int choice = 0; choice < idx.length; choice++) {
      double u = random.nextDouble();
      int hot = (int) (MODEL.experts() * u * u * u);
      boolean taken = choice % MODEL.topK() > 0 && idx[choice - 1] == hot;
      idx[choice] = taken ? (hot + 1) % MODEL.experts() : hot;
      weights[choice] = random.nextFloat();
    }
    return Routing.of(idx, weights, MODEL.topK());
  }
}
