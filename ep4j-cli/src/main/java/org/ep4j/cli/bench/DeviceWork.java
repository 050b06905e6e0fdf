package org.ep4j.cli.bench;

import java.util.ArrayList;
import java.util.List;
import org.ep4j.Combine;
import org.ep4j.CombineOptions;
import org.ep4j.Dispatch;
import org.ep4j.DispatchOptions;
import org.ep4j.ExpertBuffer;
import org.ep4j.Sizing;
import org.ep4j.bench.NodeTraffic;
import org.ep4j.bench.Timings;
import org.ep4j.bench.TrafficVolume;
import org.ep4j.config.Layout;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.driver.DeviceMemory;
import org.ep4j.cuda.probe.StreamLatch;
import org.ep4j.execution.DeviceStream;
import org.ep4j.execution.Execution;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.ep4j.verify.CombineOracle;
import org.ep4j.verify.CombineOracle.Terms;
import org.ep4j.verify.HighThroughputOracle;
import org.ep4j.verify.Inputs;
import org.ep4j.verify.Inputs.Part;
import org.ep4j.verify.Rows;
import org.ep4j.verify.WorldRouting;

/**
 * Resources of a rank on its GPU for one payload: the buffer, a stream of the caller, inputs and
 * outputs in device memory, and the checks of the oracle.
 */
final class DeviceWork implements AutoCloseable {
  private static final int GROUP_ALIGNMENT = 128;

  final RankContext context;
  final BenchSettings settings;
  final Payload payload;
  final int rank;
  final ExpertBuffer buffer;
  final CudaDevice device;
  final CudaStream stream;
  final StreamLatch latch;
  final List<DeviceInputs> sets = new ArrayList<>();
  final DispatchOptions dispatching;
  final Execution again;

  /** Sent rows: one for each rank of a token. */
  final TrafficVolume flat;

  /** Delivered rows. */
  final TrafficVolume delivered;

  /** Rows that a rank sends to other nodes, and rows that it receives from ranks of its node. */
  private final double crossing;

  private final double crossingWithOwnNode;
  private final double scaleUp;

  private final ExpertPlacement placement;
  private final DeviceMemory outMemory;
  private final DeviceMemory weightMemory;
  private final Tensor out;
  private final Tensor rowWeights;

  DeviceWork(RankContext context) {
    rank = context.group().rank();
    int ranks = context.group().size();
    context.at("opening the buffer");
    buffer = ExpertBuffer.open(context.group(), context.settings().highThroughputConfig(ranks));
    this.context = context.acrossEqualNodes(buffer);
    settings = this.context.settings();
    payload = settings.payload();
    placement = ExpertPlacement.blocks(settings.experts(), ranks);
    device = CudaDevice.open(buffer.deviceOrdinal().orElseThrow());
    device.makeCurrent();
    stream = CudaStream.create(device);
    latch = StreamLatch.of(device);
    context.at("drawing inputs");
    for (int b = 0; b < settings.plan().buffers(); b++) {
      sets.add(DeviceInputs.make(settings, b, rank, placement, device));
    }
    List<WorldRouting> worlds = sets.stream().map(input -> input.set().world()).toList();
    boolean grouped = settings.layout() == Layout.EXPERT_MAJOR;
    int alignment = grouped ? GROUP_ALIGNMENT : 1;
    flat = TrafficVolume.of(worlds, Layout.FLAT, 1);
    delivered = TrafficVolume.of(worlds, settings.layout(), alignment);
    crossing = TrafficVolume.crossing(worlds, settings.nodes());
    crossingWithOwnNode = TrafficVolume.crossingWithOwnNode(worlds, settings.nodes());
    scaleUp = TrafficVolume.scaleUp(worlds, settings.nodes());
    long max = Math.max(1, grouped ? delivered.max() : (long) ranks * settings.tokens());
    DeviceStream callers = new DeviceStream(stream.handle());
    dispatching =
        DispatchOptions.builder()
            .expertAlignment(alignment)
            .sizing(settings.staticSizes() ? Sizing.atMost(max) : Sizing.EXACT)
            .execution(Execution.on(callers))
            .build();
    again = Execution.on(callers);
    long outBytes = payload.sums().bytes((long) settings.tokens() * settings.hidden());
    outMemory = DeviceMemory.allocate(device, Math.max(1, outBytes));
    out = tensor(outMemory, payload.sums(), settings.tokens(), settings.hidden());
    int columns = weightColumns();
    weightMemory = DeviceMemory.allocate(device, max * columns * Float.BYTES);
    rowWeights =
        grouped
            ? tensor(weightMemory, DType.FP32, max)
            : tensor(weightMemory, DType.FP32, max, columns);
    context.agreement().barrier();
  }

  private Tensor tensor(DeviceMemory memory, DType dtype, long... shape) {
    return Tensor.ofDevice(memory.address(), device.ordinal(), dtype, shape);
  }

  /** Row order at the receiver. */
  Layout layout() {
    return settings.layout();
  }

  private int weightColumns() {
    return settings.layout() == Layout.FLAT ? settings.topk() : 1;
  }

  /** An input set in the memory that a graph reads. */
  DeviceInputs place() {
    return DeviceInputs.make(settings, 0, rank, placement, device);
  }

  /** Options of a combine, with or without weights of the rows. */
  CombineOptions combining(boolean weighted) {
    CombineOptions.Builder options =
        CombineOptions.builder()
            .out(out)
            .applyWeights(settings.applyWeights())
            .order(settings.order())
            .execution(Execution.on(new DeviceStream(stream.handle())));
    return weighted ? options.topkWeights(rowWeights).build() : options.build();
  }

  /**
   * The input of the combine, with {@code rows} rows filled, and their weights. Both depend only on
   * the number of the row, so they are correct for every routing.
   */
  Tensor expertRows(Dispatch dispatch, long rows) {
    Tensor region = dispatch.combineInput(payload.sums());
    Inputs inputs = sets.getFirst().set().inputs();
    inputs.fill(region.rows(0, Math.min(rows, region.size(0))), Part.EXPERT_OUTPUT, rank);
    inputs.fill(rowWeights, Part.SCALES, rank);
    return region;
  }

  /**
   * Compares the result of a dispatch with the oracle.
   *
   * @param rows set of the rows
   * @param routing set of the routing
   */
  void checkDispatch(int rows, int routing, Dispatch dispatch) {
    stream.synchronize();
    HighThroughputOracle oracle =
        new HighThroughputOracle(sets.get(routing).set().world(), settings.nodes().ranksPerNode());
    HighThroughputOracle.Payload expected =
        sets.get(rows).set().expected(payload, settings.hidden());
    boolean cached = settings.mode() == BenchSettings.Mode.CACHED;
    context.verify(
        () -> {
          if (cached) {
            oracle.checkCached(rank, layout(), dispatch, expected, dispatching);
          } else {
            oracle.checkDispatch(rank, layout(), dispatch, expected, dispatching);
          }
        });
  }

  /** Compares sums of {@link #expertRows} with the oracle. */
  void checkCombine(int routing, Combine combine, boolean weighted) {
    stream.synchronize();
    DType dtype = payload.sums();
    Inputs inputs = sets.getFirst().set().inputs();
    Rows weights = weighted ? inputs.rows(Part.SCALES, DType.FP32, weightColumns()) : null;
    Rows y = inputs.rows(Part.EXPERT_OUTPUT, dtype, settings.hidden());
    Terms terms =
        new Terms(
            dtype,
            settings.hidden(),
            y,
            true,
            settings.applyWeights(),
            settings.order(),
            null,
            null,
            weights);
    context.verify(
        () ->
            new CombineOracle(
                    sets.get(routing).set().world(),
                    settings.layout(),
                    dispatching.expertAlignment(),
                    settings.nodes().ranksPerNode())
                .checkCombine(rank, combine, terms));
  }

  /**
   * A measured operation, the same on every rank.
   *
   * @param rowBytes bytes of a sent row
   * @param warm what ran before the timed calls
   * @param combined as in {@link DeviceResult}
   */
  DeviceResult result(
      String operation,
      String dtype,
      CallTimer timer,
      long rowBytes,
      double ceilingMicros,
      WarmUp warm,
      String combined) {
    Timings called = Timings.longestOf(context.agreement().numbers(timer.deviceNanos()));
    Timings kernel = Timings.longestOf(context.agreement().numbers(timer.kernelNanos()));
    Timings host = Timings.longestOf(context.agreement().numbers(timer.hostNanos()));
    Result result =
        new Result(
                operation,
                dtype,
                called,
                delivered.mean(),
                delivered.mean() * rowBytes,
                flat.meanRemote() * rowBytes,
                ceilingMicros)
            .after(warm);
    NodeTraffic nodes =
        new NodeTraffic(crossing * rowBytes, crossingWithOwnNode * rowBytes, scaleUp * rowBytes);
    return new DeviceResult(
        result, kernel, host, buffer.parallelism(), combined, severalNodes() ? nodes : null, null);
  }

  /** Whether rows cross between nodes. */
  boolean severalNodes() {
    return context.severalNodes();
  }

  /** Waits for all ranks: freeing memory also waits for kernels of other ranks on the GPU. */
  void settle() {
    stream.synchronize();
    context.agreement().barrier();
  }

  @Override
  public void close() {
    buffer.close();
    weightMemory.close();
    outMemory.close();
    sets.forEach(DeviceInputs::close);
    latch.close();
    stream.close();
    device.close();
  }
}
