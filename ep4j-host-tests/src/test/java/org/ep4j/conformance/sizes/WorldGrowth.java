package org.ep4j.conformance.sizes;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.ep4j.BufferSizes;
import org.ep4j.Combine;
import org.ep4j.Dispatch;
import org.ep4j.DispatchOptions;
import org.ep4j.ExpertBuffer;
import org.ep4j.LowLatencyCombineOptions;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.Tokens;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.Layout;
import org.ep4j.config.WireName;
import org.ep4j.group.Group;
import org.ep4j.group.GroupConfig;
import org.ep4j.group.ThreadRanks;
import org.ep4j.group.rendezvous.Rendezvous;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.ep4j.verify.Inputs;
import org.ep4j.verify.RoutingGenerator;
import org.ep4j.verify.RoutingKind;
import org.jspecify.annotations.Nullable;

/**
 * Measures what a rank holds and how long its calls take in worlds of growing size, ranks as
 * threads: {@code WorldGrowth FILE [rendezvous|inproc|tcp]...}. Writes JSON; docs/operations.md
 * shows a run.
 */
final class WorldGrowth {
  private static final int RANKS_PER_NODE = 8;
  private static final int TOKENS = 8;
  private static final int HIDDEN = 128;
  private static final int TOP_K = 4;
  private static final int EXPERTS_OF_RANK = 2;
  private static final int OPENINGS = 3;
  private static final int CALLS = 5;
  private static final Duration LIMIT = Duration.ofMinutes(4);
  private static final double MIB = 1 << 20;

  private WorldGrowth() {}

  public static void main(String[] args) throws IOException {
    List<String> kinds = Arrays.asList(args).subList(1, args.length);
    List<String> rows = new ArrayList<>();
    if (kinds.contains("rendezvous")) {
      IntStream.of(16, 64, 256, 1024).forEach(ranks -> rows.add(rendezvous(ranks)));
    }
    if (kinds.contains(WireName.INPROC)) {
      IntStream.of(2, 4, 8, 16, 32, 64, 128, 256)
          .forEach(ranks -> rows.add(world(ranks, WireName.INPROC)));
    }
    if (kinds.contains(WireName.TCP)) {
      // Two descriptors for each pair of ranks in this one process.
      IntStream.of(16, 32, 64).forEach(ranks -> rows.add(world(ranks, WireName.TCP)));
    }
    Files.writeString(Path.of(args[0]), "[\n" + String.join(",\n", rows) + "\n]\n");
  }

  static BufferConfig config(int ranks, String wire) {
    return BufferConfig.builder()
        .hidden(HIDDEN)
        .topK(TOP_K)
        .experts(EXPERTS_OF_RANK * ranks)
        .highThroughput(TOKENS)
        .lowLatency(TOKENS)
        .ranksPerNode(ranks > RANKS_PER_NODE ? RANKS_PER_NODE : 0)
        .wire(ranks > RANKS_PER_NODE ? wire : WireName.AUTO)
        .parallelism(1)
        .timeout(LIMIT)
        .build();
  }

  /** Times that all ranks take, from the first that begins to the last that ends. */
  private static final class Clock {
    private final AtomicLong begin = new AtomicLong(Long.MAX_VALUE);
    private final AtomicLong end = new AtomicLong(Long.MIN_VALUE);

    void time(Runnable step) {
      begin.accumulateAndGet(System.nanoTime(), Math::min);
      step.run();
      end.accumulateAndGet(System.nanoTime(), Math::max);
    }

    double millis() {
      return (end.get() - begin.get()) / 1e6;
    }
  }

  private static List<Clock> clocks(int count) {
    return Stream.generate(Clock::new).limit(count).toList();
  }

  private static double median(List<Clock> clocks) {
    return clocks.stream()
        .mapToDouble(Clock::millis)
        .sorted()
        .skip(clocks.size() / 2)
        .findFirst()
        .orElseThrow();
  }

  /** What the process holds. */
  private record Held(long heap, long resident, int descriptors, int threads) {
    static Held now() {
      System.gc();
      Runtime runtime = Runtime.getRuntime();
      return new Held(
          runtime.totalMemory() - runtime.freeMemory(),
          residentBytes(),
          count("fd"),
          count("task"));
    }

    private static long residentBytes() {
      try (Stream<String> lines = Files.lines(Path.of("/proc/self/status"))) {
        String line = lines.filter(each -> each.startsWith("VmRSS:")).findFirst().orElseThrow();
        return Long.parseLong(line.replaceAll("\\D", "")) << 10;
      } catch (IOException e) {
        throw new AssertionError(e);
      }
    }

    private static int count(String kind) {
      try (Stream<Path> entries = Files.list(Path.of("/proc/self", kind))) {
        return (int) entries.count();
      } catch (IOException e) {
        throw new AssertionError(e);
      }
    }

    String since(Held before, int ranks) {
      return String.format(
          Locale.ROOT,
          "\"heap_mib\": %.3f, \"resident_mib\": %.3f, \"descriptors\": %.1f, \"threads\": %.1f",
          (heap - before.heap) / MIB / ranks,
          (resident - before.resident) / MIB / ranks,
          (double) (descriptors - before.descriptors) / ranks,
          (double) (threads - before.threads) / ranks);
    }
  }

  /** Collectives of a rank, and bytes that it contributes. */
  private static final class Calls {
    final AtomicLong collectives = new AtomicLong();
    final AtomicLong bytes = new AtomicLong();

    /** The group, counted. */
    Group of(Group group) {
      return (Group)
          Proxy.newProxyInstance(
              Group.class.getClassLoader(),
              new Class<?>[] {Group.class},
              (_, method, arguments) -> {
                if (method.getName().equals("allGather") || method.getName().equals("barrier")) {
                  collectives.incrementAndGet();
                  bytes.addAndGet(arguments[0] instanceof byte[] mine ? mine.length : 0);
                }
                try {
                  return method.invoke(group, arguments);
                } catch (InvocationTargetException e) {
                  throw e.getCause();
                }
              });
    }
  }

  /** Joining over sockets, a barrier, and leaving. */
  static String rendezvous(int ranks) {
    List<Clock> joins = clocks(OPENINGS);
    List<Clock> barriers = clocks(OPENINGS);
    List<Clock> leaves = clocks(OPENINGS);
    List<String> held = new ArrayList<>();
    for (int i = 0; i < OPENINGS; i++) {
      Clock join = joins.get(i);
      Clock barrier = barriers.get(i);
      Clock leave = leaves.get(i);
      GroupConfig config =
          GroupConfig.builder()
              .size(ranks)
              .rendezvous("127.0.0.1", 0)
              .secret("a secret of 128 bits or more, for all ranks")
              .joinTimeout(LIMIT)
              .livenessTimeout(Duration.ofSeconds(30))
              .build();
      try (Rendezvous rendezvous = Rendezvous.open(config)) {
        ThreadRanks.run(
            ranks,
            LIMIT,
            me -> {
              @Nullable Held before = me.rank() == 0 ? Held.now() : null;
              me.barrier(LIMIT);
              Group[] group = new Group[1];
              join.time(() -> group[0] = Group.join(rendezvous.configOf(me.rank())));
              me.barrier(LIMIT);
              barrier.time(() -> group[0].barrier(LIMIT));
              me.barrier(LIMIT);
              if (before != null) {
                held.add(Held.now().since(before, ranks));
              }
              me.barrier(LIMIT);
              leave.time(group[0]::close);
            });
      }
    }
    return print(
        String.format(
            Locale.ROOT,
            "{\"kind\": \"rendezvous\", \"ranks\": %d, \"join_ms\": %.0f, \"barrier_ms\": %.0f, \"leave_ms\": %.0f, %s}",
            ranks,
            median(joins),
            median(barriers),
            median(leaves),
            held.getLast()));
  }

  /** Opening a buffer, and a call of each kind. */
  static String world(int ranks, String wire) {
    BufferConfig config = config(ranks, wire);
    List<Clock> openings = clocks(OPENINGS);
    List<Clock> throughput = clocks(OPENINGS * CALLS);
    List<Clock> latency = clocks(OPENINGS * CALLS);
    List<String> held = new ArrayList<>();
    Calls calls = new Calls();
    for (int i = 0; i < OPENINGS; i++) {
      Clock opening = openings.get(i);
      int first = i * CALLS;
      ThreadRanks.run(
          ranks,
          LIMIT,
          group -> {
            boolean counts = group.rank() == 0 && first == 0;
            @Nullable Held before = group.rank() == 0 ? Held.now() : null;
            group.barrier(LIMIT);
            ExpertBuffer[] opened = new ExpertBuffer[1];
            Group used = counts ? calls.of(group) : group;
            opening.time(() -> opened[0] = ExpertBuffer.open(used, config));
            try (ExpertBuffer buffer = opened[0];
                Arena arena = Arena.ofShared()) {
              group.barrier(LIMIT);
              for (int call = 0; call < CALLS; call++) {
                call(group, buffer, arena, throughput.get(first + call), latency.get(first + call));
              }
              if (before != null) {
                held.add(Held.now().since(before, ranks));
              }
              group.barrier(LIMIT);
            }
          });
    }
    BufferSizes sizes = ExpertBuffer.sizes(config, ranks);
    return print(
        String.format(
            Locale.ROOT,
            "{\"kind\": \"%s\", \"ranks\": %d, \"symmetric_mib\": %.3f, \"private_mib\": %.3f, \"open_ms\": %.0f, \"collectives\": %d, \"contributed_bytes\": %d, \"throughput_ms\": %.1f, \"latency_ms\": %.1f, %s}",
            ranks > RANKS_PER_NODE ? wire : "one node",
            ranks,
            sizes.symmetricBytes() / MIB,
            sizes.privateBytes() / MIB,
            median(openings),
            calls.collectives.get(),
            calls.bytes.get(),
            median(throughput),
            median(latency),
            held.getLast()));
  }

  private static void call(
      Group group, ExpertBuffer buffer, Arena arena, Clock throughput, Clock latency) {
    int rank = group.rank();
    Routing routing =
        new RoutingGenerator(RoutingKind.UNIFORM, 1, buffer.config().experts(), TOP_K)
            .routing(rank, TOKENS, arena);
    Tensor x = new Inputs(1).tensor(Inputs.Part.PAYLOAD, DType.BF16, rank, TOKENS, HIDDEN, arena);
    group.barrier(LIMIT);
    throughput.time(
        () -> {
          Dispatch d = buffer.dispatch(Layout.FLAT, Tokens.of(x), routing, DispatchOptions.DEFAULT);
          Combine sums = buffer.combine(d.x(), d.handle());
          sums.event().await();
          d.handle().close();
        });
    group.barrier(LIMIT);
    latency.time(
        () -> {
          LowLatencyDispatch d =
              buffer.lowLatencyDispatch(x, routing, LowLatencyDispatchOptions.DEFAULT);
          Tensor y = buffer.lowLatencyCombineBuffer(d.handle());
          buffer
              .lowLatencyCombine(
                  y, routing, d.handle(), LowLatencyCombineOptions.builder().zeroCopy(true).build())
              .event()
              .await();
        });
    group.barrier(LIMIT);
  }

  private static String print(String row) {
    System.out.println(row);
    return "  " + row;
  }
}
