package org.ep4j.nccl;

import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.ValueLayout;
import java.util.List;

/** The functions of NCCL that ep4j calls: symbol and signature. Pointers and handles are longs. */
enum NcclFunction {
  /** Called by {@link NcclLibrary}. */
  GET_VERSION("ncclGetVersion", ValueLayout.JAVA_LONG),
  GET_UNIQUE_ID("ncclGetUniqueId", ValueLayout.JAVA_LONG),
  COMM_INIT(
      "ncclCommInitRankConfig",
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_INT,
      NcclLayouts.UNIQUE_ID,
      ValueLayout.JAVA_INT,
      ValueLayout.JAVA_LONG),
  COMM_ASYNC_ERROR("ncclCommGetAsyncError", ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG),
  COMM_FINALIZE("ncclCommFinalize", ValueLayout.JAVA_LONG),
  COMM_DESTROY("ncclCommDestroy", ValueLayout.JAVA_LONG),
  COMM_ABORT("ncclCommAbort", ValueLayout.JAVA_LONG),
  MEM_ALLOC("ncclMemAlloc", ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG),
  MEM_FREE("ncclMemFree", ValueLayout.JAVA_LONG),
  WINDOW_REGISTER(
      "ncclCommWindowRegister",
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_INT),
  WINDOW_DEREGISTER("ncclCommWindowDeregister", ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG),
  ALL_REDUCE(
      "ncclAllReduce",
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_INT,
      ValueLayout.JAVA_INT,
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_LONG),
  GROUP_START("ncclGroupStart"),
  GROUP_END("ncclGroupEnd"),
  SEND(
      "ncclSend",
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_INT,
      ValueLayout.JAVA_INT,
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_LONG),
  RECEIVE(
      "ncclRecv",
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_INT,
      ValueLayout.JAVA_INT,
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_LONG),
  PEER_POINTER(
      "ncclGetPeerDevicePointer",
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_INT,
      ValueLayout.JAVA_LONG),
  DEVICE_COMM_CREATE(
      "ncclDevCommCreate", ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG),
  DEVICE_COMM_DESTROY("ncclDevCommDestroy", ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG);

  /** Functions that return strings: for a result, and for a communicator's last error. */
  static final List<String> ERROR_TEXTS = List.of("ncclGetErrorString", "ncclGetLastError");

  private final String symbol;

  @SuppressWarnings("ImmutableEnumChecker") // descriptors are immutable, though unmarked
  private final FunctionDescriptor descriptor;

  NcclFunction(String symbol, MemoryLayout... parameters) {
    this.symbol = symbol;
    this.descriptor = FunctionDescriptor.of(ValueLayout.JAVA_INT, parameters);
  }

  /** Exported name. */
  String symbol() {
    return symbol;
  }

  /** Whether ep4j works without the function on older versions. */
  boolean optional() {
    return this == PEER_POINTER || this == DEVICE_COMM_CREATE || this == DEVICE_COMM_DESTROY;
  }

  /** Parameters; the result is always an ncclResult_t. */
  FunctionDescriptor descriptor() {
    return descriptor;
  }
}
