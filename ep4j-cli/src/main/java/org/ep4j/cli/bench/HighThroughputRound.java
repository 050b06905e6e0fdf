package org.ep4j.cli.bench;

import java.util.function.Consumer;
import org.ep4j.Combine;
import org.ep4j.CombineOptions;
import org.ep4j.Dispatch;
import org.ep4j.DispatchOptions;
import org.ep4j.ExpertBuffer;
import org.ep4j.config.Layout;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.ep4j.verify.CombineOracle;
import org.ep4j.verify.HighThroughputOracle;
import org.ep4j.verify.Inputs;

/**
 * A dispatch of high throughput, the rows of the experts, and their combine, with tensors of the
 * host.
 *
 * @param context the ranks
 * @param buffer the buffer
 * @param payload format of the rows
 * @param dispatching options of the dispatch
 * @param combining options of the combine
 */
record HighThroughputRound(
    RankContext context,
    ExpertBuffer buffer,
    Payload payload,
    DispatchOptions dispatching,
    CombineOptions combining) {
  /** Compares every byte of both results with the oracle; collective. */
  void verify(InputSet input) {
    run(input, true, _ -> {});
  }

  /**
   * Runs the round; collective.
   *
   * @param checked whether the oracle checks both results
   * @param results receives the tensors whose bytes the input determines
   */
  void run(InputSet input, boolean checked, Consumer<Tensor> results) {
    BenchSettings settings = context.settings();
    Dispatch dispatch =
        buffer.dispatch(settings.layout(), input.tokens(), input.routing(), dispatching);
    if (checked) {
      context.verify(() -> checkDispatch(input, dispatch));
    }
    // Rows behind the handle's rows, and padding that no caller asked for, are undefined.
    boolean defined = settings.layout() == Layout.FLAT || dispatching.zeroPadding();
    results.accept(dispatch.x().rows(0, defined ? used(dispatch.x(), dispatch) : 0));
    results.accept(dispatch.counts());
    Tensor rows = dispatch.combineInput(payload.sums());
    input
        .inputs()
        .fill(
            rows.rows(0, used(rows, dispatch)), Inputs.Part.EXPERT_OUTPUT, context.group().rank());
    Combine combine = buffer.combine(rows, dispatch.handle(), combining);
    if (checked) {
      context.verify(() -> checkCombine(input, combine));
    }
    results.accept(combine.x());
    dispatch.handle().close();
  }

  private static long used(Tensor rows, Dispatch dispatch) {
    return Math.min(rows.size(0), dispatch.handle().rows());
  }

  private void checkDispatch(InputSet input, Dispatch dispatch) {
    BenchSettings settings = context.settings();
    new HighThroughputOracle(input.world(), settings.nodes().ranksPerNode())
        .checkDispatch(
            context.group().rank(),
            settings.layout(),
            dispatch,
            input.expected(payload, settings.hidden()),
            dispatching);
  }

  private void checkCombine(InputSet input, Combine combine) {
    BenchSettings settings = context.settings();
    DType dtype = payload.sums();
    CombineOracle.Terms terms =
        new CombineOracle.Terms(
            dtype,
            settings.hidden(),
            input.inputs().rows(Inputs.Part.EXPERT_OUTPUT, dtype, settings.hidden()),
            true,
            settings.applyWeights(),
            settings.order(),
            null,
            null,
            null);
    new CombineOracle(
            input.world(),
            settings.layout(),
            dispatching.expertAlignment(),
            settings.nodes().ranksPerNode())
        .checkCombine(context.group().rank(), combine, terms);
  }
}
