package org.ep4j.io;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.SplittableRandom;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * Damages valid files at random. Every damaged file is either rejected with {@link
 * SafetensorsException} or readable to its last byte; nothing else may be thrown.
 *
 * <p>{@code -Dep4j.seed} repeats a run, {@code -Dep4j.cases} changes its length.
 */
class SafetensorsFuzzTest {
  private static final String SPICE = "{}[]\",:\\0123456789-.eE \u00e9\n\"\"\"}}}";

  @TempDir Path folder;

  @Test
  void damagedFilesAreRefusedOrReadable() throws IOException {
    long seed = Long.getLong("ep4j.seed", 1);
    int cases = Integer.getInteger("ep4j.cases", 3_000);
    System.out.println("SafetensorsFuzzTest: -Dep4j.seed=" + seed + " -Dep4j.cases=" + cases);
    byte[] valid = valid();
    SplittableRandom random = new SplittableRandom(seed);
    Path path = folder.resolve("f.safetensors");
    int refused = 0;
    for (int i = 0; i < cases; i++) {
      Files.write(path, damaged(valid, random));
      try (SafetensorsFile file = SafetensorsFile.open(path)) {
        for (String name : file.names()) {
          Tensor tensor = file.tensor(name);
          tensor.copyTo(MemorySegment.ofArray(new byte[(int) tensor.byteSize()]));
        }
      } catch (SafetensorsException e) {
        assertThat(e).hasMessageContaining("f.safetensors");
        refused++;
      }
    }
    assertThat(refused).isBetween(cases / 4, cases - 1);
  }

  private byte[] valid() throws IOException {
    Map<String, String> metadata = new LinkedHashMap<>();
    metadata.put("kind", "ht");
    metadata.put("text", "a \"b\" \u20ac");
    Map<String, Tensor> tensors = new LinkedHashMap<>();
    tensors.put("x", Tensor.ofBf16(new short[24], 3, 8));
    tensors.put("topk_idx", Tensor.of(new long[6], 3, 2));
    tensors.put("w", Tensor.of(new float[6], 3, 2));
    Path path = folder.resolve("valid.safetensors");
    SafetensorsWriter.write(path, metadata, tensors);
    return Files.readAllBytes(path);
  }

  private static byte[] damaged(byte[] valid, SplittableRandom random) {
    byte[] bytes = valid.clone();
    int header = 8 + ByteBuffer.wrap(valid).order(ByteOrder.LITTLE_ENDIAN).getInt(0);
    for (int n = random.nextInt(1, 4); n > 0; n--) {
      int at =
          random.nextInt(random.nextInt(8) == 0 ? bytes.length : Math.min(header, bytes.length));
      switch (random.nextInt(6)) {
        case 0 -> bytes[at] ^= (byte) (1 << random.nextInt(8));
        case 1 -> bytes[at] = (byte) random.nextInt(256);
        case 2 -> bytes[at] = (byte) SPICE.charAt(random.nextInt(SPICE.length()));
        case 3 -> bytes = Arrays.copyOf(bytes, 1 + random.nextInt(bytes.length + 8));
        case 4 -> {
          int from = random.nextInt(bytes.length);
          int length = Math.min(random.nextInt(40), bytes.length - Math.max(from, at));
          System.arraycopy(bytes, from, bytes, at, length);
        }
        default -> {
          // A digit becomes another digit: shapes and offsets that contradict each other.
          for (int i = at; i < bytes.length; i++) {
            if (bytes[i] >= '0' && bytes[i] <= '9') {
              bytes[i] = (byte) ('0' + random.nextInt(10));
              break;
            }
          }
        }
      }
    }
    return bytes;
  }
}
