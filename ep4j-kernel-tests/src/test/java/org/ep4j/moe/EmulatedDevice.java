package org.ep4j.moe;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.foreign.MemorySegment;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import org.ep4j.cuda.emulator.EmulatedLibrary;
import org.ep4j.execution.DeviceStream;
import org.ep4j.moe.cublas.Cublas;
import org.ep4j.moe.cublas.CublasLt;
import org.ep4j.moe.cublas.Fp8Product;
import org.ep4j.moe.cublas.Product;
import org.ep4j.moe.gpu.CapturedWork;
import org.ep4j.moe.gpu.LayerDevice;
import org.ep4j.moe.gpu.MoeKernel;
import org.ep4j.moe.gpu.WorkQueue;

/**
 * A GPU in memory of the host: kernels run in the emulator, products in {@link HostCublas}.
 *
 * <p>One of both queues works at once, the other as late as it may: when the host or the other
 * queue waits for it. So a wait that is missing leaves garbage.
 */
final class EmulatedDevice implements LayerDevice {
  private final GuardedMemory memory = new GuardedMemory();
  private final EmulatedLibrary kernels;
  private final Queue main;
  private final Queue side;

  /**
   * A device.
   *
   * @param lateMain whether the main queue is the late one
   */
  EmulatedDevice(EmulatedLibrary kernels, boolean lateMain) {
    this.kernels = kernels;
    main = new Queue(1, lateMain);
    side = new Queue(2, !lateMain);
  }

  @Override
  public int ordinal() {
    return 0;
  }

  @Override
  public long allocate(long bytes) {
    assertThat(bytes).isPositive();
    return memory.allocate(bytes).address();
  }

  @Override
  public void write(long address, MemorySegment source) {
    at(address, source.byteSize()).copyFrom(source);
  }

  @SuppressWarnings("restricted") // memory of this device
  static MemorySegment at(long address, long bytes) {
    return MemorySegment.ofAddress(address).reinterpret(bytes);
  }

  @Override
  public void enter() {
    // The device of every thread.
  }

  @Override
  public WorkQueue main() {
    return main;
  }

  @Override
  public WorkQueue side() {
    return side;
  }

  /** The same calls for each replay: operations of the host engine cannot be recorded. */
  @Override
  public CapturedWork capture(Runnable calls) {
    assertThat(main.enqueued + side.enqueued).isEqualTo(main.done + side.done);
    return new CapturedWork() {
      @Override
      public void enqueue() {
        calls.run();
      }

      @Override
      public void close() {
        // Nothing was recorded.
      }
    };
  }

  @Override
  public void close() {
    for (Queue queue : List.of(main, side)) {
      queue.cublas.close();
      queue.lt.close();
    }
    memory.close();
  }

  /** Work in its order. */
  private final class Queue implements WorkQueue {
    private final DeviceStream stream;
    private final boolean late;
    private final Cublas cublas;
    private final CublasLt lt;
    private final long[] points = new long[POINTS];
    private final Deque<Runnable> waiting = new ArrayDeque<>();

    /** Pieces of work so far, and those that are done. */
    private long enqueued;

    private long done;

    private Queue(long handle, boolean late) {
      this.late = late;
      stream = new DeviceStream(handle);
      cublas = Cublas.open(handle, allocate(256));
      lt = CublasLt.open(handle, allocate(256)).orElseThrow();
    }

    private void enqueue(Runnable work) {
      waiting.add(work);
      enqueued++;
      if (!late) {
        runTo(enqueued);
      }
    }

    private void runTo(long count) {
      while (done < count) {
        waiting.remove().run();
        done++;
      }
    }

    @Override
    public DeviceStream stream() {
      return stream;
    }

    @Override
    public void launch(MoeKernel kernel, int blocks, int sharedBytes, long... parameters) {
      assertThat(parameters).hasSize(kernel.parameters());
      // The emulator starts every thread of a grid; any number of blocks shares the work.
      int few = Math.min(blocks, 4);
      enqueue(
          () ->
              kernels.run(blocks, kernel.symbol(), few, kernel.threads(), sharedBytes, parameters));
    }

    @Override
    public void multiply(Product product) {
      enqueue(() -> cublas.multiply(product));
    }

    @Override
    public void multiplyAll(List<Product> products) {
      List<Product> copy = List.copyOf(products);
      enqueue(
          () -> {
            List<MemorySegment> tables = new ArrayList<>();
            cublas.multiplyAll(
                copy,
                addresses -> {
                  tables.add(memory.of(addresses));
                  return tables.getLast().address();
                });
            tables.forEach(table -> memory.release(table.address()));
          });
    }

    @Override
    public boolean hasFp8Products(int columns, int terms) {
      return lt.supports(columns, terms);
    }

    @Override
    public void multiply(Fp8Product product) {
      enqueue(() -> lt.multiply(product));
    }

    @Override
    public long table(long... numbers) {
      return memory.of(numbers).address();
    }

    @Override
    public void copy(long to, long from, long bytes) {
      enqueue(() -> at(to, bytes).copyFrom(at(from, bytes)));
    }

    @Override
    public void zero(long address, long bytes) {
      enqueue(() -> at(address, bytes).fill((byte) 0));
    }

    @Override
    public void after(WorkQueue other) {
      Queue before = (Queue) other;
      long count = before.enqueued;
      enqueue(() -> before.runTo(count));
    }

    @Override
    public void mark(int point) {
      enqueue(() -> points[point] = System.nanoTime());
    }

    @Override
    public long nanosBetween(int from, int to) {
      return points[to] - points[from];
    }

    @Override
    public void await() {
      runTo(enqueued);
    }

    @Override
    public MemorySegment fetch(long address, int bytes) {
      assertThat(bytes).isBetween(0, FETCH_BYTES);
      await();
      MemorySegment copy = MemorySegment.ofArray(new long[bytes / Long.BYTES + 1]);
      MemorySegment.copy(at(address, bytes), 0, copy, 0, bytes);
      return copy;
    }
  }
}
