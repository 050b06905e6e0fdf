package org.ep4j.engine.host.kernel;

import static org.ep4j.engine.host.kernel.Fp8.BLOCK;

import org.ep4j.memory.NativeMemory;
import org.ep4j.tensor.ScaleKind;

/** FP8 rows, element by element; {@link Fp8} defines the numbers. */
final class PlainFp8 {
  private PlainFp8() {}

  static void encode(long source, int hidden, long target, long scales, ScaleKind kind) {
    for (int block = 0; block < hidden / BLOCK; block++) {
      encodeBlock(source, block, target, scales, kind);
    }
  }

  static void encodeBlock(long source, int block, long target, long scales, ScaleKind kind) {
    int from = block * BLOCK;
    int largest = 0;
    for (int i = from; i < from + BLOCK; i++) {
      int magnitude = NativeMemory.getShort(source + 2L * i) & 0x7FFF;
      if (magnitude <= 0x7F80) { // non-negative floats and their bits have the same order
        largest = Math.max(largest, magnitude);
      }
    }
    float amax = storeScale(largest, block, scales, kind);
    float multiplier = Fp8.multiplier(kind, amax);
    for (int i = from; i < from + BLOCK; i++) {
      float value = Bf16.toFloat(NativeMemory.getShort(source + 2L * i));
      NativeMemory.putByte(target + i, Fp8.fromFloat(value * multiplier));
    }
  }

  /** Stores the scale of a block whose largest magnitude has the bf16 bits {@code largest}. */
  static float storeScale(int largest, int block, long scales, ScaleKind kind) {
    float amax = Math.max(Bf16.toFloat((short) largest), Fp8.SMALLEST_AMAX);
    if (kind == ScaleKind.UE8M0) {
      NativeMemory.putByte(scales + block, (byte) Fp8.scaleExponent(amax));
    } else {
      NativeMemory.putFloat(scales + 4L * block, Fp8.scale(kind, amax));
    }
    return amax;
  }

  static void decode(long source, long target, int from, int to) {
    for (int i = from; i < to; i++) {
      NativeMemory.putShort(target + 2L * i, Fp8.toBf16(NativeMemory.getByte(source + i)));
    }
  }

  static void dequantise(long source, long scales, ScaleKind kind, int hidden, long target) {
    for (int block = 0; block < hidden / BLOCK; block++) {
      float scale = loadScale(scales, block, kind);
      for (int i = block * BLOCK; i < (block + 1) * BLOCK; i++) {
        float value = Fp8.toFloat(NativeMemory.getByte(source + i));
        NativeMemory.putShort(target + 2L * i, Bf16.fromFloat(value * scale));
      }
    }
  }

  static float loadScale(long scales, int block, ScaleKind kind) {
    return kind == ScaleKind.UE8M0
        ? Float.intBitsToFloat((NativeMemory.getByte(scales + block) & 0xFF) << 23)
        : NativeMemory.getFloat(scales + 4L * block);
  }
}
