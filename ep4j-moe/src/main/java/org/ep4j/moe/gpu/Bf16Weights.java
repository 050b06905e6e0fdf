package org.ep4j.moe.gpu;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import org.ep4j.moe.cublas.Product;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.FloatConversions;

/** Matrices in BF16. */
public final class Bf16Weights implements WeightMatrices {
  private final LayerDevice device;
  private final int experts;
  private final int rows;
  private final int columns;
  private final long address;

  /** Memory for matrices, until the device is closed. */
  public Bf16Weights(LayerDevice device, int experts, int rows, int columns) {
    this.device = device;
    this.experts = experts;
    this.rows = rows;
    this.columns = columns;
    address = device.allocate(Math.max(1, experts * matrixBytes()));
  }

  private long matrixBytes() {
    return DType.BF16.bytes((long) rows * columns);
  }

  /** Copies rows of a matrix from the host, rounded. */
  public void write(int expert, int firstRow, float[] values) {
    write(device, addressOf(expert, firstRow), values);
  }

  /** Copies rows of a matrix in BF16 from the host. */
  public void write(int expert, int firstRow, MemorySegment ofRows) {
    device.write(addressOf(expert, firstRow), ofRows);
  }

  private long addressOf(int expert, int row) {
    return address + DType.BF16.bytes(((long) expert * rows + row) * columns);
  }

  /** Copies values to the GPU, rounded to BF16. */
  public static void write(LayerDevice device, long address, float[] values) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment rounded = arena.allocate(DType.BF16.bytes(values.length));
      FloatConversions.fromFloats(values, DType.BF16, rounded);
      device.write(address, rounded);
    }
  }

  private Product product(ByExpert of) {
    return of.product().apply(address + of.expert() * matrixBytes());
  }

  @Override
  public void multiply(WorkQueue queue, DeviceScratch scratch, ByExpert product) {
    queue.multiply(product(product));
  }

  @Override
  public void multiplyAll(WorkQueue queue, DeviceScratch scratch, List<ByExpert> products) {
    List<Product> all = new ArrayList<>();
    products.forEach(of -> all.add(product(of)));
    queue.multiplyAll(all);
  }

  @Override
  public void multiplyFew(WorkQueue queue, long x, long counts, long places, long out) {
    queue.launch(
        MoeKernel.FEW_ROWS,
        MoeKernel.blocksOfFewRows(experts, rows),
        MoeKernel.FEW_ROWS_BYTES,
        x,
        counts,
        places,
        experts,
        rows,
        columns,
        address,
        out);
  }
}
