package org.ep4j.moe;

import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.file.Path;
import java.util.stream.Stream;
import org.ep4j.ExpertBuffer;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.group.Group;
import org.ep4j.group.ThreadRanks;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.ReplicatedPlacement;
import org.ep4j.tensor.DType;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;
import org.junit.jupiter.api.io.TempDir;

/**
 * A layer as on GPUs, without a GPU: its kernels in the emulator, its products in {@link
 * HostCublas}, its operations by the host engine behind {@link DeviceTensors}.
 */
class MoeLayerOnTheHostTest extends MoeLayerKit {
  @TempDir static Path directory;

  @BeforeAll
  static void requireCublas() throws IOException, InterruptedException {
    HostCublas.require();
  }

  @Override
  Stream<LayerCase> cases() {
    return Stream.of(
        new LayerCase("mixtral", 1, false, 23),
        new LayerCase("mixtral", 2, true, 23),
        new LayerCase("deepseek", 2, false, 23),
        new LayerCase("qwen", 2, false, 23),
        new LayerCase("deepseek", 1, true, 23),
        new LayerCase("deepseek", 3, false, 23),
        new LayerCase("mixtral", 3, false, 1),
        new LayerCase("sent", 1, false, 9).inFp8(),
        new LayerCase("deepseek", 3, true, 23).inFp8(),
        new LayerCase("weights", 2, false, 9).inFp8(),
        new LayerCase("products", 1, false, 6).inFp8(),
        new LayerCase("parts", 1, false, 23));
  }

  @Override
  TestDevice.Kind device() {
    return new EmulatedLayer.Opener();
  }

  /** As of ranks that share a GPU. */
  @Test
  @EnabledIfSystemProperty(named = "ep4j.full", matches = "true")
  void ranksAreProcesses() {
    LayerCase of = new LayerCase("deepseek", 2, true, 5);
    compare(of, LayerJob.run(of, EmulatedLayer.Opener.class, directory));
  }

  @Test
  void sizesWithoutWholeVectorsAreRefused() {
    var layer = new RandomLayer(new MoeShape(128, 20, 0, RouterConfig.softmax(8, 2)), 13);
    var once = ReplicatedPlacement.of(ExpertPlacement.blocks(8, 1));
    ThreadRanks.run(1, group -> sizesAreRefused(group, layer, once));
  }

  private static void sizesAreRefused(Group group, RandomLayer layer, ReplicatedPlacement once) {
    try (ExpertBuffer buffer =
        ExpertBuffer.open(group, EmulatedLayer.config(layer.shape(), once, 23).build())) {
      assertThatThrownBy(() -> EmulatedLayer.open(buffer, layer, once, DType.BF16))
          .isInstanceOf(InvalidArgumentException.class)
          .hasMessageContaining("intermediate")
          .hasMessageContaining("a multiple of 8 on GPUs");
    }
  }
}
