package org.ep4j.cli.bench;

import java.util.ArrayList;
import java.util.List;
import org.ep4j.Tokens;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.driver.DeviceCopies;
import org.ep4j.cuda.driver.DeviceMemory;
import org.ep4j.memory.PageArena;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * An input set in the memory of a device.
 *
 * @param set with tokens and routing of this rank on the device
 * @param memory memory of these tensors, in the same order in every set
 */
record DeviceInputs(InputSet set, List<DeviceMemory> memory) implements AutoCloseable {
  /** Generates set number {@code number} and copies the input of this rank to its device. */
  static DeviceInputs make(
      BenchSettings settings, int number, int rank, ExpertPlacement placement, CudaDevice device) {
    return make(settings, settings.payload(), settings.tokens(), number, rank, placement, device);
  }

  /** The same with another format and number of rows. */
  static DeviceInputs make(
      BenchSettings settings,
      Payload payload,
      int tokens,
      int number,
      int rank,
      ExpertPlacement placement,
      CudaDevice device) {
    List<DeviceMemory> memory = new ArrayList<>();
    try (PageArena arena = new PageArena()) {
      InputSet host = InputSet.make(settings, payload, tokens, number, rank, placement, arena);
      Tokens rows = host.tokens();
      Tokens copied =
          new Tokens(
              copy(rows.x(), device, memory),
              orNull(rows.scales(), device, memory),
              orNull(rows.globalScales(), device, memory),
              rows.scaleLayout());
      Routing routing =
          new Routing(
              copy(host.routing().topkIdx(), device, memory),
              orNull(host.routing().topkWeights(), device, memory));
      return new DeviceInputs(new InputSet(host.inputs(), copied, routing, host.world()), memory);
    }
  }

  private static @Nullable Tensor orNull(
      @Nullable Tensor host, CudaDevice device, List<DeviceMemory> memory) {
    return host == null ? null : copy(host, device, memory);
  }

  private static Tensor copy(Tensor host, CudaDevice device, List<DeviceMemory> memory) {
    DeviceMemory place = DeviceMemory.allocate(device, Math.max(1, host.byteSize()));
    memory.add(place);
    Tensor tensor = Tensor.ofDevice(place.address(), device.ordinal(), host.dtype(), host.shape());
    tensor.copyFrom(host.segment());
    return tensor;
  }

  /** Copies the bytes of this set to another set, in stream order. */
  void copyOver(DeviceInputs target, CudaStream stream) {
    for (int i = 0; i < memory.size(); i++) {
      DeviceMemory from = memory.get(i);
      DeviceCopies.copy(target.memory.get(i).address(), from.address(), from.bytes(), stream);
    }
  }

  @Override
  public void close() {
    memory.forEach(DeviceMemory::close);
  }
}
