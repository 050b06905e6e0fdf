package org.ep4j.moe;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import org.ep4j.moe.cublas.Product;
import org.ep4j.moe.gpu.DeviceScratch;
import org.ep4j.moe.gpu.LayerDevice;
import org.ep4j.moe.gpu.MoeKernel;
import org.ep4j.moe.gpu.WorkQueue;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.FloatConversions;
import org.ep4j.tensor.Tensor;

/**
 * SwiGLU experts of one size on a GPU: their matrices in BF16, forward and backward pass over rows.
 * The two matrices in front of SwiGLU are one, w1 above w3, so that one product has both factors.
 */
final class DeviceExperts {
  private final LayerDevice device;
  private final int hidden;
  private final int intermediate;

  /** [2I, H] and [H, I] of each expert. */
  private final List<Matrices> experts = new ArrayList<>();

  /** Matrices of an expert, or their gradients. */
  private record Matrices(long both, long w2) {}

  /**
   * Rows of an expert.
   *
   * @param at first row among the received ones
   * @param packed first row among those of all experts without gaps
   */
  record Group(int expert, long at, long packed, int rows) {}

  /**
   * Rows of experts.
   *
   * @param groups without empty ones
   * @param rows of all groups
   */
  record Groups(List<Group> groups, long rows) {
    /** All rows of one expert. */
    static Groups one(int rows) {
      return new Groups(rows == 0 ? List.of() : List.of(new Group(0, 0, 0, rows)), rows);
    }
  }

  /** Gradients of the matrices in FP32, each of the size of its matrix. */
  static final class Gradients {
    private final List<Matrices> experts = new ArrayList<>();
    private final List<ExpertWeights> tensors = new ArrayList<>();

    /** Written by each backward pass. */
    List<ExpertWeights> tensors() {
      return tensors;
    }
  }

  DeviceExperts(LayerDevice device, int hidden, int intermediate) {
    this.device = device;
    this.hidden = hidden;
    this.intermediate = intermediate;
  }

  /** Copies an expert to the GPU; its number is that of the calls before. */
  void add(String name, ExpertWeights weights) {
    long half = bf16(intermediate, hidden);
    long both = device.allocate(2 * half);
    write(device, both, Expert.matrix(name + ".w1", weights.w1(), intermediate, hidden));
    write(device, both + half, Expert.matrix(name + ".w3", weights.w3(), intermediate, hidden));
    long w2 = device.allocate(half);
    write(device, w2, Expert.matrix(name + ".w2", weights.w2(), hidden, intermediate));
    experts.add(new Matrices(both, w2));
  }

  /** Copies a matrix to the GPU in BF16. */
  static void write(LayerDevice device, long address, Matrix matrix) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment rounded = arena.allocate(bf16(matrix.rows(), matrix.columns()));
      FloatConversions.fromFloats(matrix.values(), DType.BF16, rounded);
      device.write(address, rounded);
    }
  }

  /** Bytes of a matrix in BF16. */
  static long bf16(long rows, long columns) {
    return DType.BF16.bytes(rows * columns);
  }

  /** Bytes of both factors of SwiGLU. */
  long factorBytes(long rows) {
    return bf16(rows, 2L * intermediate);
  }

  /**
   * Results of rows.
   *
   * @param x [any, H]: rows at {@link Group#at}
   * @param both where to put the factors of SwiGLU, [rows, 2I], packed
   * @param out where to put the results, [any, H]: rows at {@link Group#at}; may be {@code x}
   */
  void forward(WorkQueue queue, DeviceScratch scratch, Groups groups, long x, long both, long out) {
    List<Product> products = new ArrayList<>();
    for (Group g : groups.groups) {
      products.add(
          Product.byWeights(
              g.rows,
              2 * intermediate,
              hidden,
              x + bf16(g.at, hidden),
              experts.get(g.expert).both,
              both + factorBytes(g.packed)));
    }
    queue.multiplyAll(products);
    long inner = scratch.take(bf16(groups.rows, intermediate));
    queue.launch(
        MoeKernel.SWIGLU,
        MoeKernel.SWIGLU.blocksOfThreads(groups.rows * intermediate / MoeKernel.VECTOR),
        0,
        both,
        groups.rows,
        intermediate,
        inner);
    products.clear();
    for (Group g : groups.groups) {
      products.add(
          Product.byWeights(
              g.rows,
              hidden,
              intermediate,
              inner + bf16(g.packed, intermediate),
              experts.get(g.expert).w2,
              out + bf16(g.at, hidden)));
    }
    queue.multiplyAll(products);
  }

  /** Memory for gradients, until the device is closed. */
  Gradients allocateGradients() {
    var gradients = new Gradients();
    long half = DType.FP32.bytes((long) intermediate * hidden);
    for (int e = 0; e < experts.size(); e++) {
      long both = device.allocate(2 * half);
      long w2 = device.allocate(half);
      gradients.experts.add(new Matrices(both, w2));
      gradients.tensors.add(
          new ExpertWeights(
              fp32(both, intermediate, hidden),
              fp32(both + half, intermediate, hidden),
              fp32(w2, hidden, intermediate)));
    }
    return gradients;
  }

  private Tensor fp32(long address, int rows, int columns) {
    return Tensor.ofDevice(address, device.ordinal(), DType.FP32, rows, columns);
  }

  /**
   * Gradients of the matrices, and of the factors of SwiGLU.
   *
   * @param x rows of the forward pass, at {@link Group#at}
   * @param both factors of the forward pass; replaced by their gradients
   * @param grad gradients of the results before their weights, rows at {@link Group#at}
   * @param weights FP32 [rows], packed; 0: rows have no weights
   * @param dots where to put the gradients of the weights; 0 if there are none
   */
  void backward(
      WorkQueue queue,
      DeviceScratch scratch,
      Groups groups,
      long x,
      long both,
      long grad,
      long weights,
      long dots,
      Gradients gradients) {
    long inner = scratch.take(bf16(groups.rows, intermediate));
    List<Product> products = new ArrayList<>();
    for (Group g : groups.groups) {
      products.add(
          Product.back(
              g.rows,
              intermediate,
              hidden,
              grad + bf16(g.at, hidden),
              experts.get(g.expert).w2,
              inner + bf16(g.packed, intermediate)));
    }
    queue.multiplyAll(products);
    // From here on, the gradient of SwiGLU's result is that result times the weights.
    queue.launch(
        MoeKernel.SWIGLU_BACKWARD,
        MoeKernel.SWIGLU_BACKWARD.blocksOfWarps(groups.rows),
        0,
        both,
        inner,
        weights,
        groups.rows,
        intermediate,
        dots);
    var has = new boolean[experts.size()];
    for (Group g : groups.groups) {
      has[g.expert] = true;
      Matrices of = gradients.experts.get(g.expert);
      queue.multiply(
          Product.ofWeights(
              hidden,
              intermediate,
              g.rows,
              grad + bf16(g.at, hidden),
              inner + bf16(g.packed, intermediate),
              of.w2));
      queue.multiply(
          Product.ofWeights(
              2 * intermediate,
              hidden,
              g.rows,
              both + factorBytes(g.packed),
              x + bf16(g.at, hidden),
              of.both));
    }
    long half = DType.FP32.bytes((long) intermediate * hidden);
    for (int e = 0; e < has.length; e++) {
      if (!has[e]) {
        queue.zero(gradients.experts.get(e).both, 2 * half);
        queue.zero(gradients.experts.get(e).w2, half);
      }
    }
  }

  /**
   * The products that turn gradients of the factors into those of rows.
   *
   * @param both gradients of the factors, packed
   * @param gradOfX BF16 [any, H]: rows at {@link Group#at}
   */
  List<Product> toRows(Groups groups, long both, long gradOfX) {
    List<Product> products = new ArrayList<>();
    for (Group g : groups.groups) {
      products.add(
          Product.back(
              g.rows,
              hidden,
              2 * intermediate,
              both + factorBytes(g.packed),
              experts.get(g.expert).both,
              gradOfX + bf16(g.at, hidden)));
    }
    return products;
  }
}
