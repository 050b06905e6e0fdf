package org.ep4j.c;

import org.ep4j.DispatchHandle;
import org.ep4j.c.struct.ObjectTable;

/**
 * What {@code ep4j_handle} names.
 *
 * @param handle of the engine
 * @param scaleColumns whether dispatches along it deliver column-major scales
 */
record RoutesObject(DispatchHandle handle, boolean scaleColumns) {
  /** The open handle with a number. */
  static RoutesObject of(long number) {
    return ObjectTable.PROCESS.get(
        "handle", number, RoutesObject.class, "an open handle of a dispatch");
  }
}
