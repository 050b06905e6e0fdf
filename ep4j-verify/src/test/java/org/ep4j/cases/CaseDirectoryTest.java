package org.ep4j.cases;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import org.ep4j.config.BufferConfig;
import org.ep4j.error.ErrorCode;
import org.ep4j.io.SafetensorsException;
import org.ep4j.io.SafetensorsWriter;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.RowFormat;
import org.ep4j.tensor.ScaleKind;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class CaseDirectoryTest {
  @TempDir Path folder;

  private final Map<String, String> metadata = new HashMap<>(Map.of("kind", "ht", "experts", "8"));
  private final Map<String, Tensor> tensors = new LinkedHashMap<>();

  @BeforeEach
  void threeTokens() {
    tensors.put("x", Tensor.ofBf16(new short[3 * 128], 3, 128));
    tensors.put("topk_idx", Tensor.of(new long[] {0, 1, 0, 1, 0, 1}, 3, 2));
  }

  private void write(int rank) {
    SafetensorsWriter.write(folder.resolve("rank" + rank + ".safetensors"), metadata, tensors);
  }

  @Test
  void missingMetadataIsReadFromTheTensors() {
    write(0);
    write(1);
    CaseDirectory directory = CaseDirectory.open(folder);
    BufferConfig config = directory.config().build();
    assertThat(directory.ranks()).isEqualTo(2);
    assertThat(config.hidden()).isEqualTo(128);
    assertThat(config.topK()).isEqualTo(2);
    assertThat(config.experts()).isEqualTo(8);
    assertThat(config.highThroughput().orElseThrow().maxTokens()).isEqualTo(3);
    try (CaseFile file = directory.read(1)) {
      assertThat(file.tensor("x").shape()).containsExactly(3, 128);
      assertThatThrownBy(() -> file.tensor("expert_out"))
          .isInstanceOf(SafetensorsException.class)
          .hasMessageStartingWith(ErrorCode.CASE_INCOMPLETE.id())
          .hasMessageContaining("rank1.safetensors: tensor 'expert_out'");
    }
  }

  @ParameterizedTest
  @CsvSource({
    "use_fp8, True, FP8, FLOAT32",
    "use_fp8, 1, FP8, FLOAT32",
    "fp8, true, FP8, FLOAT32",
    "use_fp8, False, BF16, FLOAT32",
    "round_scale, True, BF16, FLOAT32_POW2",
    "use_ue8m0, yes, BF16, UE8M0",
    "use_nvfp4, true, NVFP4, FLOAT32",
  })
  void flagsAreReadGenerously(String key, String value, RowFormat format, ScaleKind kind) {
    metadata.put("kind", "ll");
    metadata.put("max_tokens", "12");
    metadata.put(key, value);
    write(0);
    CaseMetadata read = CaseDirectory.open(folder).metadata();
    assertThat(read.lowLatency()).isTrue();
    assertThat(read.maxTokens()).isEqualTo(12);
    assertThat(read.format()).isEqualTo(format);
    assertThat(read.scaleKind()).isEqualTo(kind);
  }

  @ParameterizedTest
  @CsvSource({
    "experts, many, metadata experts is 'many'; it must be a natural number",
    "experts, -1, metadata experts is '-1'; it must be a natural number",
    "kind, training, metadata kind is 'training'; it must be 'ht' or 'll'",
    "hidden, 256, 'tensor ''x'': has rows of 128, metadata hidden is 256'",
    "topk, 3, 'tensor ''topk_idx'': has rows of 2, metadata topk is 3'",
    "ranks, 4, 'metadata ranks is 4, but the directory has 1 files'",
    "use_logfmt, maybe, metadata use_logfmt is 'maybe'; it must be true or false",
  })
  void badMetadataIsNamed(String key, String value, String problem) {
    metadata.put(key, value);
    write(0);
    assertThatThrownBy(() -> CaseDirectory.open(folder))
        .isInstanceOf(SafetensorsException.class)
        .hasMessageContaining("rank0.safetensors: ")
        .hasMessageContaining(problem);
  }

  @Test
  void valuesOfTheCallerCompleteTheFiles() {
    metadata.remove("experts");
    write(0);

    assertThat(CaseDirectory.open(folder, Map.of("experts", "8", "kind", "high_throughput")))
        .satisfies(directory -> assertThat(directory.metadata().experts()).isEqualTo(8));
  }

  @ParameterizedTest
  @CsvSource({
    "experts, 16, experts is 8 instead of 16",
    "num_experts, 16, 'experts is 8, but num_experts is 16'",
    "use_fp8, false, 'use_fp8 is false, but fp8 is true'",
    "kind, ll, kind is ht instead of ll",
  })
  void otherValuesOfTheCallerAreRefused(String key, String value, String problem) {
    metadata.put("fp8", "true");
    metadata.put("max_tokens", "12");
    write(0);

    assertThatThrownBy(() -> CaseDirectory.open(folder, Map.of(key, value)))
        .hasMessageStartingWith(ErrorCode.CASE_METADATA.id())
        .hasMessageContaining(problem);
  }

  @Test
  void aTensorAndAStringThatDifferAreRefused() {
    metadata.put("kind", "ll");
    metadata.put("max_tokens", "12");
    tensors.put("max_tokens", Tensor.of(new long[] {13}, 1));
    write(0);

    assertThatThrownBy(() -> CaseDirectory.open(folder))
        .hasMessageContaining("tensor max_tokens is 13, but the string or the option is 12");
  }

  @Test
  void filesThatContradictEachOtherAreRefused() {
    write(0);
    metadata.put("experts", "16");
    write(1);
    assertThatThrownBy(() -> CaseDirectory.open(folder))
        .hasMessageStartingWith(ErrorCode.CASE_INCONSISTENT.id())
        .hasMessageContaining("rank1.safetensors");
  }

  @Test
  void theFieldsThatDifferAreNamed() {
    write(0);
    tensors.put("x", Tensor.ofBf16(new short[3 * 256], 3, 256));
    tensors.put("topk_idx", Tensor.of(new long[] {0, 1, 2}, 3, 1));
    write(1);
    assertThatThrownBy(() -> CaseDirectory.open(folder))
        .hasMessageEndingWith(
            "rank1.safetensors: contradicts rank 0: topk is 1 instead of 2, hidden is 256 instead"
                + " of 128");
  }

  @ParameterizedTest
  @ValueSource(longs = {8, -2, 1L << 40})
  void idsOutOfRangeAreNamedWithFileAndToken(long id) {
    write(0);
    tensors.put("topk_idx", Tensor.of(new long[] {0, 1, 2, 3, -1, id}, 3, 2));
    write(1);
    assertThatThrownBy(() -> CaseDirectory.open(folder))
        .isInstanceOf(SafetensorsException.class)
        .hasMessageContaining("rank1.safetensors: tensor 'topk_idx': token 2 chooses expert " + id)
        .hasMessageContaining("0 to 7");
  }

  @Test
  void anExpertThatATokenNamesTwiceIsNamedAndNotTheRowsThatItMakes() {
    write(0);
    tensors.put("topk_idx", Tensor.of(new long[] {0, 1, -1, -1, 5, 5}, 3, 2));
    write(1);
    assertThatThrownBy(() -> CaseDirectory.open(folder))
        .isInstanceOf(SafetensorsException.class)
        .hasMessageContaining(
            "rank1.safetensors: tensor 'topk_idx': token 2 chooses expert 5 twice");
  }

  @Test
  void elementTypesAndShapesAreNamedWithTheFile() {
    tensors.put("topk_weights", Tensor.of(new float[3], 3, 1));
    assertRefused("tensor 'topk_weights': ");
    tensors.remove("topk_weights");
    tensors.put("x_scales", Tensor.of(new float[3], 3, 1));
    assertRefused("tensor 'x_scales': ");
    tensors.remove("x_scales");
    tensors.put("expert_out", Tensor.ofBf16(new short[2 * 64], 2, 64));
    assertRefused(
        "tensor 'expert_out': BF16[2, 64] is not BF16 or FP16 or FP32[received rows, 128]");
    tensors.put("expert_out", Tensor.ofBf16(new short[2 * 128], 2, 128));
    assertRefused("tensor 'expert_out': has 2 rows, but rank 0 receives 3");
    tensors.remove("expert_out");
    tensors.put("x", Tensor.of(new int[3 * 128], 3, 128));
    assertRefused("tensor 'x': ");
    tensors.put("x", Tensor.ofBf16(new short[3 * 4], 3, 4));
    write(0);
    assertThatThrownBy(() -> CaseDirectory.open(folder))
        .isInstanceOf(SafetensorsException.class)
        .hasMessageContaining(folder + ": hidden = 4");
  }

  private void assertRefused(String problem) {
    write(0);
    assertThatThrownBy(() -> CaseDirectory.open(folder))
        .isInstanceOf(SafetensorsException.class)
        .hasMessageContaining("rank0.safetensors: " + problem);
  }

  @Test
  void whatOnlyOneFileHoldsIsNamed() {
    write(0);
    tensors.put("topk_weights", Tensor.of(new float[6], 3, 2));
    write(1);
    assertThatThrownBy(() -> CaseDirectory.open(folder))
        .hasMessageContaining(
            "rank1.safetensors: tensor 'topk_weights': is FP32, but missing in the file of rank 0");
  }

  @Test
  void missingRanksAndMissingTensorsAreNamed() throws IOException {
    assertThatThrownBy(() -> CaseDirectory.open(folder))
        .hasMessageStartingWith(ErrorCode.NO_CASE.id());
    write(0);
    write(2);
    assertThatThrownBy(() -> CaseDirectory.open(folder))
        .hasMessageStartingWith(ErrorCode.CASE_INCOMPLETE.id())
        .hasMessageContaining("ranks [0, 2]");
    Files.delete(folder.resolve("rank2.safetensors"));
    tensors.remove("topk_idx");
    write(0);
    assertThatThrownBy(() -> CaseDirectory.open(folder))
        .hasMessageStartingWith(ErrorCode.TENSOR_NOT_FOUND.id())
        .hasMessageContaining("rank0.safetensors: tensor 'topk_idx'");
    tensors.put("topk_idx", Tensor.of(new long[4], 2, 2));
    write(0);
    assertThatThrownBy(() -> CaseDirectory.open(folder))
        .hasMessageContaining("tensor 'topk_idx': has 2 rows, x has 3");
  }

  @ParameterizedTest
  @CsvSource({
    "1099511627776, 0, 0, x",
    "2147483647, 0, 0, x",
    "0, 1099511627776, 2, x",
    "0, 0, 2, x",
    "0, 128, 1099511627776, topk_idx",
    "0, 128, 0, topk_idx",
    "0, 128, 65, topk_idx",
  })
  void shapesThatNoCaseHasAreRefusedBeforeRowsAreCounted(
      long rows, long hidden, long topK, String name) {
    tensors.put("x", Tensor.of(new byte[0], DType.BF16, rows, hidden));
    tensors.put("topk_idx", Tensor.of(new byte[0], DType.INT64, rows, topK));
    assertInconsistent("tensor '" + name + "': ");
  }

  @ParameterizedTest
  @ValueSource(strings = {"2147483647", "0"})
  void numbersOfExpertsThatNoCaseHasAreRefused(String experts) {
    metadata.put("experts", experts);
    assertInconsistent("metadata experts is " + experts);
  }

  @Test
  void aTensorThatHoldsNoNumberOfTokensIsRefused() {
    metadata.put("kind", "ll");
    for (Tensor wrong :
        new Tensor[] {
          Tensor.of(new long[] {1L << 40}, 1),
          Tensor.of(new int[] {-1}, 1),
          Tensor.of(new float[] {12}, 1)
        }) {
      tensors.put("max_tokens", wrong);
      assertInconsistent("tensor 'max_tokens': ");
    }
  }

  private void assertInconsistent(String problem) {
    write(0);
    assertThatThrownBy(() -> CaseDirectory.open(folder))
        .isInstanceOf(SafetensorsException.class)
        .hasMessageStartingWith(ErrorCode.CASE_INCONSISTENT.id())
        .hasMessageContaining("rank0.safetensors: " + problem);
  }
}
