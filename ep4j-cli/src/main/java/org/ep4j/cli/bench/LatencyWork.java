package org.ep4j.cli.bench;

import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import org.ep4j.ExpertBuffer;
import org.ep4j.LowLatencyCombine;
import org.ep4j.LowLatencyCombineOptions;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.LowLatencyHandle;
import org.ep4j.bench.TrafficVolume;
import org.ep4j.config.Layout;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.driver.DeviceMemory;
import org.ep4j.execution.DeviceStream;
import org.ep4j.execution.Execution;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.ep4j.verify.Inputs;
import org.ep4j.verify.Rows;
import org.ep4j.verify.WorldRouting;

/**
 * Resources of a rank on its GPU in low latency: the buffer, a stream of the caller, inputs and
 * outputs in device memory, the calls, and the checks of the oracle.
 */
final class LatencyWork implements AutoCloseable {
  private static final int BF16_BYTES = 2;

  final RankContext context;
  final BenchSettings settings;
  final int rank;
  final ExpertBuffer buffer;
  final CudaDevice device;
  final CudaStream stream;

  /** Rows sent to the ranks of their experts: one per rank. */
  final TrafficVolume once;

  /** Rows that experts receive and return. */
  final TrafficVolume each;

  /** Like {@link #once} and {@link #each}, from ranks of other nodes only. */
  final double internodeOnce;

  final double internodePerRow;

  private final List<DeviceInputs> sets = new ArrayList<>();
  private final DeviceStream callers;
  private final DeviceMemory expertMemory;
  private final Tensor expertRows;
  private final DeviceMemory outMemory;
  private final Tensor out;
  private final LowLatencyCombineOptions combining;

  LatencyWork(RankContext context) {
    this.context = context;
    settings = context.settings();
    rank = context.group().rank();
    int ranks = context.group().size();
    int tokens = settings.lowLatencyTokens();
    int hidden = settings.hidden();
    ExpertPlacement placement = ExpertPlacement.blocks(settings.experts(), ranks);
    context.at("opening the low-latency buffer");
    buffer = ExpertBuffer.open(context.group(), settings.lowLatencyConfig(ranks));
    device = CudaDevice.open(ordinal());
    device.makeCurrent();
    stream = CudaStream.create(device);
    callers = new DeviceStream(stream.handle());
    context.at("drawing inputs");
    for (int b = 0; b < settings.plan().buffers(); b++) {
      sets.add(DeviceInputs.make(settings, Payload.BF16, tokens, b, rank, placement, device));
    }
    List<WorldRouting> worlds = sets.stream().map(input -> input.set().world()).toList();
    once = TrafficVolume.of(worlds, Layout.FLAT, 1);
    each = TrafficVolume.of(worlds, Layout.EXPERT_MAJOR, 1);
    internodeOnce = TrafficVolume.internodeRows(worlds, Layout.FLAT, settings.nodes());
    internodePerRow = TrafficVolume.internodeRows(worlds, Layout.EXPERT_MAJOR, settings.nodes());
    long groups = settings.latencyGroups(ranks, placement.localExperts(rank));
    long capacity = settings.latencyCapacity(ranks);
    expertMemory =
        DeviceMemory.allocate(device, Math.max(1, groups * capacity * hidden * BF16_BYTES));
    expertRows = tensor(expertMemory, groups, capacity, hidden);
    outMemory = DeviceMemory.allocate(device, Math.max(1, (long) tokens * hidden * BF16_BYTES));
    out = tensor(outMemory, tokens, hidden);
    combining =
        LowLatencyRound.combining(settings).out(out).execution(Execution.on(callers)).build();
    context.agreement().barrier();
  }

  /** The device that the engine assigned to this rank. */
  private int ordinal() {
    Tensor nothing = Tensor.ofBf16(new short[0], 0, settings.hidden());
    Routing empty = Routing.of(Tensor.of(new long[0], 0, 1));
    return buffer
        .lowLatencyDispatch(nothing, empty, LowLatencyDispatchOptions.DEFAULT)
        .counts()
        .device();
  }

  private Tensor tensor(DeviceMemory memory, long... shape) {
    return Tensor.ofDevice(memory.address(), device.ordinal(), DType.BF16, shape);
  }

  LowLatencyDispatchOptions dispatching(Payload payload) {
    return LowLatencyDispatchOptions.builder()
        .format(Objects.requireNonNull(payload.lowLatency(), "checked before"))
        .returnHook(settings.options().hook())
        .execution(Execution.on(callers))
        .build();
  }

  /** Number of input sets. */
  int sets() {
    return sets.size();
  }

  /** Starts a dispatch; with a hook, only its sending half. */
  LowLatencyDispatch send(int set, LowLatencyDispatchOptions options) {
    InputSet input = sets.get(set).set();
    return buffer.lowLatencyDispatch(
        settings.options().layout(), input.tokens().x(), input.routing(), options);
  }

  /** Starts a combine of the rows of the experts; with a hook, only its sending half. */
  LowLatencyCombine sendBack(int set, LowLatencyHandle handle) {
    Tensor rows =
        settings.options().zeroCopy() ? buffer.lowLatencyCombineBuffer(handle) : expertRows;
    return buffer.lowLatencyCombine(rows, sets.get(set).set().routing(), handle, combining);
  }

  /** Dispatches, including the receiving half. */
  LowLatencyDispatch dispatch(int set, LowLatencyDispatchOptions options) {
    LowLatencyDispatch dispatch = send(set, options);
    if (settings.options().hook()) {
      dispatch.hook().receive();
    }
    return dispatch;
  }

  /** Combines, including the receiving half. */
  void combine(int set, LowLatencyHandle handle) {
    LowLatencyCombine combine = sendBack(set, handle);
    if (settings.options().hook()) {
      combine.hook().receive();
    }
  }

  /** Compares dispatched and combined rows with the oracle. */
  void verify(int set, Payload payload) {
    InputSet input = sets.get(set).set();
    LatencyOracle oracle = new LatencyOracle(settings, input.world());
    LowLatencyDispatchOptions options = dispatching(payload);
    LowLatencyDispatch dispatch = dispatch(set, options);
    stream.synchronize();
    Rows sent = input.inputs().rows(Inputs.Part.PAYLOAD, DType.BF16, settings.hidden());
    context.verify(() -> oracle.checkDispatch(rank, dispatch, sent, options));
    fill(input, dispatch.handle(), oracle.receiveCounts(rank));
    combine(set, dispatch.handle());
    stream.synchronize();
    Rows returned = input.inputs().rows(Inputs.Part.EXPERT_OUTPUT, DType.BF16, settings.hidden());
    context.verify(() -> oracle.checkCombine(rank, out, returned, combining));
  }

  /** Writes the rows of the experts. */
  private void fill(InputSet set, LowLatencyHandle handle, int[] counts) {
    Rows rows = set.inputs().rows(Inputs.Part.EXPERT_OUTPUT, DType.BF16, settings.hidden());
    Tensor target =
        settings.options().zeroCopy() ? buffer.lowLatencyCombineBuffer(handle) : expertRows;
    long rowBytes = (long) settings.hidden() * BF16_BYTES;
    long capacity = target.size(1);
    for (int group = 0; group < counts.length; group++) {
      if (counts[group] == 0) {
        continue;
      }
      MemorySegment run =
          MemorySegment.ofArray(new byte[Math.toIntExact(counts[group] * rowBytes)]);
      for (int i = 0; i < counts[group]; i++) {
        MemorySegment row = rows.row(rank, group * capacity + i);
        MemorySegment.copy(row, 0, run, i * rowBytes, rowBytes);
      }
      Tensor.ofDevice(
              target.address() + group * capacity * rowBytes,
              device.ordinal(),
              DType.BF16,
              counts[group],
              settings.hidden())
          .copyFrom(run);
    }
  }

  /** Waits for all ranks: freeing memory also waits for kernels of other ranks on the GPU. */
  void settle() {
    stream.synchronize();
    context.agreement().barrier();
  }

  @Override
  public void close() {
    buffer.close();
    outMemory.close();
    expertMemory.close();
    sets.forEach(DeviceInputs::close);
    stream.close();
    device.close();
  }
}
