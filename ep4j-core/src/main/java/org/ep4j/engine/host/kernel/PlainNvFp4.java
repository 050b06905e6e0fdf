package org.ep4j.engine.host.kernel;

import static org.ep4j.engine.host.kernel.NvFp4.BLOCK;

import org.ep4j.memory.NativeMemory;

/** NVFP4 rows, element by element; {@link NvFp4} defines the numbers. */
final class PlainNvFp4 {
  private PlainNvFp4() {}

  /** The largest magnitude of elements {@code from} to {@code to} except NaN, as bf16 bits. */
  static int largest(long source, int from, int to) {
    int largest = 0;
    for (int i = from; i < to; i++) {
      int magnitude = NativeMemory.getShort(source + 2L * i) & 0x7FFF;
      if (magnitude <= 0x7F80) { // non-negative floats and their bits have the same order
        largest = Math.max(largest, magnitude);
      }
    }
    return largest;
  }

  static void encode(long source, int hidden, float globalScale, long target, long scales) {
    for (int block = 0; block < hidden / BLOCK; block++) {
      encodeBlock(source, block, globalScale, target, scales);
    }
  }

  static void encodeBlock(long source, int block, float globalScale, long target, long scales) {
    int from = block * BLOCK;
    float amax = Bf16.toFloat((short) largest(source, from, from + BLOCK));
    byte scale = NvFp4.scale(globalScale, amax);
    NativeMemory.putByte(scales + block, scale);
    float multiplier = NvFp4.multiplier(globalScale, scale);
    for (int i = from; i < from + BLOCK; i += 2) {
      int pair = NativeMemory.getInt(source + 2L * i);
      int even = NvFp4.fromFloat(Float.intBitsToFloat(pair << 16) * multiplier);
      int odd = NvFp4.fromFloat(Float.intBitsToFloat(pair & 0xFFFF0000) * multiplier);
      NativeMemory.putByte(target + i / 2, (byte) (odd << 4 | even));
    }
  }

  static void dequantise(long source, long scales, float globalScale, int hidden, long target) {
    for (int block = 0; block < hidden / BLOCK; block++) {
      float factor = NvFp4.inverse(globalScale, NativeMemory.getByte(scales + block));
      for (int i = block * BLOCK; i < (block + 1) * BLOCK; i += 2) {
        int pair = NativeMemory.getByte(source + i / 2);
        int even = Bf16.fromFloat(NvFp4.toFloat(pair) * factor) & 0xFFFF;
        int odd = Bf16.fromFloat(NvFp4.toFloat(pair >> 4) * factor);
        NativeMemory.putInt(target + 2L * i, odd << 16 | even);
      }
    }
  }
}
