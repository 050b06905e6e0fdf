package org.ep4j.cuda.jit;

import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;

/**
 * What several ranks of a process need at a time: the first request makes a result, the others wait
 * for it. A program that opens buffers of ever new shapes would otherwise keep the kernels of all.
 * When there are too many results, all are dropped, and made again on request: kernels from the
 * cache on disk, specs from the jar. Any thread.
 */
final class SharedResults<K, V> {
  /** More than the linked kernels of two buffers of all operations. */
  static final int MAX = 64;

  private final int max;
  private final ConcurrentHashMap<K, V> results = new ConcurrentHashMap<>();

  /** Keeps at most {@link #MAX} results, and one more for each concurrent request. */
  SharedResults() {
    this(MAX);
  }

  SharedResults(int max) {
    this.max = max;
  }

  /** The result of a key; makes it if it is not there. */
  V get(K key, Supplier<V> make) {
    if (results.size() >= max && !results.containsKey(key)) {
      results.clear();
    }
    return results.computeIfAbsent(key, _ -> make.get());
  }

  int size() {
    return results.size();
  }
}
