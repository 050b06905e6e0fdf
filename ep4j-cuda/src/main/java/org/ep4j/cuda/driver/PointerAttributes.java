package org.ep4j.cuda.driver;

/**
 * What the driver knows about an address, whoever allocated it.
 *
 * @param type what kind of memory it is
 * @param device ordinal of the device that owns it, -1 for memory the driver does not know
 * @param managed whether it moves between host and device by itself
 * @param rangeStart first byte of the allocation, 0 for memory the driver does not know
 * @param rangeBytes size of the allocation
 */
public record PointerAttributes(
    Type type, int device, boolean managed, long rangeStart, long rangeBytes) {
  /** Kinds of memory. */
  public enum Type {
    /** The driver does not know it: ordinary host memory, or nothing. */
    UNKNOWN,
    /** Page-locked host memory. */
    HOST,
    /** Memory of a device. */
    DEVICE,
    /** A texture. */
    ARRAY,
    /** Unified. */
    UNIFIED;

    private static final Type[] VALUES = values();

    static Type of(int code) {
      return code > 0 && code < VALUES.length ? VALUES[code] : UNKNOWN;
    }
  }

  /** Asks the driver; needs no current context. For hot paths there is {@link PointerReader}. */
  public static PointerAttributes of(long address) {
    try (PointerReader reader = PointerReader.create()) {
      reader.read(address);
      return new PointerAttributes(
          reader.type(),
          reader.device(),
          reader.managed(),
          reader.rangeStart(),
          reader.rangeBytes());
    }
  }

  /** Whether kernels of {@link #device} can use the address as it is. */
  public boolean isDevicePointer() {
    return type == Type.DEVICE || managed;
  }
}
