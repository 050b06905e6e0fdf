package org.ep4j.moe.gpu;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.CudaEvent;
import org.ep4j.cuda.driver.CudaModule;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.driver.DeviceCopies;
import org.ep4j.cuda.driver.DeviceMemory;
import org.ep4j.cuda.driver.Launch;
import org.ep4j.cuda.driver.LaunchConfig;
import org.ep4j.cuda.driver.PinnedMemory;
import org.ep4j.cuda.driver.ResourceStack;
import org.ep4j.execution.DeviceStream;
import org.ep4j.moe.cublas.Cublas;
import org.ep4j.moe.cublas.CublasLt;
import org.ep4j.moe.cublas.Fp8Product;
import org.ep4j.moe.cublas.Product;

/**
 * A stream of CUDA with kernels and cuBLAS.
 *
 * <p>cuBLAS reads addresses of grouped products from device memory. They are written into host
 * memory and copied in stream order, each table to a place of its own; when the places are used up,
 * the queue waits until its work has ended.
 */
final class CudaQueue implements WorkQueue, AutoCloseable {
  /** Tables of addresses. */
  private static final int TABLE_BYTES = 1 << 20;

  private final ResourceStack owned = new ResourceStack();
  private final CudaStream stream;
  private final DeviceStream view;
  private final Cublas cublas;

  /** Shares the workspace of cuBLAS: calls follow each other. */
  private final Optional<CublasLt> lt;

  private final Map<MoeKernel, Launch> launches = new EnumMap<>(MoeKernel.class);
  private final PinnedMemory fetched;
  private final PinnedMemory tables;
  private final DeviceMemory tablesOnDevice;
  private final CudaEvent end;
  private final CudaEvent[] points = new CudaEvent[POINTS];

  /** Bytes of tables whose copies may not have run. */
  private int usedBytes;

  /** The device is current. */
  CudaQueue(CudaDevice device, CudaModule kernels) {
    try {
      stream = owned.own(CudaStream.create(device));
      view = new DeviceStream(stream.handle());
      DeviceMemory workspace = owned.own(DeviceMemory.allocate(device, Cublas.WORKSPACE_BYTES));
      cublas = owned.own(Cublas.open(stream.handle(), workspace.address()));
      lt = CublasLt.open(stream.handle(), workspace.address());
      lt.ifPresent(owned::own);
      for (MoeKernel kernel : MoeKernel.values()) {
        var bytes = new int[kernel.parameters()];
        Arrays.fill(bytes, Long.BYTES);
        launches.put(
            kernel,
            owned.own(
                Launch.of(
                    kernels.kernel(kernel.symbol()), LaunchConfig.of(1, kernel.threads()), bytes)));
      }
      fetched = owned.own(PinnedMemory.allocate(device, FETCH_BYTES));
      tables = owned.own(PinnedMemory.allocate(device, TABLE_BYTES));
      tablesOnDevice = owned.own(DeviceMemory.allocate(device, TABLE_BYTES));
      end = owned.own(CudaEvent.create(device));
      for (int i = 0; i < POINTS; i++) {
        points[i] = owned.own(CudaEvent.createTimed(device));
      }
    } catch (RuntimeException e) {
      owned.close();
      throw e;
    }
  }

  CudaStream cudaStream() {
    return stream;
  }

  @Override
  public DeviceStream stream() {
    return view;
  }

  @Override
  public void launch(MoeKernel kernel, int blocks, int sharedBytes, long... parameters) {
    Launch launch = launches.get(kernel);
    if (launch == null || parameters.length != kernel.parameters()) {
      throw new AssertionError(kernel + " with " + parameters.length + " parameters");
    }
    launch.setGrid(blocks, 1, 1);
    launch.setDynamicSharedBytes(sharedBytes);
    for (int i = 0; i < parameters.length; i++) {
      launch.setLong(i, parameters[i]);
    }
    launch.launch(stream);
  }

  @Override
  public void multiply(Product product) {
    cublas.multiply(product);
  }

  @Override
  public void multiplyAll(List<Product> products) {
    cublas.multiplyAll(products, this::table);
  }

  @Override
  public boolean hasFp8Products(int columns, int terms) {
    return lt.isPresent() && lt.get().supports(columns, terms);
  }

  @Override
  public void multiply(Fp8Product product) {
    lt.orElseThrow().multiply(product);
  }

  @Override
  public long table(long... addresses) {
    int bytes = addresses.length * Long.BYTES;
    if (bytes > TABLE_BYTES) {
      throw new AssertionError(bytes + " bytes of addresses: a rank has at most 1024 experts");
    }
    if (usedBytes + bytes > TABLE_BYTES) {
      await();
    }
    MemorySegment source = tables.segment().asSlice(usedBytes, bytes);
    MemorySegment.copy(addresses, 0, source, ValueLayout.JAVA_LONG, 0, addresses.length);
    tablesOnDevice.copyFrom(usedBytes, source, stream);
    long address = tablesOnDevice.address() + usedBytes;
    usedBytes += bytes;
    return address;
  }

  @Override
  public void copy(long to, long from, long bytes) {
    if (bytes > 0) {
      DeviceCopies.copy(to, from, bytes, stream);
    }
  }

  @Override
  public void zero(long address, long bytes) {
    if (bytes > 0) {
      DeviceCopies.fill8(address, (byte) 0, bytes, stream);
    }
  }

  @Override
  public void after(WorkQueue other) {
    CudaQueue before = (CudaQueue) other;
    before.end.record(before.stream);
    stream.waitFor(before.end);
  }

  @Override
  public void mark(int point) {
    // Times of a graph's events cannot be read.
    if (!stream.capturing()) {
      points[point].record(stream);
    }
  }

  @Override
  public long nanosBetween(int from, int to) {
    return (long) (1e6 * points[to].millisSince(points[from]));
  }

  @Override
  public void await() {
    stream.synchronize();
    usedBytes = 0;
  }

  @Override
  public MemorySegment fetch(long address, int bytes) {
    MemorySegment target = fetched.segment().asSlice(0, bytes);
    if (bytes > 0) {
      DeviceCopies.toHost(target, address, stream);
    }
    await();
    return target;
  }

  /** Frees memory and stream; work that has not ended still runs. */
  @Override
  public void close() {
    owned.close();
  }
}
