package org.ep4j.cuda.jit;

import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.HexFormat;
import java.util.List;
import java.util.Optional;

/**
 * Outputs of compilers for tests, cached between builds in {@code ~/.cache/ep4j/tests} by the hash of all inputs: sources, options and the compiler's version. {@code EP4J_TEST_CACHE} selects another directory; {@code mvn clean} does not delete this cache.
 */
public final class BuildCache {
  private static final long LIMIT_BYTES = 256L << 20;

  private static final CubinCache FILES = new CubinCache(directory(), LIMIT_BYTES);

  private BuildCache() {}

  private static Path directory() {
    String named = System.getenv().getOrDefault("EP4J_TEST_CACHE", "");
    if (!named.isEmpty()) {
      return Path.of(named);
    }
    String caches = System.getenv().getOrDefault("XDG_CACHE_HOME", "");
    Path parent =
        caches.isEmpty() ? Path.of(System.getProperty("user.home"), ".cache") : Path.of(caches);
    return parent.resolve("ep4j").resolve("tests");
  }

  /** The key of a product that depends on exactly {@code parts}, in order. */
  public static String key(List<String> parts) {
    MessageDigest digest = KernelSpec.sha256();
    for (String part : parts) {
      byte[] bytes = part.getBytes(StandardCharsets.UTF_8);
      digest.update((bytes.length + ":").getBytes(StandardCharsets.US_ASCII));
      digest.update(bytes);
    }
    return HexFormat.of().formatHex(digest.digest());
  }

  /** The product of a key, if cached. */
  public static Optional<byte[]> get(String key) {
    return FILES.get(key);
  }

  /** Stores a product for later builds. */
  public static void put(String key, String description, byte[] product) {
    FILES.put(key, description, product);
  }
}
