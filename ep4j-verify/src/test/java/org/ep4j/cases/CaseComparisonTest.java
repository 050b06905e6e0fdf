package org.ep4j.cases;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.foreign.MemorySegment;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.ep4j.io.SafetensorsWriter;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.ep4j.verify.Mismatch;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class CaseComparisonTest {
  @TempDir Path folder;

  /** Low latency: two local experts with room for two rows of 128. */
  private static Map<String, Tensor> outputs(int ranks, int rowsPerExpert) {
    Map<String, Tensor> outputs = new LinkedHashMap<>();
    outputs.put("recv_x", Tensor.ofBf16(new short[2 * 2 * 128], 2, 2, 128));
    long[] ranges = new long[2 * ranks];
    ranges[2 * ranks - 1] = 2;
    outputs.put("layout_range", Tensor.of(ranges, 2, ranks));
    outputs.put("src_info", Tensor.of(new int[2 * rowsPerExpert], 2, rowsPerExpert));
    return outputs;
  }

  private CaseComparison compare(Map<String, Tensor> recorded, Map<String, Tensor> actual) {
    Map<String, Tensor> tensors = new LinkedHashMap<>(recorded);
    tensors.put("x", Tensor.ofBf16(new short[128], 1, 128));
    tensors.put("topk_idx", Tensor.of(new long[] {0}, 1, 1));
    Path path = folder.resolve("rank0.safetensors");
    SafetensorsWriter.write(path, Map.of("kind", "ll", "experts", "2"), tensors);
    try (CaseFile file = CaseFile.read(path, Map.of())) {
      return CaseComparison.of(0, file, actual);
    }
  }

  @Test
  void recordedExponentsMayBeBytesOrWords() {
    byte[] exponents = new byte[2 * 2 * 4];
    for (int i = 0; i < exponents.length; i++) {
      exponents[i] = (byte) (100 + i % 4);
    }
    Map<String, Tensor> recorded = outputs(1, 2);
    recorded.put(
        "recv_x_scales", Tensor.of(MemorySegment.ofArray(exponents), DType.UE8M0, 2, 2, 4));
    Map<String, Tensor> actual = outputs(1, 2);
    byte[] words = exponents.clone();
    actual.put("recv_x_scales", Tensor.of(MemorySegment.ofArray(words), DType.INT32, 2, 2, 1));
    assertThat(compare(recorded, actual).wrong()).isEmpty();
    words[8]++;
    assertThat(compare(recorded, actual).wrong())
        .extracting(Mismatch::output)
        .containsExactly("recv_x_scales");
  }

  @Test
  void recordedSlotsOfAnotherShapeAreAMismatch() {
    assertThat(compare(outputs(1, 2), outputs(1, 2)).passed()).isTrue();
    for (Map<String, Tensor> other : List.of(outputs(2, 2), outputs(1, 4))) {
      assertThat(compare(other, outputs(1, 2)).wrong())
          .extracting(Mismatch::output)
          .contains("recv_x");
    }
  }
}
