package org.ep4j.moe;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import org.ep4j.ExpertBuffer;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.EngineName;
import org.ep4j.config.LowLatencyConfig;
import org.ep4j.group.Group;
import org.ep4j.group.ThreadRanks;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.ReplicatedPlacement;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;

/** The passes of a case: on a device, and on the host in FP32 as their truth. */
final class LayerPasses {
  /** Most tokens of a call of decode. */
  static final int DECODED = 64;

  private LayerPasses() {}

  /** The passes of one rank. Repeated ones have the same bits. */
  static LayerResults onDevice(Group group, LayerCase of, TestDevice.Kind kind) {
    int hidden = of.shape().hidden();
    float[] x = of.share(of.x(), group.rank());
    float[] grad = of.share(of.grad(), group.rank());
    BufferConfig config =
        kind.config(of, of.tokens()).lowLatency(LowLatencyConfig.of(DECODED)).build();
    try (ExpertBuffer buffer = ExpertBuffer.open(group, config);
        TestDevice device = kind.open(buffer, of)) {
      Tensor tokens = device.upload(x, DType.BF16, hidden);
      List<Tensor> parts = parts(of, x, device);
      List<Tensor> grads =
          List.of(device.upload(grad, DType.BF16, hidden), device.upload(grad, DType.FP32, hidden));
      // Memory of steps, whose tokens are those of the first call of decode.
      float[] first = Arrays.copyOf(x, Math.min(x.length, DECODED * hidden));
      Tensor stepX = device.upload(first, DType.BF16, hidden);
      Tensor stepY = device.upload(first, DType.BF16, hidden);
      // No rank allocates or loads anything while a kernel of another one waits for it.
      buffer.barrier();
      MoeLayer layer = device.layer();
      float[] forward = device.values(layer.forward(tokens));
      float[] decoded = new float[x.length];
      int at = 0;
      for (Tensor part : parts) {
        float[] results = device.values(layer.decode(part));
        System.arraycopy(results, 0, decoded, at, results.length);
        at += results.length;
      }
      assertThat(at).isEqualTo(x.length);
      // This rank has tokens in each case.
      boolean bad = group.rank() == of.ranks() / 2;
      ReplayChecks.run(device, stepX, first, stepY, bad);
      LayerResults results = null;
      for (Tensor one : grads) {
        ForwardPass pass = layer.forwardForTraining(tokens);
        assertThat(device.values(pass.y())).isEqualTo(forward);
        // Passes in between do not disturb a pass.
        assertThat(device.values(layer.forward(tokens))).isEqualTo(forward);
        MoeGradients gradients = layer.backward(pass, one);
        if (results == null) {
          results = LayerResults.of(forward, decoded, gradients, device::values);
        } else {
          // The BF16 gradients of the result in FP32.
          assertThat(device.values(gradients.x())).isEqualTo(results.gradOfX());
          assertThat(device.values(gradients.router())).isEqualTo(results.gradOfRouter());
        }
      }
      LayerTimes times = layer.times();
      assertThat(List.of(times.route(), times.dispatch(), times.experts(), times.combine()))
          .allMatch(nanos -> nanos >= 0);
      return Objects.requireNonNull(results);
    }
  }

  /** Tokens of the calls of decode: all ranks make as many calls, some without tokens. */
  private static List<Tensor> parts(LayerCase of, float[] x, TestDevice device) {
    int hidden = of.shape().hidden();
    List<Tensor> parts = new ArrayList<>();
    for (int from = 0; from < of.tokens(); from += DECODED) {
      int begin = Math.min(x.length, from * hidden);
      int end = Math.min(x.length, (from + DECODED) * hidden);
      parts.add(device.upload(Arrays.copyOfRange(x, begin, end), DType.BF16, hidden));
    }
    return parts;
  }

  /** The passes on the host in FP32 but for tokens of FP8, on one rank without replicas. */
  static LayerResults onHost(LayerCase of) {
    MoeShape shape = of.shape();
    int hidden = shape.hidden();
    var once = ReplicatedPlacement.of(ExpertPlacement.blocks(of.experts(), 1));
    BufferConfig config = MoeLayer.bufferConfig(EngineName.HOST, shape, once, of.tokens()).build();
    return ThreadRanks.call(
            1,
            group -> {
              try (ExpertBuffer buffer = ExpertBuffer.open(group, config);
                  MoeLayer layer =
                      new MoeLayer(
                          buffer,
                          shape,
                          once,
                          of.layer().weights(once, 0),
                          of.fp8() ? DType.FP8_E4M3 : DType.FP32)) {
                ForwardPass pass = layer.forwardForTraining(Tensor.of(of.x(), of.tokens(), hidden));
                float[] y = pass.y().toFloatArray();
                MoeGradients gradients =
                    layer.backward(pass, Tensor.of(of.grad(), of.tokens(), hidden));
                return LayerResults.of(y, y, gradients, Tensor::toFloatArray);
              }
            })
        .getFirst();
  }
}
