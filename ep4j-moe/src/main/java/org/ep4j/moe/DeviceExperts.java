package org.ep4j.moe;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.stream.IntStream;
import org.ep4j.moe.cublas.Fp8Product;
import org.ep4j.moe.cublas.Product;
import org.ep4j.moe.gpu.Bf16Weights;
import org.ep4j.moe.gpu.DeviceScratch;
import org.ep4j.moe.gpu.Fp8Weights;
import org.ep4j.moe.gpu.LayerDevice;
import org.ep4j.moe.gpu.MoeKernel;
import org.ep4j.moe.gpu.WeightMatrices;
import org.ep4j.moe.gpu.WeightMatrices.ByExpert;
import org.ep4j.moe.gpu.WorkQueue;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;

/**
 * SwiGLU experts of one size on a GPU: forward and backward pass over rows of BF16. The two
 * matrices in front of SwiGLU are one, w1 above w3, so that one product has both factors. Matrices
 * are in BF16, those of FP8 stay in it.
 */
final class DeviceExperts {
  private final LayerDevice device;
  private final int hidden;
  private final int intermediate;

  private final int experts;

  /** w1 above w3, [E, 2I, H]. */
  private final WeightMatrices both;

  /** [E, H, I]. */
  private final WeightMatrices w2;

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
    private final List<Addresses> experts = new ArrayList<>();
    private final List<ExpertWeights> tensors = new ArrayList<>();

    private record Addresses(long both, long w2) {}

    /** Written by each backward pass. */
    List<ExpertWeights> tensors() {
      return tensors;
    }
  }

  private DeviceExperts(
      LayerDevice device,
      int hidden,
      int intermediate,
      List<String> names,
      List<ExpertWeights> weights) {
    this.device = device;
    this.hidden = hidden;
    this.intermediate = intermediate;
    experts = names.size();
    boolean inFp8 = staysFp8(hidden, intermediate, weights);
    both = matrices(inFp8, device, experts, 2 * intermediate, hidden);
    w2 = matrices(inFp8, device, experts, hidden, intermediate);
    for (int e = 0; e < experts; e++) {
      String name = names.get(e);
      ExpertWeights of = weights.get(e);
      Optional<ExpertWeights.Factors> factors = of.factors();
      write(both, e, 0, name + ".w1", of.w1(), factors.map(f -> f.w1()), intermediate, hidden);
      write(
          both,
          e,
          intermediate,
          name + ".w3",
          of.w3(),
          factors.map(f -> f.w3()),
          intermediate,
          hidden);
      write(w2, e, 0, name + ".w2", of.w2(), factors.map(f -> f.w2()), hidden, intermediate);
    }
  }

  private static WeightMatrices matrices(
      boolean inFp8, LayerDevice device, int experts, int rows, int columns) {
    return inFp8
        ? new Fp8Weights(device, experts, rows, columns)
        : new Bf16Weights(device, experts, rows, columns);
  }

  /** Whether matrices of FP8 have whole blocks, so that w1 and w3 share none. */
  private static boolean staysFp8(int hidden, int intermediate, List<ExpertWeights> weights) {
    return hidden % Fp8Weights.BLOCK == 0
        && intermediate % Fp8Weights.BLOCK == 0
        && weights.stream().allMatch(of -> of.factors().isPresent());
  }

  private static void write(
      WeightMatrices target,
      int expert,
      int firstRow,
      String name,
      Tensor tensor,
      Optional<Tensor> factors,
      int rows,
      int columns) {
    switch (target) {
      case Fp8Weights fp8 ->
          fp8.write(
              expert,
              firstRow,
              tensor.segment(),
              Expert.factors(name, tensor, factors.orElseThrow(), rows, columns));
      case Bf16Weights bf16 -> {
        if (factors.isEmpty() && tensor.dtype() == DType.BF16) {
          Expert.checkMatrix(name, tensor, rows, columns);
          bf16.write(expert, firstRow, tensor.segment());
        } else {
          bf16.write(
              expert, firstRow, Expert.matrix(name, tensor, factors, rows, columns).values());
        }
      }
    }
  }

  /** Experts of a rank. */
  static DeviceExperts of(
      LayerDevice device, int hidden, int intermediate, List<ExpertWeights> weights) {
    List<String> names =
        IntStream.range(0, weights.size()).mapToObj(e -> "experts[" + e + "]").toList();
    return new DeviceExperts(device, hidden, intermediate, names, weights);
  }

  /** The shared expert. */
  static DeviceExperts shared(
      LayerDevice device, int hidden, int intermediate, ExpertWeights weights) {
    return new DeviceExperts(device, hidden, intermediate, List.of("shared"), List.of(weights));
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
   * @param factors where to put the factors of SwiGLU, [rows, 2I], packed
   * @param out where to put the results, [any, H]: rows at {@link Group#at}; may be {@code x}
   */
  void forward(
      WorkQueue queue, DeviceScratch scratch, Groups groups, long x, long factors, long out) {
    List<ByExpert> products = new ArrayList<>();
    for (Group g : groups.groups) {
      products.add(
          new ByExpert(
              g.expert,
              weights ->
                  Product.byWeights(
                      g.rows,
                      2 * intermediate,
                      hidden,
                      x + bf16(g.at, hidden),
                      weights,
                      factors + factorBytes(g.packed))));
    }
    both.multiplyAll(queue, scratch, products);
    long inner = swiglu(queue, scratch, groups.rows, factors);
    products.clear();
    for (Group g : groups.groups) {
      products.add(
          new ByExpert(
              g.expert,
              weights ->
                  Product.byWeights(
                      g.rows,
                      hidden,
                      intermediate,
                      inner + bf16(g.packed, intermediate),
                      weights,
                      out + bf16(g.at, hidden))));
    }
    w2.multiplyAll(queue, scratch, products);
  }

  /** The results of SwiGLU of packed factors, BF16 [rows, I]. */
  private long swiglu(WorkQueue queue, DeviceScratch scratch, long rows, long factors) {
    long inner = scratch.take(bf16(rows, intermediate));
    queue.launch(
        MoeKernel.SWIGLU,
        MoeKernel.SWIGLU.blocksOfThreads(rows * intermediate / MoeKernel.VECTOR),
        0,
        factors,
        rows,
        intermediate,
        inner);
    return inner;
  }

  /**
   * Whether results of rows of FP8 can be computed without weights in BF16. The starts of groups
   * are then multiples of {@link Fp8Product#ROWS}, and rows between groups are not of interest.
   */
  boolean multipliesFp8(WorkQueue queue) {
    return both instanceof Fp8Weights ofBoth
        && w2 instanceof Fp8Weights of2
        && ofBoth.multipliesFp8(queue)
        && of2.multipliesFp8(queue);
  }

  /**
   * Results of rows of FP8. The result of SwiGLU is quantised, too.
   *
   * @param x FP8 [rows, H]: rows at {@link Group#at}
   * @param scales FP32 [rows, H / 128]
   * @param factors where to put the factors of SwiGLU, BF16 [rows, 2I]
   * @param out where to put the results, BF16 [rows, H]
   */
  void forwardFp8(
      WorkQueue queue,
      DeviceScratch scratch,
      Groups groups,
      long x,
      long scales,
      long factors,
      long out) {
    long starts = starts(queue, groups);
    multiplyFp8(queue, scratch, groups, starts, both, hidden, x, scales, 2 * intermediate, factors);
    long inner = swiglu(queue, scratch, groups.rows, factors);
    long blocks = groups.rows * intermediate / Fp8Weights.BLOCK;
    long quantised = scratch.take(groups.rows * intermediate);
    long ofInner = scratch.take(DType.FP32.bytes(blocks));
    DeviceRows.quantise(queue, inner, quantised, ofInner, blocks);
    multiplyFp8(queue, scratch, groups, starts, w2, intermediate, quantised, ofInner, hidden, out);
  }

  /** Table of the first rows of groups, and the end of the last one. */
  private static long starts(WorkQueue queue, Groups groups) {
    var starts = new long[groups.groups.size() + 1];
    for (int g = 0; g < groups.groups.size(); g++) {
      Group group = groups.groups.get(g);
      starts[g] = group.at;
      starts[g + 1] = group.at + padded(group);
    }
    return queue.table(starts);
  }

  /** Rows with those up to the next group. */
  private static int padded(Group group) {
    return (group.rows + Fp8Product.ROWS - 1) / Fp8Product.ROWS * Fp8Product.ROWS;
  }

  private static void multiplyFp8(
      WorkQueue queue,
      DeviceScratch scratch,
      Groups groups,
      long starts,
      WeightMatrices weights,
      int terms,
      long x,
      long scales,
      int columns,
      long out) {
    int blocks = terms / Fp8Weights.BLOCK;
    long ofGroups = scratch.take(DType.FP32.bytes(groups.rows * blocks));
    queue.launch(
        MoeKernel.SCALES_OF_GROUPS,
        MoeKernel.blocksOfGroups(groups.groups.size()),
        0,
        scales,
        starts,
        groups.groups.size(),
        blocks,
        ofGroups);
    for (Group g : groups.groups) {
      ((Fp8Weights) weights)
          .multiplyFp8(
              queue,
              g.expert,
              padded(g),
              x + g.at * terms,
              ofGroups + DType.FP32.bytes(g.at * blocks),
              out + bf16(g.at, columns));
    }
  }

  /**
   * Results of few rows, whose numbers the host does not know: {@code places} rows at most for each
   * expert.
   *
   * @param x [E, places, H]: each expert has the first rows of its places
   * @param counts INT32 [E], on the GPU
   * @param out [E, places, H], where to put the results
   */
  void decode(WorkQueue queue, DeviceScratch scratch, long x, long counts, long places, long out) {
    long factors = scratch.take(factorBytes(experts * places));
    long inner = scratch.take(bf16(experts * places, intermediate));
    both.multiplyFew(queue, x, counts, places, factors);
    queue.launch(
        MoeKernel.SWIGLU_GROUPS,
        MoeKernel.blocksOfGroups(experts),
        0,
        factors,
        counts,
        places,
        experts,
        intermediate,
        inner);
    w2.multiplyFew(queue, inner, counts, places, out);
  }

  /** Memory for gradients, until the device is closed. */
  Gradients allocateGradients() {
    var gradients = new Gradients();
    long half = DType.FP32.bytes((long) intermediate * hidden);
    for (int e = 0; e < experts; e++) {
      var of = new Gradients.Addresses(device.allocate(2 * half), device.allocate(half));
      gradients.experts.add(of);
      gradients.tensors.add(
          new ExpertWeights(
              fp32(of.both, intermediate, hidden),
              fp32(of.both + half, intermediate, hidden),
              fp32(of.w2, hidden, intermediate)));
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
   * @param factors of the forward pass; replaced by their gradients
   * @param grad gradients of the results before their weights, rows at {@link Group#at}
   * @param weights FP32 [rows], packed; 0: rows have no weights
   * @param dots where to put the gradients of the weights; 0 if there are none
   */
  void backward(
      WorkQueue queue,
      DeviceScratch scratch,
      Groups groups,
      long x,
      long factors,
      long grad,
      long weights,
      long dots,
      Gradients gradients) {
    long inner = scratch.take(bf16(groups.rows, intermediate));
    List<ByExpert> products = new ArrayList<>();
    for (Group g : groups.groups) {
      products.add(
          new ByExpert(
              g.expert,
              of2 ->
                  Product.back(
                      g.rows,
                      intermediate,
                      hidden,
                      grad + bf16(g.at, hidden),
                      of2,
                      inner + bf16(g.packed, intermediate))));
    }
    w2.multiplyAll(queue, scratch, products);
    // From here on, the gradient of SwiGLU's result is that result times the weights.
    queue.launch(
        MoeKernel.SWIGLU_BACKWARD,
        MoeKernel.SWIGLU_BACKWARD.blocksOfWarps(groups.rows),
        0,
        factors,
        inner,
        weights,
        groups.rows,
        intermediate,
        dots);
    var has = new boolean[experts];
    for (Group g : groups.groups) {
      has[g.expert] = true;
      Gradients.Addresses of = gradients.experts.get(g.expert);
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
              factors + factorBytes(g.packed),
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
   * From gradients of the factors to those of rows.
   *
   * @param factors gradients of the factors, packed
   * @param gradOfX BF16 [any, H], where to put the gradients: rows at {@link Group#at}
   */
  void toRows(WorkQueue queue, DeviceScratch scratch, Groups groups, long factors, long gradOfX) {
    List<ByExpert> products = new ArrayList<>();
    for (Group g : groups.groups) {
      long of = gradOfX + bf16(g.at, hidden);
      products.add(new ByExpert(g.expert, weights -> toRows(g, factors, weights, of)));
    }
    both.multiplyAll(queue, scratch, products);
  }

  /** The same, added to FP32 gradients of rows. */
  void addToRows(
      WorkQueue queue, DeviceScratch scratch, Groups groups, long factors, long gradOfX) {
    for (Group g : groups.groups) {
      long of = gradOfX + DType.FP32.bytes(g.at * hidden);
      both.multiply(
          queue,
          scratch,
          new ByExpert(g.expert, weights -> toRows(g, factors, weights, of).inFp32(true)));
    }
  }

  private Product toRows(Group g, long factors, long weights, long gradOfX) {
    long from = factors + factorBytes(g.packed);
    return Product.back(g.rows, hidden, 2 * intermediate, from, weights, gradOfX);
  }
}
