package org.ep4j.io;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import org.ep4j.error.ErrorCode;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

class SafetensorsTest {
  @TempDir Path folder;

  @ParameterizedTest
  @EnumSource(DType.class)
  void everyDtypeIsReadAsItWasWritten(DType dtype) {
    byte[] bytes = new byte[(int) dtype.bytes(2 * 3 * 4)];
    for (int i = 0; i < bytes.length; i++) {
      bytes[i] = (byte) (i * 37 + 1);
    }
    Tensor tensor = Tensor.of(MemorySegment.ofArray(bytes), dtype, 2, 3, 4);
    Path path = folder.resolve("t.safetensors");
    SafetensorsWriter.write(path, Map.of("kind", "ht"), Map.of("x", tensor));
    try (SafetensorsFile file = SafetensorsFile.open(path)) {
      Tensor read = file.tensor("x");
      assertThat(read.dtype()).isEqualTo(dtype);
      assertThat(read.shape()).containsExactly(2, 3, 4);
      assertThat(read.segment().mismatch(tensor.segment())).isEqualTo(-1);
      assertThat(file.metadata()).containsExactly(Map.entry("kind", "ht"));
    }
  }

  @Test
  void aWriteThatFailsLeavesNothingBehind() throws IOException {
    Arena arena = Arena.ofConfined();
    Tensor closed = Tensor.of(arena.allocate(16), DType.UINT8, 16);
    arena.close();

    assertThatThrownBy(
            () ->
                SafetensorsWriter.write(
                    folder.resolve("t.safetensors"), Map.of(), Map.of("x", closed)))
        .isInstanceOf(IllegalStateException.class);
    assertThat(folder).isEmptyDirectory();
  }

  @Test
  void whatNoReaderAcceptsIsRefusedAndTheOldFileStays() throws IOException {
    Path path = folder.resolve("t.safetensors");
    SafetensorsWriter.write(path, Map.of("old", "yes"), Map.of());
    Tensor one = Tensor.of(new int[1], 1);

    notWritten(path, Map.of(), Map.of("__metadata__", one), "tensor '__metadata__'");
    notWritten(path, Map.of(), Map.of("a\uD83D", one), "half a surrogate");
    notWritten(path, Map.of("\uDE00b", ""), Map.of(), "half a surrogate");
    notWritten(path, Map.of("b", "\uDE00\uD83D"), Map.of(), "half a surrogate");

    assertThat(folder).isDirectoryNotContaining("glob:**.unfinished");
    try (SafetensorsFile file = SafetensorsFile.open(path)) {
      assertThat(file.metadata()).containsExactly(Map.entry("old", "yes"));
    }
  }

  @Test
  void aHeaderThatIsTooLongIsRefused() {
    assumeTrue(Boolean.getBoolean("ep4j.full"), "headers of 100 MB: with -Dep4j.full=true");
    Path path = folder.resolve("t.safetensors");
    // {"__metadata__":{"k":""}} has 25 characters.
    String longest = "x".repeat((int) SafetensorsFile.MAX_HEADER_BYTES - 25);
    SafetensorsWriter.write(path, Map.of("k", longest), Map.of());
    SafetensorsFile.open(path).close();
    notWritten(path, Map.of("k", longest + "x"), Map.of(), "100000000 bytes");
  }

  private static void notWritten(
      Path path, Map<String, String> metadata, Map<String, Tensor> tensors, String problem) {
    assertThatThrownBy(() -> SafetensorsWriter.write(path, metadata, tensors))
        .isInstanceOf(SafetensorsException.class)
        .hasMessageStartingWith(ErrorCode.SAFETENSORS_INVALID.id())
        .hasMessageContaining("t.safetensors")
        .hasMessageContaining(problem);
  }

  @Test
  void tensorsAreAlignedWhateverTheOrderAndEmptyOnesAreKept() {
    Map<String, Tensor> tensors = new LinkedHashMap<>();
    tensors.put("bytes", Tensor.of(MemorySegment.ofArray(new byte[3]), DType.UINT8, 3));
    tensors.put("none", Tensor.of(new float[0], 0, 7));
    tensors.put("halves", Tensor.ofBf16(new short[] {1, 2, 3}, 3));
    tensors.put("longs", Tensor.of(new long[] {Long.MIN_VALUE, 5}, 2));
    Path path = folder.resolve("t.safetensors");
    SafetensorsWriter.write(path, Map.of(), tensors);
    try (SafetensorsFile file = SafetensorsFile.open(path);
        Arena arena = Arena.ofConfined()) {
      assertThat(file.names()).containsExactlyInAnyOrderElementsOf(tensors.keySet());
      for (String name : file.names()) {
        Tensor tensor = file.tensor(name);
        assertThat(tensor.address() * 8 % tensor.dtype().bits()).isZero();
        assertThat(SafetensorsFile.copyOf(tensor, arena).address() % 64).isZero();
      }
      assertThat(file.tensor("none").shape()).containsExactly(0, 7);
      assertThat(file.tensor("longs").getLong(0)).isEqualTo(Long.MIN_VALUE);
    }
    assertThat(folder).isDirectoryNotContaining("glob:**.unfinished");
  }

  @Test
  void metadataKeepsEveryCharacter() {
    Map<String, String> metadata = new LinkedHashMap<>();
    metadata.put("a \"quoted\" \\ key", "tab\t newline\n nul\0 \u00e9 \u20ac \uD83D\uDE00");
    metadata.put("", "");
    Path path = folder.resolve("t.safetensors");
    SafetensorsWriter.write(path, metadata, Map.of());
    try (SafetensorsFile file = SafetensorsFile.open(path)) {
      assertThat(file.metadata()).containsExactlyEntriesOf(metadata);
    }
  }

  @Test
  void aTensorLargerThanTheBufferIsWrittenWhole() {
    long[] values = new long[300_000];
    for (int i = 0; i < values.length; i++) {
      values[i] = i * 0x9E3779B97F4A7C15L;
    }
    Tensor tensor = Tensor.of(values, values.length);
    Path path = folder.resolve("t.safetensors");
    SafetensorsWriter.write(path, Map.of(), Map.of("x", tensor));
    try (SafetensorsFile file = SafetensorsFile.open(path)) {
      assertThat(file.tensor("x").segment().mismatch(tensor.segment())).isEqualTo(-1);
    }
  }

  @Test
  void aScalarAndAForeignLayoutAreAccepted() throws IOException {
    String json =
        "  {\"s\" : {\"shape\":[],\"data_offsets\":[0,4],\"dtype\":\"F32\"},\n"
            + "\"\\u0062\\/\":{\"dtype\":\"BOOL\",\"shape\":[1,2],\"data_offsets\":[4,6]}} ";
    try (SafetensorsFile file = SafetensorsFile.open(write(json, 6))) {
      assertThat(file.tensor("s").shape()).containsExactly(1);
      assertThat(file.tensor("b/").dtype()).isEqualTo(DType.UINT8);
      assertThat(file.metadata()).isEmpty();
    }
  }

  @Test
  void aMissingTensorIsNamedWithTheExistingOnes() throws IOException {
    try (SafetensorsFile file = SafetensorsFile.open(write(entry("x", "U8", "[1]", "0,1"), 1))) {
      assertThat(file.find("y")).isNull();
      assertThatThrownBy(() -> file.tensor("y"))
          .isInstanceOf(SafetensorsException.class)
          .hasMessageStartingWith(ErrorCode.TENSOR_NOT_FOUND.id())
          .hasMessageEndingWith("t.safetensors: tensor 'y': missing; the file holds [x]");
    }
  }

  @Test
  void aClosedFileReportsThatItIsClosed() throws IOException {
    SafetensorsFile file = SafetensorsFile.open(write(entry("x", "I32", "[1]", "0,4"), 4));
    Tensor tensor = file.tensor("x");
    file.close();
    file.close();
    assertThatThrownBy(() -> tensor.getInt(0)).isInstanceOf(IllegalStateException.class);
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      quoteCharacter = '`',
      value = {
        // shape, offsets and dtype of one tensor over 8 data bytes
        "F32 | [2] | 0,8 | `` ",
        "F32 | [3] | 0,8 | dtype and shape need 12 bytes, data_offsets [0, 8] give 8",
        "F32 | [3] | 0,12 | data_offsets [0, 12] are outside the 8 data bytes",
        "F32 | [1] | 4,8 | data_offsets begin at 4; the tensors before end at 0: there is a hole",
        "F32 | [2] | 8,0 | must be [begin, end] with begin <= end",
        "F32 | [2] | 0 | must be [begin, end]",
        "F32 | [2] | 0,8,9 | data_offsets has more than 2 numbers",
        "F32 | [-2] | 0,8 | expected a natural number",
        "F32 | [2.0] | 0,8 | expected a natural number",
        "F32 | [02] | 0,8 | expected a natural number",
        "F32 | [2e0] | 0,8 | expected a natural number",
        "F32 | [9223372036854775808] | 0,8 | exceeds 2^63 - 1",
        "F32 | [99999999999999999999999] | 0,8 | exceeds 2^63 - 1",
        "F32 | [4294967296,4294967296] | 0,8 | the shape has more than 2^63 - 1 bits",
        "I64 | [1152921504606846976] | 0,8 | the shape has more than 2^63 - 1 bits",
        "U8 | [1,2,2,2] | 0,8 | shape has more than 3 numbers",
        "U8 | [[8]] | 0,8 | expected a natural number",
        "F4 | [15] | 0,8 | 15 elements of NVFP4",
        "F64 | [1] | 0,8 | dtype 'F64' is not one of [BF16, BOOL, F16",
        "f32 | [2] | 0,8 | dtype 'f32' is not one of",
      })
  void aHostileTensorIsRefusedByName(String dtype, String shape, String offsets, String problem)
      throws IOException {
    Path path = write(entry("the x", dtype, shape, offsets), 8);
    if (problem.isEmpty()) {
      SafetensorsFile.open(path).close();
      return;
    }
    assertThatThrownBy(() -> SafetensorsFile.open(path))
        .isInstanceOf(SafetensorsException.class)
        .hasMessageStartingWith(ErrorCode.SAFETENSORS_INVALID.id())
        .hasMessageContaining("t.safetensors: tensor 'the x': ")
        .hasMessageContaining(problem);
  }

  @Test
  void overlapsHolesAndLeftOversAreRefused() throws IOException {
    String a = "\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}";
    refused("{" + a + "," + a.replace("\"a\"", "\"b\"") + "}", 4, "tensor 'b'", "they overlap");
    String c = "\"c\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[5,9]}";
    refused("{" + a + "," + c + "}", 9, "tensor 'c'", "there is a hole");
    refused("{" + a + "}", 7, "3 bytes after the last tensor belong to no tensor");
    refused("{}", 1, "1 bytes after the last tensor belong to no tensor");
  }

  @Test
  void namesAndKeysMayOccurOnlyOnce() throws IOException {
    String a = "\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}";
    refused("{" + a + "," + a + "}", 0, "tensor 'a'", "occurs twice");
    refused("{" + a.replace("\"shape\"", "\"dtype\"") + "}", 0, "tensor 'a'");
    refused("{" + a.replace("{\"dtype", "{\"shape\":[0],\"dtype") + "}", 0, "'shape' occurs twice");
    refused("{" + a.replace("\"shape\"", "\"size\"") + "}", 0, "unknown key 'size'");
    refused("{" + a.replace("\"shape\":[0],", "") + "}", 0, "key 'shape' is missing");
    refused("{\"__metadata__\":{},\"__metadata__\":{}}", 0, "'__metadata__'", "occurs twice");
    refused("{\"__metadata__\":{\"k\":\"\",\"k\":\"\"}}", 0, "metadata key 'k' occurs twice");
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "[]",
        "{ ",
        "{}}",
        "{} x",
        "null",
        "{\"a\"}",
        "{\"a\":1}",
        "{\"a\":{}}",
        "{a:{}}",
        "{'a':{}}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[0,],\"data_offsets\":[0,0]}}",
        "{\"a\":{\"dtype\":null,\"shape\":[0],\"data_offsets\":[0,0]}}",
        "{\"__metadata__\":{\"k\":1}}",
        "{\"__metadata__\":{\"k\":{}}}",
        "{\"__metadata__\":{\"k\":\"\\x\"}}",
        "{\"__metadata__\":{\"k\":\"\\u00g0\"}}",
        "{\"__metadata__\":{\"k\":\"\\ud800\"}}",
        "{\"__metadata__\":{\"k\":\"\n\"}}",
        "{\"__metadata__\":{\"k\":\"",
        "{} // comment",
      })
  void textThatIsNotTheHeadersJsonIsRefused(String json) throws IOException {
    refused(json, 0, "invalid header");
  }

  @Test
  void deepNestingIsRefusedWithoutRecursion() throws IOException {
    refused("{\"a\":" + "[".repeat(5_000_000), 0, "tensor 'a'", "expected '{' at character 5");
    refused("{\"a\":".repeat(100_000), 0, "unknown key 'a'");
  }

  @Test
  void bytesThatAreNotTextAreRefused() throws IOException {
    byte[] json = "{\"a?\":1}".getBytes(StandardCharsets.UTF_8);
    json[3] = (byte) 0xC0;
    Path path = write(json, json.length, 0);
    assertThatThrownBy(() -> SafetensorsFile.open(path))
        .hasMessageContaining("invalid header: the header is not valid UTF-8");
  }

  @ParameterizedTest
  @ValueSource(longs = {0, 1, 100_000_001, Long.MAX_VALUE, -1, Long.MIN_VALUE})
  void anAbsurdHeaderLengthIsRefused(long length) throws IOException {
    Path path = write("{}".getBytes(StandardCharsets.UTF_8), length, 0);
    assertThatThrownBy(() -> SafetensorsFile.open(path))
        .isInstanceOf(SafetensorsException.class)
        .hasMessageContaining("t.safetensors: header length " + Long.toUnsignedString(length));
  }

  @Test
  void aFileCutAnywhereIsRefused() throws IOException {
    byte[] whole = Files.readAllBytes(write(entry("x", "I32", "[3]", "0,12"), 12));
    Path cut = folder.resolve("cut.safetensors");
    for (int length = 0; length < whole.length; length++) {
      Files.write(cut, Arrays.copyOf(whole, length));
      assertThatThrownBy(() -> SafetensorsFile.open(cut))
          .isInstanceOf(SafetensorsException.class)
          .hasMessageContaining("cut.safetensors");
    }
  }

  @Test
  void aFileThatCannotBeReadOrWrittenIsNamed() {
    Path missing = folder.resolve("none").resolve("t.safetensors");
    assertThatThrownBy(() -> SafetensorsFile.open(missing))
        .isInstanceOf(UncheckedIOException.class)
        .hasMessageContaining(missing.toString());
    assertThatThrownBy(() -> SafetensorsWriter.write(missing, Map.of(), Map.of()))
        .isInstanceOf(UncheckedIOException.class)
        .hasMessageContaining(missing.toString());
  }

  private void refused(String json, int dataBytes, String... parts) throws IOException {
    Path path = write(json, dataBytes);
    assertThatThrownBy(() -> SafetensorsFile.open(path))
        .isInstanceOf(SafetensorsException.class)
        .hasMessageContaining("t.safetensors")
        .hasMessageContainingAll(parts);
  }

  private static String entry(String name, String dtype, String shape, String offsets) {
    return "{\"%s\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[%s]}}"
        .formatted(name, dtype, shape, offsets);
  }

  private Path write(String json, int dataBytes) throws IOException {
    byte[] header = json.getBytes(StandardCharsets.UTF_8);
    return write(header, header.length, dataBytes);
  }

  private Path write(byte[] header, long headerLength, int dataBytes) throws IOException {
    ByteBuffer file =
        ByteBuffer.allocate(8 + header.length + dataBytes).order(ByteOrder.LITTLE_ENDIAN);
    file.putLong(headerLength).put(header);
    return Files.write(folder.resolve("t.safetensors"), file.array());
  }
}
