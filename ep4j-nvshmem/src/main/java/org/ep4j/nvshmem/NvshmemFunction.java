package org.ep4j.nvshmem;

import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.ValueLayout;

/**
 * The functions of NVSHMEM's host library that ep4j calls: symbol and signature. Functions that are inline in its headers are not exported. Pointers are longs.
 */
enum NvshmemFunction {
  /** Called by {@link NvshmemLibrary}. */
  VERSION(
      "nvshmemx_vendor_get_version_info",
      FunctionDescriptor.ofVoid(
          ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG)),
  GET_UNIQUE_ID("nvshmemx_get_uniqueid", integer(ValueLayout.JAVA_LONG)),
  SET_UNIQUE_ID_ARGS(
      "nvshmemx_set_attr_uniqueid_args",
      integer(
          ValueLayout.JAVA_INT,
          ValueLayout.JAVA_INT,
          ValueLayout.JAVA_LONG,
          ValueLayout.JAVA_LONG)),
  INIT("nvshmemx_hostlib_init_attr", integer(ValueLayout.JAVA_INT, ValueLayout.JAVA_LONG)),
  FINALIZE("nvshmemx_hostlib_finalize", FunctionDescriptor.ofVoid()),
  MY_PE("nvshmem_my_pe", integer()),
  N_PES("nvshmem_n_pes", integer()),
  ALIGN("nvshmem_align", pointer(ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG)),
  FREE("nvshmem_free", FunctionDescriptor.ofVoid(ValueLayout.JAVA_LONG)),
  PTR("nvshmem_ptr", pointer(ValueLayout.JAVA_LONG, ValueLayout.JAVA_INT)),
  MODULE_INIT("nvshmemx_cumodule_init", integer(ValueLayout.JAVA_LONG)),
  MODULE_FINALIZE("nvshmemx_cumodule_finalize", integer(ValueLayout.JAVA_LONG));

  private final String symbol;

  @SuppressWarnings("ImmutableEnumChecker") // descriptors are immutable, though unmarked
  private final FunctionDescriptor descriptor;

  NvshmemFunction(String symbol, FunctionDescriptor descriptor) {
    this.symbol = symbol;
    this.descriptor = descriptor;
  }

  private static FunctionDescriptor integer(MemoryLayout... parameters) {
    return FunctionDescriptor.of(ValueLayout.JAVA_INT, parameters);
  }

  private static FunctionDescriptor pointer(MemoryLayout... parameters) {
    return FunctionDescriptor.of(ValueLayout.JAVA_LONG, parameters);
  }

  /** Whether ep4j works without the function: only puts of kernels need it. */
  boolean optional() {
    return this == MODULE_INIT || this == MODULE_FINALIZE;
  }

  /** Exported name. */
  String symbol() {
    return symbol;
  }

  /** Parameters and result. */
  FunctionDescriptor descriptor() {
    return descriptor;
  }
}
