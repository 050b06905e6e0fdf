package org.ep4j.moe.gpu;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Objects;
import java.util.SortedMap;
import java.util.TreeMap;
import org.ep4j.cuda.jit.KernelSources;
import org.ep4j.cuda.jit.KernelSpec;

/** The text of the kernels of {@link MoeKernel}, which are one program. */
public final class MoeSources {
  public static final String ENTRY = "moe/moe.cu";

  /** Of include names: files of the CUDA engine have other ones. */
  private static final String PREFIX = "moe/";

  private static final List<String> FILES =
      List.of(
          ENTRY,
          "moe/activation.cuh",
          "moe/bf16.cuh",
          "moe/conversions.cuh",
          "moe/few_rows.cuh",
          "moe/few_rows_fp8.cuh",
          "moe/fp8.cuh",
          "moe/groups.cuh",
          "moe/replicas.cuh",
          "moe/route.cuh",
          "moe/route_backward.cuh",
          "moe/swiglu.cuh",
          "moe/tensor_cores.cuh");

  /** FP8 and the machine's instructions, of the CUDA engine. */
  private static final String SHARED = "common/fp8.cuh";

  private MoeSources() {}

  /** Text by include name. */
  public static SortedMap<String, String> files() {
    TreeMap<String, String> files = new TreeMap<>(KernelSources.of(SHARED).files());
    FILES.forEach(name -> files.put(name, read(name)));
    return files;
  }

  /** For the compiler of the engine. */
  public static KernelSpec spec(String architecture) {
    return new KernelSpec(new KernelSources(ENTRY, files()), new TreeMap<>(), architecture);
  }

  private static String read(String name) {
    // Below no directory of their own: the JVM opens a descriptor for each level when it starts.
    String file = name.substring(PREFIX.length());
    try (InputStream in = MoeSources.class.getResourceAsStream("kernels/" + file)) {
      return new String(Objects.requireNonNull(in, name).readAllBytes(), StandardCharsets.UTF_8);
    } catch (IOException e) {
      throw new UncheckedIOException("reading " + name, e);
    }
  }
}
