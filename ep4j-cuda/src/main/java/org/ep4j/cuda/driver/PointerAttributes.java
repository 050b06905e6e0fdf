package org.ep4j.cuda.driver;

/**
 * What the driver knows about an address, independent of the allocator.
 *
 * @param type kind of memory
 * @param device ordinal of the owning device, -1 for memory that the driver does not know
 * @param managed whether the driver migrates the memory between host and device
 * @param rangeStart first byte of the allocation, 0 for memory that the driver does not know
 * @param rangeBytes size of the allocation
 */
public record PointerAttributes(
    Type type, int device, boolean managed, long rangeStart, long rangeBytes) {
  /** Kinds of memory. */
  public enum Type {
    /** Unknown to the driver: ordinary host memory, or no memory. */
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

  /** Reads the attributes; needs no current context. Hot paths use {@link PointerReader}. */
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

  /** Whether kernels of {@link #device} can use the address directly. */
  public boolean isDevicePointer() {
    return type == Type.DEVICE || managed;
  }
}
