package org.ep4j.engine.host.buffer;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.ep4j.engine.host.buffer.Tensors.bf16;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.ep4j.Dispatch;
import org.ep4j.ExpertBuffer;
import org.ep4j.config.BufferConfig;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.PeerTimeoutException;
import org.ep4j.group.Group;
import org.ep4j.group.ThreadRanks;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/**
 * Many rows between nodes: the wire reads long runs from the caller's memory and copies short ones;
 * the team works in parallel with the wire or alternates with it.
 */
class RowsAcrossNodesTest {
  private static final int HIDDEN = 7168;
  private static final int TOKENS = 400;
  private static final int VERSIONS = 10;
  private static final long ROW = 2L * HIDDEN;
  private static final Duration LIMIT = Duration.ofMinutes(1);

  @TempDir Path directory;

  private static BufferConfig config(int ranks, int ranksPerNode, int threads, String wire) {
    return BufferConfig.builder()
        .hidden(HIDDEN)
        .topK(ranks)
        .experts(ranks)
        .highThroughput(TOKENS)
        .parallelism(threads)
        .ranksPerNode(ranksPerNode)
        .wire(wire)
        .timeout(Duration.ofMinutes(10))
        .build();
  }

  @ParameterizedTest
  @CsvSource({
    "4, 2, 1, tcp",
    "4, 2, 2, tcp",
    "4, 2, 3, tcp",
    "4, 2, 5, inproc",
    "5, 2, 4, tcp",
    "3, 1, 4, tcp",
    "3, 1, 1, inproc"
  })
  void rowsArriveAndReturn(int ranks, int ranksPerNode, int threads, String wire) {
    BufferConfig config = config(ranks, ranksPerNode, threads, wire);
    ThreadRanks.run(
        ranks,
        LIMIT,
        group -> {
          try (Arena arena = Arena.ofShared();
              ExpertBuffer buffer = ExpertBuffer.open(group, config)) {
            // More tensors than the cache holds; then the last one, which is cached, and the first,
            // which no longer is.
            List<MemorySegment> tensors = new ArrayList<>();
            for (int version = 0; version < VERSIONS; version++) {
              tensors.add(rows(arena, group.rank(), version));
              exchange(buffer, tensors.getLast(), version, group);
            }
            exchange(buffer, tensors.getLast(), VERSIONS - 1, group);
            exchange(buffer, tensors.getFirst(), 0, group);
          }
        });
  }

  @ParameterizedTest
  @CsvSource({"1, tcp", "4, tcp", "4, inproc"})
  void aRankThatFailsGetsItsMemoryBack(int threads, String wire) {
    BufferConfig config = config(4, 2, threads, wire);
    ThreadRanks.run(
        4,
        LIMIT,
        group -> {
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config)) {
            for (int round = 0; round < 3; round++) {
              try (Arena arena = Arena.ofShared()) {
                Routing routing = routing(group.rank(), 4);
                if (group.rank() == 1) {
                  Tensor gone = vanished(arena, round);
                  assertThatThrownBy(() -> buffer.dispatch(gone, routing))
                      .isInstanceOf(Ep4jException.class)
                      .hasMessageStartingWith(ErrorCode.OUT_OF_SHARED_MEMORY.id());
                } else {
                  Tensor x = tensor(rows(arena, group.rank(), round));
                  assertThatThrownBy(() -> buffer.dispatch(x, routing))
                      .isInstanceOf(PeerTimeoutException.class)
                      .hasMessageContaining(ErrorCode.OUT_OF_SHARED_MEMORY.id());
                }
              }
              // The rows are freed; the wire must not read rows that it has not sent.
              buffer.reset();
              try (Arena arena = Arena.ofShared()) {
                int version = round + 1;
                exchange(buffer, rows(arena, group.rank(), version), version, group);
              }
            }
          }
        });
  }

  private static void exchange(ExpertBuffer buffer, MemorySegment x, int version, Group group) {
    int ranks = group.size();
    Dispatch d = buffer.dispatch(tensor(x), routing(group.rank(), ranks));
    MemorySegment got = d.x().segment();
    long at = 0;
    for (int source = 0; source < ranks; source++) {
      for (int t = 0; t < TOKENS; t++) {
        if (goesTo(source, t, group.rank(), ranks)) {
          requireRow(got, at++, value(source, version, t));
        }
      }
    }
    assertThat(d.rows()).isEqualTo(at);
    MemorySegment sums = buffer.combine(d.x(), d.handle()).x().segment();
    for (int t = 0; t < TOKENS; t++) {
      int times = 0;
      for (int r = 0; r < ranks; r++) {
        times += goesTo(group.rank(), t, r, ranks) ? 1 : 0;
      }
      requireRow(sums, t, times * value(group.rank(), version, t));
    }
    d.handle().close();
  }

  private static void requireRow(MemorySegment rows, long row, float value) {
    for (int h = 0; h < HIDDEN; h += h < 64 ? 1 : 511) {
      short found = rows.get(ValueLayout.JAVA_SHORT_UNALIGNED, row * ROW + 2L * h);
      if (found != bf16(value)) {
        throw new AssertionError("row %d, element %d: not %s".formatted(row, h, value));
      }
    }
  }

  /**
   * To all ranks, except single tokens that stay on their node, and a range in which every second
   * token does.
   */
  private static boolean goesTo(int source, int token, int target, int ranks) {
    boolean returned = token % 61 == 7 * source % 61 || (token / 40 == 3 && token % 2 == 0);
    return source == target || !returned || (ranks == 1);
  }

  private static Routing routing(int rank, int ranks) {
    long[] ids = new long[TOKENS * ranks];
    for (int t = 0; t < TOKENS; t++) {
      for (int r = 0; r < ranks; r++) {
        ids[t * ranks + r] = goesTo(rank, t, r, ranks) ? r : -1;
      }
    }
    return Routing.of(Tensor.of(ids, TOKENS, ranks));
  }

  /** Five times this value is exact, too. */
  private static float value(int rank, int version, int token) {
    return 1 + rank + version + token % 30;
  }

  private static Tensor tensor(MemorySegment rows) {
    return Tensor.of(rows, DType.BF16, TOKENS, HIDDEN);
  }

  private static MemorySegment rows(Arena arena, int rank, int version) {
    return Tensors.bf16Rows(arena, TOKENS, HIDDEN, token -> value(rank, version, token));
  }

  /** Rows in a file that is truncated: reads fault in the middle of the operation. */
  private Tensor vanished(Arena arena, int round) throws IOException {
    try (FileChannel channel =
        FileChannel.open(
            directory.resolve("rows-" + round),
            StandardOpenOption.CREATE,
            StandardOpenOption.READ,
            StandardOpenOption.WRITE)) {
      MemorySegment rows = channel.map(FileChannel.MapMode.READ_WRITE, 0, TOKENS * ROW, arena);
      channel.truncate(TOKENS / 2 * ROW);
      return tensor(rows);
    }
  }
}
