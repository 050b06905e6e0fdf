package org.ep4j.cuda.soak;

import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.CudaModule;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.driver.DeviceMemory;
import org.ep4j.cuda.driver.Launch;
import org.ep4j.cuda.driver.LaunchConfig;
import org.ep4j.cuda.jit.KernelCompiler;
import org.ep4j.execution.DeviceStream;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;

/** The GPU of a rank. Used by the rank's thread. */
final class GpuMachine implements SoakMachine {
  /** Small enough that the kernels of all ranks fit on one GPU together. */
  private static final int BLOCKS = 128;

  private static final int THREADS = 256;

  private final CudaDevice device;
  private final CudaStream stream;
  private final CudaModule module;
  private final Map<SoakKernel, Launch> launches = new EnumMap<>(SoakKernel.class);
  private final List<DeviceMemory> memory = new ArrayList<>();

  /** The GPU that the engine assigns to a rank of this process. */
  GpuMachine(int rank) {
    device = CudaDevice.open(rank % CudaDevice.count());
    device.makeCurrent();
    stream = CudaStream.create(device);
    module = KernelCompiler.standard().load(device, SoakSources.spec(device.architecture()));
    for (SoakKernel kernel : SoakKernel.values()) {
      launches.put(
          kernel,
          Launch.of(
              module.kernel(kernel.entry()),
              LaunchConfig.of(BLOCKS, THREADS),
              SoakField.values().length * Long.BYTES));
    }
  }

  private final class DeviceBlock implements Block {
    private final DeviceMemory bytes;

    DeviceBlock(DeviceMemory bytes) {
      this.bytes = bytes;
    }

    @Override
    public long address() {
      return bytes.address();
    }

    @Override
    public Tensor as(DType dtype, long... shape) {
      return Tensor.ofDevice(bytes.address(), device.ordinal(), dtype, shape);
    }

    @Override
    public void write(MemorySegment source) {
      bytes.copyFrom(0, source);
    }

    @Override
    public void read(MemorySegment target) {
      bytes.copyTo(0, target);
    }
  }

  @Override
  public Block allocate(long bytes) {
    DeviceMemory allocated = DeviceMemory.allocate(device, bytes);
    memory.add(allocated);
    return new DeviceBlock(allocated);
  }

  @Override
  public void launch(SoakKernel kernel, MemorySegment words) {
    Launch launch = Objects.requireNonNull(launches.get(kernel));
    launch.parameters().copyFrom(words);
    launch.launch(stream);
  }

  @Override
  public DeviceStream stream() {
    return new DeviceStream(stream.handle());
  }

  @Override
  public boolean isSharedBy(int ranks) {
    return ranks > CudaDevice.count();
  }

  @Override
  public void finish() {
    stream.synchronize();
  }

  @Override
  public void close() {
    stream.synchronize();
    memory.forEach(DeviceMemory::close);
    launches.values().forEach(Launch::close);
    module.close();
    stream.close();
    device.close();
  }
}
