package org.ep4j.engine.host.kernel;

import static org.ep4j.engine.host.kernel.LogFmt.GROUP;

import org.ep4j.memory.NativeMemory;

/** Groups of LogFMT, value by value. */
final class PlainLogFmt extends LogFmtRows {
  @Override
  int meta(long source) {
    int min = 0x7FFF;
    int max = 0;
    for (int i = 0; i < GROUP; i++) {
      int magnitude = NativeMemory.getShort(source + 2L * i) & 0x7FFF;
      min = Math.min(min, magnitude);
      max = Math.max(max, magnitude);
    }
    return min << 16 | max;
  }

  @Override
  void encodeGroup(long source, int meta, long codes) {
    int floor = LogFmt.floor(meta);
    float u0 = LogFmt.fractionLog(floor, 0);
    float step = LogFmt.step(meta);
    float inverse = 1 / step;
    float half = LogFmt.half(step);
    for (int i = 0; i < GROUP; i++) {
      int bits = NativeMemory.getShort(source + 2L * i);
      int code = LogFmt.code(bits & 0x7FFF, floor >>> 7, u0, inverse, half);
      NativeMemory.putShort(codes + 2L * i, (short) (bits & 0x8000 | code));
    }
  }

  @Override
  void decodeGroup(long codes, int meta) {
    int floor = LogFmt.floor(meta);
    float u0 = LogFmt.fractionLog(floor, 0);
    float step = LogFmt.step(meta);
    for (int i = 0; i < GROUP; i++) {
      int code = NativeMemory.getShort(codes + 2L * i);
      int magnitude = LogFmt.magnitude(code & 0x1FF, floor >>> 7, u0, step);
      NativeMemory.putShort(codes + 2L * i, (short) (code & 0x8000 | magnitude));
    }
  }
}
