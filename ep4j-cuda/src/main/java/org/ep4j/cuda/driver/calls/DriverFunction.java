package org.ep4j.cuda.driver.calls;

import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.ValueLayout;

/**
 * The functions of the driver library that ep4j calls: symbol and signature. The symbols are the
 * exported names, with the version suffixes that the header hides behind macros. Pointers and
 * handles are longs: a long needs no liveness check of a segment, so hot calls avoid its cost. A
 * test compares symbols and signatures with the header if a header is installed.
 */
public enum DriverFunction {
  GET_ERROR_NAME("cuGetErrorName", ValueLayout.JAVA_INT, ValueLayout.JAVA_LONG),
  GET_ERROR_STRING("cuGetErrorString", ValueLayout.JAVA_INT, ValueLayout.JAVA_LONG),
  INIT("cuInit", ValueLayout.JAVA_INT),
  DRIVER_GET_VERSION("cuDriverGetVersion", ValueLayout.JAVA_LONG),
  DEVICE_GET_COUNT("cuDeviceGetCount", ValueLayout.JAVA_LONG),
  DEVICE_GET("cuDeviceGet", ValueLayout.JAVA_LONG, ValueLayout.JAVA_INT),
  DEVICE_GET_NAME(
      "cuDeviceGetName", ValueLayout.JAVA_LONG, ValueLayout.JAVA_INT, ValueLayout.JAVA_INT),
  DEVICE_TOTAL_MEM("cuDeviceTotalMem_v2", ValueLayout.JAVA_LONG, ValueLayout.JAVA_INT),
  DEVICE_GET_ATTRIBUTE(
      "cuDeviceGetAttribute", ValueLayout.JAVA_LONG, ValueLayout.JAVA_INT, ValueLayout.JAVA_INT),
  DEVICE_GET_PCI_BUS_ID(
      "cuDeviceGetPCIBusId", ValueLayout.JAVA_LONG, ValueLayout.JAVA_INT, ValueLayout.JAVA_INT),
  DEVICE_CAN_ACCESS_PEER(
      "cuDeviceCanAccessPeer", ValueLayout.JAVA_LONG, ValueLayout.JAVA_INT, ValueLayout.JAVA_INT),
  DEVICE_GET_P2P_ATTRIBUTE(
      "cuDeviceGetP2PAttribute",
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_INT,
      ValueLayout.JAVA_INT,
      ValueLayout.JAVA_INT),
  DEVICE_PRIMARY_CTX_RETAIN(
      "cuDevicePrimaryCtxRetain", ValueLayout.JAVA_LONG, ValueLayout.JAVA_INT),
  DEVICE_PRIMARY_CTX_RELEASE("cuDevicePrimaryCtxRelease_v2", ValueLayout.JAVA_INT),
  CTX_SET_CURRENT("cuCtxSetCurrent", ValueLayout.JAVA_LONG),
  CTX_GET_CURRENT("cuCtxGetCurrent", ValueLayout.JAVA_LONG),
  CTX_PUSH_CURRENT("cuCtxPushCurrent_v2", ValueLayout.JAVA_LONG),
  CTX_POP_CURRENT("cuCtxPopCurrent_v2", ValueLayout.JAVA_LONG),
  CTX_SYNCHRONIZE("cuCtxSynchronize"),
  CTX_ENABLE_PEER_ACCESS("cuCtxEnablePeerAccess", ValueLayout.JAVA_LONG, ValueLayout.JAVA_INT),
  CTX_GET_STREAM_PRIORITY_RANGE(
      "cuCtxGetStreamPriorityRange", ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG),
  MEM_ALLOC("cuMemAlloc_v2", ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG),
  MEM_FREE("cuMemFree_v2", ValueLayout.JAVA_LONG),
  MEM_GET_INFO("cuMemGetInfo_v2", ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG),
  MEM_GET_ADDRESS_RANGE(
      "cuMemGetAddressRange_v2",
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_LONG),
  MEM_HOST_ALLOC(
      "cuMemHostAlloc", ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG, ValueLayout.JAVA_INT),
  MEM_FREE_HOST("cuMemFreeHost", ValueLayout.JAVA_LONG),
  MEM_HOST_REGISTER(
      "cuMemHostRegister_v2", ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG, ValueLayout.JAVA_INT),
  MEM_HOST_UNREGISTER("cuMemHostUnregister", ValueLayout.JAVA_LONG),
  MEM_HOST_GET_DEVICE_POINTER(
      "cuMemHostGetDevicePointer_v2",
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_INT),
  MEMCPY_HTOD(
      "cuMemcpyHtoD_v2", ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG),
  MEMCPY_DTOH(
      "cuMemcpyDtoH_v2", ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG),
  MEMCPY_HTOD_ASYNC(
      "cuMemcpyHtoDAsync_v2",
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_LONG),
  MEMCPY_DTOH_ASYNC(
      "cuMemcpyDtoHAsync_v2",
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_LONG),
  MEMCPY_ASYNC(
      "cuMemcpyAsync",
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_LONG),
  MEMSET_D8_ASYNC(
      "cuMemsetD8Async",
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_INT,
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_LONG),
  MEMSET_D32_ASYNC(
      "cuMemsetD32Async",
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_INT,
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_LONG),
  POINTER_GET_ATTRIBUTES(
      "cuPointerGetAttributes",
      ValueLayout.JAVA_INT,
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_LONG),
  STREAM_CREATE_WITH_PRIORITY(
      "cuStreamCreateWithPriority",
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_INT,
      ValueLayout.JAVA_INT),
  STREAM_DESTROY("cuStreamDestroy_v2", ValueLayout.JAVA_LONG),
  STREAM_SYNCHRONIZE("cuStreamSynchronize", ValueLayout.JAVA_LONG),
  STREAM_QUERY("cuStreamQuery", ValueLayout.JAVA_LONG),
  STREAM_WAIT_EVENT(
      "cuStreamWaitEvent", ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG, ValueLayout.JAVA_INT),
  STREAM_BEGIN_CAPTURE("cuStreamBeginCapture_v2", ValueLayout.JAVA_LONG, ValueLayout.JAVA_INT),
  STREAM_END_CAPTURE("cuStreamEndCapture", ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG),
  STREAM_IS_CAPTURING("cuStreamIsCapturing", ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG),
  THREAD_EXCHANGE_STREAM_CAPTURE_MODE("cuThreadExchangeStreamCaptureMode", ValueLayout.JAVA_LONG),
  EVENT_CREATE("cuEventCreate", ValueLayout.JAVA_LONG, ValueLayout.JAVA_INT),
  EVENT_DESTROY("cuEventDestroy_v2", ValueLayout.JAVA_LONG),
  EVENT_RECORD("cuEventRecord", ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG),
  EVENT_QUERY("cuEventQuery", ValueLayout.JAVA_LONG),
  EVENT_SYNCHRONIZE("cuEventSynchronize", ValueLayout.JAVA_LONG),
  EVENT_ELAPSED_TIME(
      "cuEventElapsedTime", ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG),
  GRAPH_INSTANTIATE(
      "cuGraphInstantiateWithFlags",
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_LONG),
  GRAPH_LAUNCH("cuGraphLaunch", ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG),
  GRAPH_UPLOAD("cuGraphUpload", ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG),
  GRAPH_EXEC_DESTROY("cuGraphExecDestroy", ValueLayout.JAVA_LONG),
  GRAPH_DESTROY("cuGraphDestroy", ValueLayout.JAVA_LONG),
  GRAPH_GET_NODES(
      "cuGraphGetNodes", ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG),
  MODULE_LOAD_DATA_EX(
      "cuModuleLoadDataEx",
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_INT,
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_LONG),
  MODULE_UNLOAD("cuModuleUnload", ValueLayout.JAVA_LONG),
  MODULE_GET_FUNCTION(
      "cuModuleGetFunction", ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG),
  MODULE_GET_GLOBAL(
      "cuModuleGetGlobal_v2",
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_LONG),
  FUNC_GET_ATTRIBUTE(
      "cuFuncGetAttribute", ValueLayout.JAVA_LONG, ValueLayout.JAVA_INT, ValueLayout.JAVA_LONG),
  FUNC_SET_ATTRIBUTE(
      "cuFuncSetAttribute", ValueLayout.JAVA_LONG, ValueLayout.JAVA_INT, ValueLayout.JAVA_INT),
  FUNC_GET_PARAM_INFO(
      "cuFuncGetParamInfo",
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_LONG),
  FUNC_LOAD("cuFuncLoad", ValueLayout.JAVA_LONG),
  LAUNCH_KERNEL_EX(
      "cuLaunchKernelEx",
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_LONG),
  OCCUPANCY_MAX_ACTIVE_BLOCKS(
      "cuOccupancyMaxActiveBlocksPerMultiprocessor",
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_INT,
      ValueLayout.JAVA_LONG),
  OCCUPANCY_MAX_ACTIVE_CLUSTERS(
      "cuOccupancyMaxActiveClusters",
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_LONG),
  IPC_GET_MEM_HANDLE("cuIpcGetMemHandle", ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG),
  IPC_OPEN_MEM_HANDLE(
      "cuIpcOpenMemHandle_v2",
      ValueLayout.JAVA_LONG,
      DriverLayouts.IPC_HANDLE,
      ValueLayout.JAVA_INT),
  IPC_CLOSE_MEM_HANDLE("cuIpcCloseMemHandle", ValueLayout.JAVA_LONG),
  MEM_ADDRESS_RESERVE(
      "cuMemAddressReserve",
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_LONG),
  MEM_ADDRESS_FREE("cuMemAddressFree", ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG),
  MEM_CREATE(
      "cuMemCreate",
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_LONG),
  MEM_RELEASE("cuMemRelease", ValueLayout.JAVA_LONG),
  MEM_MAP(
      "cuMemMap",
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_LONG),
  MEM_UNMAP("cuMemUnmap", ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG),
  MEM_SET_ACCESS(
      "cuMemSetAccess",
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_LONG),
  MEM_EXPORT(
      "cuMemExportToShareableHandle",
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_INT,
      ValueLayout.JAVA_LONG),
  MEM_IMPORT(
      "cuMemImportFromShareableHandle",
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_INT),
  MEM_GET_ALLOCATION_GRANULARITY(
      "cuMemGetAllocationGranularity",
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_INT),
  MEM_GET_HANDLE_FOR_ADDRESS_RANGE(
      "cuMemGetHandleForAddressRange",
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_LONG,
      ValueLayout.JAVA_INT,
      ValueLayout.JAVA_LONG);

  private final String symbol;

  @SuppressWarnings("ImmutableEnumChecker") // descriptors are immutable, though unmarked
  private final FunctionDescriptor descriptor;

  DriverFunction(String symbol, MemoryLayout... parameters) {
    this.symbol = symbol;
    this.descriptor = FunctionDescriptor.of(ValueLayout.JAVA_INT, parameters);
  }

  /** Exported name. */
  public String symbol() {
    return symbol;
  }

  /** Whether ep4j works without the function on older drivers. */
  boolean optional() {
    return this == FUNC_GET_PARAM_INFO || this == FUNC_LOAD;
  }

  /** Parameters; the result is always a CUresult. */
  public FunctionDescriptor descriptor() {
    return descriptor;
  }
}
