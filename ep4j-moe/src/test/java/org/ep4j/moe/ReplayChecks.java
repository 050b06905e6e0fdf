package org.ep4j.moe;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.Arrays;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.tensor.Tensor;

/** Replays of a decode step, on all ranks alike. */
final class ReplayChecks {
  private static final int REPLAYS = 3;

  private ReplayChecks() {}

  /**
   * Replays have the bits of calls, for other tokens each time.
   *
   * @param x memory of the tokens, with {@code values}
   * @param y memory of the results
   * @param bad whether a token of this rank has an infinite element once
   */
  static void run(TestDevice device, Tensor x, float[] values, Tensor y, boolean bad) {
    MoeLayer layer = device.layer();
    if (values.length > 0) {
      long rows = x.size(0) - 1;
      Tensor less = Tensor.ofDevice(y.address(), y.device(), y.dtype(), rows, x.size(1));
      assertThatThrownBy(() -> layer.captureDecode(x, less))
          .isInstanceOf(InvalidArgumentException.class)
          .hasMessageContaining(ErrorCode.MOE_SHAPE.id());
    }
    try (DecodeStep step = layer.captureDecode(x, y)) {
      float[] last = new float[0];
      float[] tokens = values;
      for (int i = 0; i < REPLAYS; i++) {
        tokens = changed(values, i);
        device.write(x, tokens);
        last = device.values(layer.decode(x));
        device.write(y, new float[values.length]);
        step.replay();
        assertThat(device.values(y)).as("replay " + i).isEqualTo(last);
      }
      step.replay();
      assertThat(device.values(y)).as("the same tokens again").isEqualTo(last);
      if (bad) {
        float[] infinite = tokens.clone();
        infinite[7] = Float.POSITIVE_INFINITY;
        device.write(x, infinite);
        assertThatThrownBy(step::replay)
            .isInstanceOf(InvalidArgumentException.class)
            .hasMessageContaining(ErrorCode.MOE_SCORES.id())
            .hasMessageContaining("logit of token 0 for expert 0");
        int hidden = (int) x.size(1);
        assertThat(rowsFrom(1, hidden, device.values(y)))
            .as("the other tokens")
            .isEqualTo(rowsFrom(1, hidden, last));
        device.write(x, tokens);
      } else {
        step.replay();
        assertThat(device.values(y)).as("beside a bad token of another rank").isEqualTo(last);
      }
      step.replay();
      assertThat(device.values(y)).as("after a bad token").isEqualTo(last);
      assertThat(device.values(layer.decode(x))).isEqualTo(last);
    }
  }

  private static float[] rowsFrom(int row, int hidden, float[] values) {
    return Arrays.copyOfRange(values, row * hidden, values.length);
  }

  /** Other tokens with other choices. */
  private static float[] changed(float[] values, int number) {
    var changed = new float[values.length];
    for (int i = 0; i < values.length; i++) {
      changed[i] = values[(i + 13 * number) % values.length] * (number % 2 == 0 ? 1 : -1);
    }
    return changed;
  }
}
