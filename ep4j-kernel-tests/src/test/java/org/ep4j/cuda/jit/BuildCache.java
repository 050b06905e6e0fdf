package org.ep4j.cuda.jit;

import java.util.List;
import java.util.Optional;

/**
 * Outputs of compilers for tests, cached between builds by the hash of all inputs: sources, options
 * and the compiler's version. The directory {@code tests} lies beside the cache of cubins, so
 * {@code mvn clean} does not delete it.
 */
public final class BuildCache {
  private static final CubinCache CUBINS = CubinCache.standard(System.getenv());
  private static final CubinCache FILES =
      new CubinCache(CUBINS.directory().resolveSibling("tests"), CUBINS.limitBytes());

  private BuildCache() {}

  /** The key of a product that depends on exactly {@code parts}, in order. */
  public static String key(List<String> parts) {
    return KernelSpec.hash(parts);
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
