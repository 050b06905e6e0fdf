package org.ep4j.cli.plan;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import org.ep4j.error.ErrorCode;
import org.ep4j.io.SafetensorsException;
import org.ep4j.io.SafetensorsWriter;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class RecordingFileTest {
  @TempDir Path scratch;

  @Test
  void aFileHoldsTheTokensOfAllRanks() {
    for (Tensor ids :
        new Tensor[] {
          Tensor.of(new long[] {3, 1, 0, -1}, 2, 2), Tensor.of(new int[] {3, 1, 0, -1}, 2, 2)
        }) {
      RecordingFile.Recording recording = RecordingFile.read(write("r.safetensors", ids));

      assertThat(recording.routing().topK()).isEqualTo(2);
      assertThat(recording.routing().tokens()).isEqualTo(2);
      assertThat(recording.routing().greatestExpert()).isEqualTo(3);
      assertThat(recording.experts()).isEmpty();
    }
  }

  @Test
  void aDirectoryHoldsAFileForEachRank() {
    write("rank0.safetensors", Tensor.of(new long[] {3, 1, 0, -1}, 2, 2), Map.of("experts", "16"));
    write("rank1.safetensors", Tensor.of(new long[] {7, 5}, 1, 2), Map.of("experts", "16"));
    write("rank3.safetensors", Tensor.of(new long[] {8, 9}, 1, 2));

    RecordingFile.Recording recording = RecordingFile.read(scratch);

    assertThat(recording.routing().tokens()).isEqualTo(3);
    assertThat(recording.routing().maxTokens(2)).isEqualTo(2);
    assertThat(recording.experts()).hasValue(16);
  }

  @Test
  void filesThatAreNoRoutingAreRefused() throws IOException {
    refused(write("a", Tensor.of(new long[] {1, 1}, 1, 2)), "'topk_idx'", "a second time");
    refused(write("b", Tensor.of(new long[] {-2}, 1, 1)), "topk_idx[0, 0] = -2");
    refused(write("c", Tensor.of(new long[] {1, 1L << 40}, 2, 1)), "token 1", "1099511627776");
    refused(write("d", Tensor.of(new long[] {1}, 1)), "not I64 or I32 [tokens, topk]");
    refused(write("e", Tensor.of(new float[] {1}, 1, 1)), "not I64 or I32 [tokens, topk]");
    refused(write("f", Tensor.of(new byte[1], DType.UINT8, 1, 1)), "not I64 or I32");
    refused(write("g", Tensor.of(new long[0], 0, 4)), "topk_idx = 0 ids");
    refused(write("h", Tensor.of(new long[0], 4, 0)), "topk_idx = 0 ids");
    refused(scratch, "holds no rank0.safetensors");
    Path odd = write("i", Tensor.of(new long[] {1}, 1, 1), Map.of("experts", "many"));
    refused(odd, "metadata experts is 'many'");
    write("rank0.safetensors", Tensor.of(new long[] {1, 2}, 1, 2));
    write("rank1.safetensors", Tensor.of(new long[] {1}, 1, 1));
    refused(scratch, "rank1.safetensors", "rows of 1, the files before it of 2");

    Path text = Files.writeString(scratch.resolve("text"), "no tensors at all");
    assertThatThrownBy(() -> RecordingFile.read(text))
        .isInstanceOf(SafetensorsException.class)
        .hasMessageStartingWith(ErrorCode.SAFETENSORS_INVALID.id());
    Path other = scratch.resolve("other");
    SafetensorsWriter.write(other, Map.of(), Map.of("ids", Tensor.of(new long[] {1}, 1, 1)));
    assertThatThrownBy(() -> RecordingFile.read(other))
        .isInstanceOf(SafetensorsException.class)
        .hasMessageStartingWith(ErrorCode.TENSOR_NOT_FOUND.id());
    assertThatThrownBy(() -> RecordingFile.read(scratch.resolve("missing")))
        .isInstanceOf(UncheckedIOException.class);
  }

  private Path write(String name, Tensor ids) {
    return write(name, ids, Map.of());
  }

  private Path write(String name, Tensor ids, Map<String, String> metadata) {
    Path path = scratch.resolve(name);
    SafetensorsWriter.write(path, metadata, Map.of("topk_idx", ids));
    return path;
  }

  private static void refused(Path path, String... texts) {
    assertThatThrownBy(() -> RecordingFile.read(path))
        .isInstanceOf(SafetensorsException.class)
        .hasMessageStartingWith(ErrorCode.RECORDED_ROUTING.id())
        .hasMessageContainingAll(texts);
  }
}
