package org.ep4j.io;

import java.util.Map;
import org.ep4j.tensor.DType;
import org.jspecify.annotations.Nullable;

/** Names of element types in safetensors. */
final class FileTypes {
  private static final Map<String, DType> TYPES =
      Map.ofEntries(
          Map.entry("BF16", DType.BF16),
          Map.entry("F16", DType.FP16),
          Map.entry("F32", DType.FP32),
          Map.entry("F8_E4M3", DType.FP8_E4M3),
          Map.entry("F8_E8M0", DType.UE8M0),
          Map.entry("F4", DType.NVFP4),
          Map.entry("I32", DType.INT32),
          Map.entry("I64", DType.INT64),
          Map.entry("U8", DType.UINT8),
          Map.entry("BOOL", DType.UINT8));

  private FileTypes() {}

  static @Nullable DType parse(String name) {
    return TYPES.get(name);
  }

  static String known() {
    return TYPES.keySet().stream().sorted().toList().toString();
  }

  static String name(DType type) {
    return switch (type) {
      case BF16 -> "BF16";
      case FP16 -> "F16";
      case FP32 -> "F32";
      case FP8_E4M3 -> "F8_E4M3";
      case NVFP4 -> "F4";
      case INT32 -> "I32";
      case INT64 -> "I64";
      case UE8M0 -> "F8_E8M0";
      case UINT8 -> "U8";
    };
  }
}
