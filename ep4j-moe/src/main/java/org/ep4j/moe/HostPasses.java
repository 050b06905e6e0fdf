package org.ep4j.moe;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.ep4j.CombineOptions;
import org.ep4j.CombineOrder;
import org.ep4j.DispatchHandle;
import org.ep4j.ExpertBuffer;
import org.ep4j.ExpertRows;
import org.ep4j.GroupedDispatch;
import org.ep4j.LowLatencyCombineOptions;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.Tokens;
import org.ep4j.routing.ReplicatedPlacement;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.FloatConversions;
import org.ep4j.tensor.Tensor;

/**
 * Passes of a layer on the host, in FP32.
 *
 * <p>A token's result has the same bits on any number of ranks, with any placement of experts and
 * any other tokens in the batch: products add in a fixed order, and combines in the order of
 * experts. Gradients of experts depend on the order of tokens over all ranks, and on nothing else.
 */
final class HostPasses implements Passes {
  private static final CombineOptions BY_EXPERTS =
      CombineOptions.builder().order(CombineOrder.EXPERT).build();

  private static final LowLatencyCombineOptions RETURN =
      LowLatencyCombineOptions.builder().order(CombineOrder.EXPERT).zeroCopy(true).build();

  private final ExpertBuffer buffer;
  private final MoeShape shape;

  /** Where experts and their replicas are. */
  private final ReplicatedPlacement placement;

  private final RowTypes types;
  private final HostRows rows;
  private final LowLatencyDispatchOptions send;
  private final Router router;
  private final List<Expert> experts = new ArrayList<>();
  private final Optional<Expert> shared;
  private LayerTimes times = LayerTimes.NONE;

  /**
   * What a pass keeps.
   *
   * @param experts of this rank, those that have rows
   */
  @SuppressWarnings("ArrayRecordComponent") // not compared
  private record Kept(
      Matrix x,
      Router.Choices choices,
      DispatchHandle handle,
      float[] rowWeights,
      List<OfExpert> experts,
      List<OfExpert> shared)
      implements ForwardPass.Kept {
    @Override
    public void close() {
      handle.close();
    }
  }

  /**
   * Rows of an expert.
   *
   * @param rows among the received ones
   * @param out results of the rows
   */
  private record OfExpert(ExpertRows rows, Expert.Activations activations, Matrix out) {}

  HostPasses(
      ExpertBuffer buffer,
      MoeShape shape,
      ReplicatedPlacement placement,
      MoeWeights weights,
      RowTypes types) {
    this.buffer = buffer;
    this.shape = shape;
    this.placement = placement;
    this.types = types;
    rows = new HostRows(types);
    send = LowLatencyDispatchOptions.builder().format(rows.lowLatencyFormat()).build();
    router = new Router(shape.router(), weights.router(), weights.bias(), shape.hidden());
    for (ExpertWeights expert : weights.experts()) {
      experts.add(
          new Expert(
              "experts[" + experts.size() + "]", expert, shape.hidden(), shape.intermediate()));
    }
    shared =
        weights
            .shared()
            .map(w -> new Expert("shared", w, shape.hidden(), shape.sharedIntermediate()));
  }

  @Override
  public Tensor forward(Tensor x) {
    try (ForwardPass pass = forward(x, false)) {
      return pass.y();
    }
  }

  @Override
  public Tensor decode(Tensor x) {
    var clock = new Clock();
    Matrix tokens = Expert.matrix("x", x, Math.toIntExact(x.size(0)), shape.hidden());
    Routing routing = routing(router.choose(tokens));
    long route = clock.lap();
    Tensor sent = Tensor.fromFloats(tokens.values(), DType.BF16, tokens.rows(), shape.hidden());
    LowLatencyDispatch received = buffer.lowLatencyDispatch(sent, routing, send);
    long dispatch = clock.lap();
    Tensor results = buffer.lowLatencyCombineBuffer(received.handle());
    for (ExpertRows own : received.expertRows()) {
      write(pass(own, rows.received(own, received)).out(), own.of(results));
    }
    long ofExperts = clock.lap();
    Optional<Matrix> ofShared = passOfShared(tokens).map(OfExpert::out);
    long sharedExpert = clock.lap();
    Tensor sums = buffer.lowLatencyCombine(results, routing, received.handle(), RETURN).x();
    float[] y = sums.toFloatArray();
    ofShared.ifPresent(added -> add(added.values(), y));
    times = new LayerTimes(route, dispatch, ofExperts, sharedExpert, clock.lap());
    return Tensor.of(y, tokens.rows(), shape.hidden());
  }

  /** Each replay is a call, and so is the capture: what refuses a replay refuses it. */
  @Override
  public DecodeStep captureDecode(Tensor x, Tensor y) {
    Expert.matrix("y", y, Math.toIntExact(x.size(0)), shape.hidden());
    var step =
        new DecodeStep() {
          @Override
          public void replay() {
            y.copyFrom(decode(x).toFloatArray());
          }

          @Override
          public void close() {
            // Nothing was recorded.
          }
        };
    step.replay();
    return step;
  }

  private static void add(float[] values, float[] sums) {
    for (int i = 0; i < sums.length; i++) {
      sums[i] += values[i];
    }
  }

  /** To the replicas that this rank uses. */
  private Routing routing(Router.Choices choices) {
    return placement.physicalRouting(choices.routing(), buffer.rank());
  }

  @Override
  public ForwardPass forwardForTraining(Tensor x) {
    return forward(x, true);
  }

  @Override
  public LayerTimes times() {
    return times;
  }

  /** Durations between calls. */
  private static final class Clock {
    private long last = System.nanoTime();

    long lap() {
      long now = System.nanoTime();
      long lap = now - last;
      last = now;
      return lap;
    }
  }

  private ForwardPass forward(Tensor x, boolean keeps) {
    var clock = new Clock();
    Matrix tokens = Expert.matrix("x", x, Math.toIntExact(x.size(0)), shape.hidden());
    Router.Choices choices = router.choose(tokens);
    long route = clock.lap();
    GroupedDispatch received = buffer.dispatchGrouped(rows.sent(tokens), routing(choices));
    long dispatch = clock.lap();
    DispatchHandle handle = received.handle();
    try {
      Tensor results = received.combineInput(types.results());
      float[] rowWeights = received.rowWeights().toFloatArray();
      List<OfExpert> passes = new ArrayList<>();
      // Results may take the place of narrower received rows, and reach behind their own group.
      for (ExpertRows own : received.expertRows().reversed()) {
        OfExpert pass = pass(own, rows.received(own, received));
        write(pass.out(), own.of(results));
        if (keeps) {
          passes.add(pass);
        }
      }
      long ofExperts = clock.lap();
      List<OfExpert> ofShared = passOfShared(tokens).stream().toList();
      long sharedExpert = clock.lap();
      CombineOptions.Builder options = BY_EXPERTS.toBuilder().applyWeights(true);
      ofShared.forEach(pass -> options.bias(rows.unquantised(pass.out())));
      Tensor sums = buffer.combine(results, handle, options.build()).x();
      Tensor y = Tensor.of(sums.toFloatArray(), tokens.rows(), shape.hidden());
      times = new LayerTimes(route, dispatch, ofExperts, sharedExpert, clock.lap());
      return new ForwardPass(
          this, y, new Kept(tokens, choices, handle, rowWeights, passes, ofShared));
    } catch (RuntimeException e) {
      handle.close();
      throw e;
    }
  }

  private OfExpert pass(ExpertRows own, Matrix group) {
    return pass(experts.get(own.local()), own, group);
  }

  private Optional<OfExpert> passOfShared(Matrix tokens) {
    return shared.map(expert -> pass(expert, new ExpertRows(0, 0, tokens.rows()), tokens));
  }

  private static OfExpert pass(Expert expert, ExpertRows rows, Matrix group) {
    Expert.Activations activations = expert.activate(group);
    Matrix out = Matrix.zeros(group.rows(), group.columns());
    expert.forward(activations, out);
    return new OfExpert(rows, activations, out);
  }

  @Override
  public MoeGradients backward(ForwardPass forward, Tensor gradOfY) {
    Kept pass = forward.kept(this, Kept.class);
    try (forward) {
      Matrix tokens = pass.x;
      Matrix grad = Expert.matrix("gradOfY", gradOfY, tokens.rows(), shape.hidden());
      GroupedDispatch received =
          buffer.dispatchGrouped(Tokens.of(rows.unquantised(grad)), pass.handle);
      Tensor results = received.combineInput(types.results());
      var gradOfRowWeights = new float[Math.toIntExact(received.rows())];
      Map<Integer, ExpertWeights> ofExperts = new HashMap<>();
      for (OfExpert expert : pass.experts) {
        ExpertRows own = expert.rows();
        int first = Math.toIntExact(own.first());
        Matrix group = rows.received(own, received);
        for (int row = 0; row < group.rows(); row++) {
          gradOfRowWeights[first + row] = dot(expert.out(), group, row);
          // The weight of a row: combine multiplied its result by it.
          scale(group, row, pass.rowWeights[first + row]);
        }
        Matrix gradOfX = Matrix.zeros(group.rows(), shape.hidden());
        ofExperts.put(
            own.local(), experts.get(own.local()).backward(expert.activations(), group, gradOfX));
        write(gradOfX, own.of(results));
      }
      CombineOptions withWeights =
          BY_EXPERTS.toBuilder()
              .topkWeights(Tensor.of(gradOfRowWeights, gradOfRowWeights.length))
              .build();
      var back = buffer.combine(results, pass.handle, withWeights);
      Matrix gradOfX = Matrix.of(back.x().toFloatArray(), tokens.rows(), shape.hidden());
      Tensor ofRouter =
          router.backward(tokens, pass.choices, back.topkWeights().toFloatArray(), gradOfX);
      Optional<ExpertWeights> ofShared =
          pass.shared.stream()
              .map(s -> shared.orElseThrow().backward(s.activations(), grad, gradOfX))
              .findFirst();
      List<ExpertWeights> inOrder = new ArrayList<>();
      for (int local = 0; local < experts.size(); local++) {
        inOrder.add(ofExperts.computeIfAbsent(local, l -> experts.get(l).zeroGradients()));
      }
      return new MoeGradients(Expert.tensor(gradOfX), ofRouter, inOrder, ofShared);
    }
  }

  private static void write(Matrix matrix, Tensor target) {
    FloatConversions.fromFloats(matrix.values(), target.dtype(), target.segment());
  }

  private static float dot(Matrix left, Matrix right, int row) {
    float sum = 0;
    for (int i = row * left.columns(); i < (row + 1) * left.columns(); i++) {
      sum = Math.fma(left.values()[i], right.values()[i], sum);
    }
    return sum;
  }

  private static void scale(Matrix matrix, int row, float factor) {
    for (int i = row * matrix.columns(); i < (row + 1) * matrix.columns(); i++) {
      matrix.values()[i] *= factor;
    }
  }

  @Override
  public void close() {
    // All memory is of the heap.
  }
}
