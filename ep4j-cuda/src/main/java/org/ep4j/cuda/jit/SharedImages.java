package org.ep4j.cuda.jit;

import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;

/**
 * Images of kernels that several ranks of a process need at a time: the first request makes an
 * image, the others wait for it. A program that opens buffers of ever new shapes would otherwise
 * keep all of them, so the images are dropped when there are too many; the cache of compiled
 * kernels has them. Any thread.
 */
final class SharedImages {
  private final int max;
  private final ConcurrentHashMap<String, byte[]> images = new ConcurrentHashMap<>();

  /** Keeps at most {@code max} images, and one more for each concurrent request. */
  SharedImages(int max) {
    this.max = max;
  }

  /** The image of a key; makes it if it is not there. */
  byte[] get(String key, Supplier<byte[]> make) {
    if (images.size() >= max && !images.containsKey(key)) {
      images.clear();
    }
    return images.computeIfAbsent(key, _ -> make.get());
  }

  int size() {
    return images.size();
  }
}
