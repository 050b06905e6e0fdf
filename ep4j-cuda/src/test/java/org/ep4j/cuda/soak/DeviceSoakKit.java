package org.ep4j.cuda.soak;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.lang.foreign.Arena;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import org.ep4j.ExpertBuffer;
import org.ep4j.conformance.world.TestScale;
import org.ep4j.group.Group;
import org.ep4j.group.RankFailedException;
import org.ep4j.group.ThreadRanks;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;

/**
 * Many operations on one buffer with a new routing each time. Kernels that share no code with the
 * engine's create the inputs and check every byte of the results on the device. Subclasses name the
 * engine and the machine.
 *
 * <p>System properties: {@code ep4j.epochs} is the number of epochs of each kind of operations, a
 * third of them with each world; {@code ep4j.kinds} lists kinds of {@link SoakKind}, separated by
 * commas; {@code ep4j.seed} repeats a run.
 */
abstract class DeviceSoakKit {
  private static final int WORLDS = 3;
  private static final long REPORT_EPOCHS = 10_000;

  /** By then each kind of result has been checked and damaged, for any seed. */
  private static final int DAMAGED_EPOCHS = 400;

  private static final SoakShape SMALL = new SoakShape(2, 512, 16);

  @BeforeEach
  final void skipWithoutMachine() {
    requireMachine();
  }

  /** Skips the test if the machine is not available. */
  abstract void requireMachine();

  abstract String engine();

  abstract SoakMachine machine(int rank);

  /** Default number of epochs. */
  abstract long epochs();

  /** Largest number of tokens of a rank. */
  abstract int maxTokens();

  @ParameterizedTest
  @CsvSource({
    "HIGH_THROUGHPUT, 2, 2048",
    "HIGH_THROUGHPUT, 3, 512",
    "HIGH_THROUGHPUT, 4, 1024",
    "LOW_LATENCY, 2, 2048",
    "LOW_LATENCY, 3, 512",
    "LOW_LATENCY, 4, 1024",
    "BOTH, 2, 512",
    "BOTH, 3, 1024",
    "BOTH, 4, 2048"
  })
  void everyByteOfEveryEpochIsRight(SoakKind kind, int ranks, int hidden) {
    assumeTrue(
        List.of(System.getProperty("ep4j.kinds", kind.name()).split(",", -1)).contains(kind.name()),
        "not in -Dep4j.kinds");
    SoakShape shape = new SoakShape(ranks, hidden, maxTokens());
    long epochs = Math.ceilDiv(Long.getLong("ep4j.epochs", epochs()), WORLDS);
    long seed = TestScale.seed();
    String name = "%s, %s, %s".formatted(engine(), kind, shape);
    System.out.printf("%s: -Dep4j.seed=%d, %d epochs%n", name, seed, epochs);
    AtomicLong rows = new AtomicLong();
    long start = System.nanoTime();
    ThreadRanks.run(
        shape.ranks(),
        Duration.ofMinutes(10).plusMillis(20 * epochs),
        group -> rows.addAndGet(run(group, shape, kind, seed, epochs, (_, _, _) -> {})));
    System.out.printf(
        "%s: %d epochs and %d rows with every byte right in %d ms%n",
        name, epochs, rows.get(), (System.nanoTime() - start) / 1_000_000);
    assertThat(rows.get()).as("rows that were compared").isGreaterThan(epochs / 2);
  }

  /** Returns the number of rows that this rank has compared. */
  private long run(
      Group group,
      SoakShape shape,
      SoakKind kind,
      long seed,
      long epochs,
      SoakRank.Meddler meddler) {
    try (Arena arena = Arena.ofConfined();
        SoakMachine machine = machine(group.rank());
        ExpertBuffer buffer = ExpertBuffer.open(group, kind.config(shape, engine()))) {
      SoakRank rank = new SoakRank(group, shape, buffer, machine, seed, meddler, arena);
      buffer.barrier();
      SoakEpochs soak = kind.of(rank);
      for (long i = 1; i <= epochs; i++) {
        soak.next();
        if (i % REPORT_EPOCHS == 0 && group.rank() == 0) {
          System.out.printf("%d epochs%n", i);
        }
      }
      long checked = rank.look();
      buffer.barrier();
      return checked;
    } catch (SoakRank.FoundElsewhere e) {
      return 0;
    }
  }

  @ParameterizedTest
  @EnumSource(
      mode = EnumSource.Mode.EXCLUDE,
      names = {"NO_ROOM_TO_CHECK", "NUMBER_OF_ROWS", "RECEIVED_ROWS", "RANGES"})
  void damagedByteOfHighThroughputIsFound(SoakCheck what) {
    damageIsFound(what, SoakKind.HIGH_THROUGHPUT);
  }

  @ParameterizedTest
  @EnumSource(
      names = {
        "ROWS",
        "SCALES",
        "IDS",
        "WEIGHTS",
        "RECEIVED_PER_EXPERT",
        "SOURCE_TOKENS",
        "RANGES",
        "SUMS"
      })
  void damagedByteOfLowLatencyIsFound(SoakCheck what) {
    damageIsFound(what, SoakKind.LOW_LATENCY);
  }

  /**
   * Flips a bit of the first byte in each epoch from the 50th on, on rank 1: the check must find
   * the first row that has a token there.
   */
  private void damageIsFound(SoakCheck what, SoakKind kind) {
    long seed = 7;
    SoakRank.Meddler meddler =
        (rank, announced, address) -> {
          if (announced == what && rank.buffer.rank() == 1 && rank.epoch() >= 50) {
            rank.flip(address);
          }
        };
    assertThatThrownBy(
            () ->
                ThreadRanks.run(
                    SMALL.ranks(), group -> run(group, SMALL, kind, seed, DAMAGED_EPOCHS, meddler)))
        .isInstanceOf(RankFailedException.class)
        .cause()
        .isInstanceOf(AssertionError.class)
        .hasMessageContaining("the first: epoch ")
        .hasMessageContaining("rank 1, " + what + ", row ")
        .hasMessageContaining("byte 0");
  }
}
