package org.ep4j;

import java.util.Locale;
import java.util.Optional;

/**
 * The stable code of an error: what is wrong and what to do, independent of the words of one
 * message. Every message of ep4j begins with a code ({@code EP4J-1000: …}); programs, logs and tests
 * match the code. {@code docs/errors.md} and {@code ep4j errors} list all codes. A code never changes
 * its meaning, and the number of a removed code is not used again.
 */
public enum ErrorCode {
  // 1000 to 1399: arguments of the API, groups, memory, wires and files.

  /** An argument or a setting has a value that is not allowed. */
  INVALID_ARGUMENT(
      1000,
      "An argument or a setting has a value that is not allowed.",
      "The message names the argument, its value, the allowed values and the remedy."),

  // 1400 to 1699: arguments of operations, checked by engines and by the host engine.

  // 1700 to 1899: arguments of CUDA bindings, the CUDA engine and backends.

  // 1900 to 1999: arguments of RDMA and the command line.

  /** The configuration of a kernel launch is outside the limits of CUDA. */
  CUDA_LAUNCH_CONFIG(
      1700,
      "The configuration of a kernel launch is outside the limits of CUDA.",
      "The message names the value and the limit. Launch blocks and threads within the limits."),

  /** The sizes of launch parameters differ from those of the compiled kernel. */
  CUDA_KERNEL_PARAMETERS(
      1701,
      "The sizes of launch parameters differ from those of the compiled kernel.",
      "Describe the parameters as the kernel declares them."),

  /** A kernel needs more shared memory per block than the device has. */
  CUDA_SHARED_MEMORY(
      1702,
      "A kernel needs more shared memory per block than the device has.",
      "Request less dynamic shared memory."),

  /** An allocation has less than one byte. */
  CUDA_MEMORY_SIZE(
      1703,
      "An allocation has less than one byte.",
      "Allocate at least one byte, or nothing."),

  /** A handle of a stream or of shared memory is not valid. */
  CUDA_HANDLE(
      1704,
      "A handle of a stream or of shared memory is not valid.",
      "Pass the handle exactly as the library or the exporter returned it."),

  /** The device does not support this kind of memory sharing. */
  CUDA_SHARING_UNSUPPORTED(
      1705,
      "The device does not support this kind of memory sharing.",
      "Use IpcMemory instead."),

  /** The selected CUDA device does not exist in this process. */
  CUDA_DEVICE(
      1706,
      "The selected CUDA device does not exist in this process.",
      "Select one of the visible devices, or check CUDA_VISIBLE_DEVICES and EP4J_CUDA_DEVICE."),

  /** A copy in stream order uses a heap segment, which the JVM may move. */
  CUDA_HEAP_COPY(
      1707,
      "A copy in stream order uses a heap segment, which the JVM may move.",
      "Use PinnedMemory, or a copy that waits."),

  /** A rank has more experts than kernels can address. */
  CUDA_EXPERTS_PER_RANK(
      1710,
      "A rank has more experts than kernels can address.",
      "Use more ranks."),

  /** The counters of experts and ranks do not fit into the shared memory of a block. */
  CUDA_EXPERT_COUNTERS(
      1711,
      "The counters of experts and ranks do not fit into the shared memory of a block.",
      "Use fewer experts or more ranks. The message contains the sizes."),

  /** BufferConfig.lowLatencyMaxTokens exceeds the limit of low-latency kernels. */
  CUDA_LOW_LATENCY_TOKENS(
      1712,
      "BufferConfig.lowLatencyMaxTokens exceeds the limit of low-latency kernels.",
      "Use high-throughput operations for large batches."),

  /** Combine does not sum rows of this type. */
  CUDA_COMBINE_DTYPE(
      1713,
      "Combine does not sum rows of this type.",
      "Pass BF16, FP16 or FP32 rows."),

  /** The CUDA engine does not support masking between several nodes. */
  CUDA_MASKING_INTERNODE(
      1714,
      "The CUDA engine does not support masking between several nodes.",
      "Disable masking, or use the engine 'host'."),

  /** The CUDA engine does not support this call on a buffer that spans several nodes. */
  CUDA_INTERNODE_UNSUPPORTED(
      1715,
      "The CUDA engine does not support this call on a buffer that spans several nodes.",
      "The message names a configuration that supports the call."),

  /** The number of SMs of an operation exceeds the share of this rank. */
  CUDA_SMS(
      1716,
      "The number of SMs of an operation exceeds the share of this rank.",
      "Use 0 for the choice of the engine, or a number within the limit."),

  /** A tensor is on the wrong device, on the host during a capture, or not aligned. */
  CUDA_TENSOR_MEMORY(
      1717,
      "A tensor is on the wrong device, on the host during a capture, or not aligned.",
      "Copy it to the device of this rank, aligned to 16 bytes."),

  /** The handle of a low-latency operation is not from this buffer. */
  CUDA_LOW_LATENCY_HANDLE(
      1718,
      "The handle of a low-latency operation is not from this buffer.",
      "Pass the result of lowLatencyDispatch of the same buffer."),

  /** A captured dispatch needs a fixed number of rows, because a replay cannot report counts to the host. */
  CUDA_CAPTURE_EXACT(
      1719,
      "A captured dispatch needs a fixed number of rows, because a replay cannot report counts to the host.",
      "Use Sizing.atMost."),

  /** The shape of memory that kernels put into is outside the limits. */
  PUT_SHAPE(
      1720,
      "The shape of memory that kernels put into is outside the limits.",
      "The message names the value and the limit."),

  /** A kernel was not in the list of DevicePut.load. */
  PUT_KERNEL_NOT_LOADED(
      1721,
      "A kernel was not in the list of DevicePut.load.",
      "Add the kernel to the list."),

  /** The load of a probe is outside the limits. */
  PROBE_LOAD(
      1722,
      "The load of a probe is outside the limits.",
      "The message names the value and the limit."),

  /** A setting of the proxy is outside the limits or does not match the wire. */
  PROXY_CONFIG(
      1730,
      "A setting of the proxy is outside the limits or does not match the wire.",
      "The message names the setting. Unset EP4J_PROXY_THREADS and EP4J_PROXY_CORES to use the defaults."),

  /** The architecture, a macro or the source of a kernel is not valid. */
  KERNEL_SPEC(
      1740,
      "The architecture, a macro or the source of a kernel is not valid.",
      "Pass an architecture such as sm_90a, macro names of letters, digits and _, and a kernel file of this jar."),

  /** A setting or a key of the cubin cache is not valid. */
  KERNEL_CACHE_SETTING(
      1741,
      "A setting or a key of the cubin cache is not valid.",
      "Set EP4J_CUDA_CACHE_MB to a number of MiB, at least 1, or unset it."),

  /** A setting of the NCCL backend is not valid. */
  NCCL_SETTING(
      1750,
      "A setting of the NCCL backend is not valid.",
      "Unset EP4J_NCCL_GIN_CONTEXTS, or set it to a number from 1 to 999."),

  /** An exchange sends more bytes than it was opened for. */
  NCCL_EXCHANGE_SIZE(
      1751,
      "An exchange sends more bytes than it was opened for.",
      "Open the exchange with the largest size."),

  // 2000 to 2299: calls that the state of an API object, a group or a wire does not allow.

  /** The state of the object does not allow the call. */
  ILLEGAL_USE(
      2000,
      "The state of the object does not allow this call.",
      "The message names the state and the call that leaves it."),

  // 2300 to 2599: calls that the state of a buffer, a handle or a hook does not allow.

  /** The buffer was opened without high-throughput operations. */
  HIGH_THROUGHPUT_OFF(
      2300,
      "The buffer was opened without high-throughput operations.",
      "Set BufferConfig.maxTokens."),

  /** The buffer was opened without low-latency operations. */
  LOW_LATENCY_OFF(
      2301,
      "The buffer was opened without low-latency operations.",
      "Set BufferConfig.lowLatencyMaxTokens."),

  /** Two threads use one buffer at the same time. */
  BUFFER_IN_USE(
      2302,
      "Two threads use one buffer at the same time.",
      "Let one thread at a time call a buffer, and close it after the last call has returned."),

  /** The buffer is closed. */
  BUFFER_CLOSED(
      2303,
      "The buffer is closed.",
      "Open a new buffer."),

  /** An earlier operation failed, so the buffer accepts only reset() and close(). */
  RESET_NEEDED(
      2304,
      "An earlier operation failed, so the buffer accepts only reset() and close().",
      "Call reset() on all live ranks."),

  /** A restarted process has replaced a rank of the buffer. */
  READMIT_NEEDED(
      2305,
      "A restarted process has replaced a rank of the buffer.",
      "Call readmit() on all ranks that have the buffer."),

  /** No restarted rank waits for readmission. */
  NOTHING_TO_READMIT(
      2306,
      "No restarted rank waits for readmission.",
      "Call Group.readmit() on all live ranks first."),

  /** Ranks that are threads of one process cannot rejoin a buffer. */
  REJOIN_OF_THREADS(
      2307,
      "Ranks that are threads of one process cannot rejoin a buffer.",
      "Open a new buffer on all ranks."),

  /** The dispatch handle is closed. */
  HANDLE_CLOSED(
      2310,
      "The dispatch handle is closed.",
      "Close a handle after its last use."),

  /** The dispatch handle belongs to another buffer. */
  HANDLE_OF_OTHER_BUFFER(
      2311,
      "The dispatch handle belongs to another buffer.",
      "Use a handle with the buffer that made it."),

  /** The dispatch handle is older than the last reset(), which discarded its rows. */
  HANDLE_STALE(
      2312,
      "The dispatch handle is older than the last reset(), which discarded its rows.",
      "Dispatch again."),

  /** The operation failed or was aborted, so it has no results. */
  NO_RESULTS(
      2313,
      "The operation failed or was aborted, so it has no results.",
      "Read the error of the operation, call reset() if it asks for that, and repeat"
 + " the operation."),

  /** The hook of a low-latency operation has not been called yet. */
  HOOK_NOT_CALLED(
      2320,
      "The hook of a low-latency operation has not been called yet.",
      "Call the hook, then use the results."),

  /** A low-latency operation without returnHook has no hook. */
  NO_HOOK(
      2321,
      "A low-latency operation without returnHook has no hook.",
      "Read the results at once, or start the operation with returnHook."),

  /** The hook of a low-latency operation has been called before. */
  HOOK_CALLED_TWICE(
      2322,
      "The hook of a low-latency operation has been called before.",
      "Call each hook once."),

  /** Later low-latency operations have overwritten the results. */
  RESULTS_OVERWRITTEN(
      2323,
      "Later low-latency operations have overwritten the results.",
      "Use or copy results before the second next operation of that kind."),

  /** A third low-latency operation would be in flight. */
  TOO_MANY_IN_FLIGHT(
      2324,
      "A third low-latency operation would be in flight.",
      "Call the hook of an earlier operation first."),

  /** The combine region of the handle holds rows that an operation still sends. */
  COMBINE_REGION_IN_USE(
      2325,
      "The combine region of the handle holds rows that an operation still sends.",
      "Call the hook of that combine first."),

  // 2600 to 2799: calls that the state of CUDA objects or backends does not allow.

  // 2800 to 2999: calls that the state of RDMA objects does not allow.

  /** An object of CUDA, of a backend or of a proxy is closed. */
  CUDA_CLOSED(
      2600,
      "An object of CUDA, of a backend or of a proxy is closed.",
      "Create a new object."),

  /** A native library is called without a successful search for it. */
  NATIVE_LIBRARY_NOT_LOADED(
      2601,
      "A native library is called without a successful search for it.",
      "Call the probe or find() first and check its result."),

  /** The memory was allocated for another kind of sharing. */
  CUDA_SHARING_MODE(
      2602,
      "The memory was allocated for another kind of sharing.",
      "Allocate the memory with the sharing mode that the message names."),

  /** A captured low-latency operation would allocate memory. */
  CUDA_CAPTURE_ALLOCATES(
      2603,
      "A captured low-latency operation would allocate memory.",
      "Run the same operations twice before the capture."),

  /** The backend of the buffer cannot readmit ranks. */
  READMISSION_UNSUPPORTED(
      2604,
      "The backend of the buffer cannot readmit ranks.",
      "Close the buffer on all ranks and open it again, or use the backend 'direct'."),

  /** The transport between nodes does not support a reset without these ranks. */
  RESET_UNSUPPORTED(
      2605,
      "The transport between nodes does not support a reset without these ranks.",
      "Close the buffer on all live ranks and open another one among them."),

  /** The window of an NCCL region is registered already. */
  NCCL_WINDOW_MAPPED(
      2606,
      "The window of an NCCL region is registered already.",
      "Map the region once."),

  // 3000 to 3999: groups: joining, membership, collectives.

  /** Ranks could not agree. */
  GROUP_FAILED(
      3000,
      "The ranks of a group could not agree.",
      "The message names the ranks and the cause."),

  // 4000 to 4999: operations: peers that are late or dead, and failures that peers report.

  /** A peer was late or died. */
  PEER_TIMEOUT(
      4000,
      "A peer did not do its part of an operation before the deadline, or died.",
      "The message names the rank. Find the cause on that rank, then call reset() on all live"
          + " ranks."),

  // 5000 to 5499: wires between nodes.

  /** A wire cannot be opened or cannot do its work. */
  WIRE_FAILED(
      5000,
      "A wire cannot be opened, or cannot do what a rank asked of it.",
      "The message names the wire and the cause."),

  // 5500 to 5999: wires on RDMA verbs and UCX.

  // 6000 to 6999: engines, backends, devices, compilers and native libraries.

  /** An engine cannot run on this machine. */
  ENGINE_UNAVAILABLE(
      6000,
      "This machine has no usable engine, backend or device of the requested kind.",
      "The message names what is missing. `ep4j doctor` shows all of it."),

  /** A call of the CUDA driver, NVRTC or nvJitLink failed. */
  CUDA_CALL_FAILED(
      6100,
      "A call of the CUDA driver, NVRTC or nvJitLink failed.",
      "The message contains the name of the call and the error of the library."),

  /** A native library was not found, or is too old. */
  NATIVE_LIBRARY_MISSING(
      6101,
      "A native library was not found, or is too old.",
      "Install the library that the message names, or set its path in the named variable."),

  /** A native library lacks a function. */
  NATIVE_FUNCTION_MISSING(
      6102,
      "A native library lacks a function.",
      "Install a newer version of the library."),

  /** The GPU failed: all work of this process on it is lost. */
  GPU_FAILED(
      6103,
      "The GPU failed: all work of this process on it is lost.",
      "Check dmesg for Xid errors and restart the process."),

  /** The GPU has not ended an operation in time. */
  GPU_STUCK(
      6104,
      "The GPU has not ended an operation in time.",
      "Check the work that its stream waits for, then call reset() on all ranks."),

  /** A device cannot access the memory of another device. */
  PEER_ACCESS_MISSING(
      6105,
      "A device cannot access the memory of another device.",
      "Use GPUs with peer access (nvidia-smi topo -p2p r)."),

  /** A rank closed its memory while others mapped it. */
  PEER_MEMORY_CLOSED(
      6106,
      "A rank closed its memory while others mapped it.",
      "Open and close a buffer on all ranks together."),

  /** Data that a GPU pushed to another GPU arrived wrong. */
  GPU_LINK_CORRUPT(
      6107,
      "Data that a GPU pushed to another GPU arrived wrong.",
      "Check nvidia-smi nvlink -e, the memory and the driver."),

  /** One rank could not open a buffer or a backend, so all ranks failed. */
  RANK_OPEN_FAILED(
      6110,
      "One rank could not open a buffer or a backend, so all ranks failed.",
      "The message contains the rank and its error. Correct the error on that rank."),

  /** A backend cannot be used on a rank. */
  BACKEND_UNUSABLE(
      6111,
      "A backend cannot be used on a rank.",
      "Follow the message, or use the backend 'direct', which needs no library."),

  /** The ranks have different versions of the library of a backend. */
  BACKEND_VERSIONS_DIFFER(
      6112,
      "The ranks have different versions of the library of a backend.",
      "Install one version on all hosts."),

  /** A backend does not support these ranks on these devices and processes. */
  BACKEND_REFUSES_RANKS(
      6113,
      "A backend does not support these ranks on these devices and processes.",
      "The message names the ranks and a configuration that works."),

  /** A backend has no transport between the nodes. */
  BACKEND_NO_TRANSPORT(
      6114,
      "A backend has no transport between the nodes.",
      "Choose backend 'nccl' or 'nvshmem', or another wire."),

  /** A peer dispatched low-latency rows of another kind. */
  LOW_LATENCY_KIND_MISMATCH(
      6115,
      "A peer dispatched low-latency rows of another kind.",
      "Call the same operations in the same order on all ranks, then call reset() on all ranks."),

  /** A returning rank cannot use packed flags as the other ranks do. */
  LL_PACKETS_MISMATCH(
      6116,
      "A returning rank cannot use packed flags as the other ranks do.",
      "Start it without EP4J_CUDA_LL_PACKETS=0, on a GPU with NVLink and with all GPUs visible."),

  /** The ranks opened memory for puts with different configurations. */
  PUT_CONFIG_MISMATCH(
      6117,
      "The ranks opened memory for puts with different configurations.",
      "Use the same configuration on all ranks."),

  /** A library call that waits for other ranks did not return in time. */
  LIBRARY_CALL_STUCK(
      6120,
      "A library call that waits for other ranks did not return in time.",
      "Check that all ranks make the call and can reach each other."),

  /** A rank died while a library call waited for it. */
  LIBRARY_CALL_RANK_LOST(
      6121,
      "A rank died while a library call waited for it.",
      "Find the cause on that rank, and start it again."),

  /** The device does not order writes of network cards before reads of kernels. */
  GPUDIRECT_UNSUPPORTED(
      6122,
      "The device does not order writes of network cards before reads of kernels.",
      "Turn GPUDirect off."),

  /** A buffer was closed while its GPU had not ended the last operation. */
  BUFFER_LEFT_OPEN(
      6123,
      "A buffer was closed while its GPU had not ended the last operation.",
      "Free the stream of the operation before closing, or end the process."),

  /** Puts of kernels did not arrive in time. */
  PUT_TIMEOUT(
      6124,
      "Puts of kernels did not arrive in time.",
      "Check the transport and the other rank."),

  /** A kernel is in no cache, and no compiler is usable. */
  KERNEL_COMPILER_MISSING(
      6200,
      "A kernel is in no cache, and no compiler is usable.",
      "Install NVRTC, or fill the cache with ep4j cache warm on another machine."),

  /** The compiler of kernels failed or did not end in time. */
  KERNEL_COMPILATION_FAILED(
      6201,
      "The compiler of kernels failed or did not end in time.",
      "The message contains the output of the compiler."),

  /** Kernels cannot be linked to the device functions of a library. */
  KERNEL_LINKER_MISSING(
      6202,
      "Kernels cannot be linked to the device functions of a library.",
      "Install nvJitLink and NVRTC, which the message names."),

  /** The compiler does not support the architecture of the GPU. */
  KERNEL_ARCHITECTURE(
      6203,
      "The compiler does not support the architecture of the GPU.",
      "Install another version of NVRTC, or set its path in EP4J_NVRTC."),

  /** A thread of the proxy has stopped because of an error or an invalid command. */
  PROXY_STOPPED(
      6300,
      "A thread of the proxy has stopped because of an error or an invalid command.",
      "The message contains the cause. Call reset() on all ranks, or open a new buffer."),

  /** The proxy did not send all commands before its timeout. */
  PROXY_UNSENT(
      6301,
      "The proxy did not send all commands before its timeout.",
      "Check the wire and the peer that the message names."),

  /** A thread of the proxy did not end. */
  PROXY_STUCK(
      6302,
      "A thread of the proxy did not end.",
      "End the process if the thread stays."),

  /** A thread could not be pinned to a core. */
  CORE_PINNING_FAILED(
      6303,
      "A thread could not be pinned to a core.",
      "Check EP4J_PROXY_CORES; taskset -p $$ shows the allowed cores."),

  /** A file descriptor could not be copied from another process or closed. */
  FILE_DESCRIPTOR_COPY(
      6304,
      "A file descriptor could not be copied from another process or closed.",
      "Run both processes as one user with kernel.yama.ptrace_scope 0, in a container with SYS_PTRACE."),

  /** A call of NCCL failed. */
  NCCL_CALL_FAILED(
      6400,
      "A call of NCCL failed.",
      "Set NCCL_DEBUG=WARN for details."),

  /** NCCL did not connect the ranks in time. */
  NCCL_TIMEOUT(
      6401,
      "NCCL did not connect the ranks in time.",
      "Check the firewall, and set NCCL_SOCKET_IFNAME to the interface between the hosts."),

  /** A rank died while NCCL connected the ranks. */
  NCCL_RANK_LOST(
      6402,
      "A rank died while NCCL connected the ranks.",
      "Find the cause on that rank."),

  /** NCCL's GIN is not available. */
  NCCL_GIN_UNAVAILABLE(
      6403,
      "NCCL's GIN is not available.",
      "Install the version of NCCL that the message names, with InfiniBand or RoCE ports and GPUDirect on all nodes."),

  /** NCCL has no usable symmetric window for the memory. */
  NCCL_WINDOW_UNAVAILABLE(
      6404,
      "NCCL has no usable symmetric window for the memory.",
      "Check peer access and NCCL_CUMEM_ENABLE and NCCL_WIN_ENABLE, or use the backend 'direct'."),

  /** The unique id of rank 0 is not one of this library. */
  NCCL_UNIQUE_ID(
      6405,
      "The unique id of rank 0 is not one of this library.",
      "Install the same version of the library on all hosts."),

  /** The wire 'nccl' cannot be used by these ranks. */
  NCCL_WIRE_UNUSABLE(
      6406,
      "The wire 'nccl' cannot be used by these ranks.",
      "Use the wire tcp, or follow the message."),

  /** The ranks request different numbers of GIN contexts. */
  NCCL_CONTEXTS_DIFFER(
      6407,
      "The ranks request different numbers of GIN contexts.",
      "Set EP4J_NCCL_GIN_CONTEXTS to the same value on all ranks, or unset it."),

  /** A call of NVSHMEM failed. */
  NVSHMEM_CALL_FAILED(
      6500,
      "A call of NVSHMEM failed.",
      "Set NVSHMEM_DEBUG=WARN for details."),

  /** NVSHMEM failed earlier in this process and cannot start again. */
  NVSHMEM_BROKEN(
      6501,
      "NVSHMEM failed earlier in this process and cannot start again.",
      "Restart the process, or use the backend 'direct'."),

  /** NVSHMEM runs for another group of ranks, or only on some ranks. */
  NVSHMEM_IN_USE(
      6502,
      "NVSHMEM runs for another group of ranks, or only on some ranks.",
      "Close the buffers that use it first."),

  /** The NVSHMEM library has other structures or another bootstrap than expected. */
  NVSHMEM_INCOMPATIBLE(
      6503,
      "The NVSHMEM library has other structures or another bootstrap than expected.",
      "Install NVSHMEM 3.4 on all hosts."),

  /** The symmetric heap of NVSHMEM has too little memory. */
  NVSHMEM_OUT_OF_MEMORY(
      6504,
      "The symmetric heap of NVSHMEM has too little memory.",
      "Free GPU memory, or raise NVSHMEM_MAX_MEMORY_PER_GPU."),

  /** NVSHMEM's device library is missing or unreadable. */
  NVSHMEM_DEVICE_LIBRARY(
      6505,
      "NVSHMEM's device library is missing or unreadable.",
      "Install the developer package of NVSHMEM, or set its directory in EP4J_NVSHMEM_HOME."),

  // 7000 to 7299: files.

  /** A file cannot be read or has wrong content. */
  BAD_FILE(
      7000,
      "A file cannot be read, or its content is wrong.",
      "The message names the file and the position in it."),

  // 7300 to 7599: verification and recorded cases.

  // 8000 to 8999: the command line.

  /** A command cannot do its work. */
  COMMAND_FAILED(
      8000,
      "A command cannot do its work.",
      "The message names the cause. `--help` lists the options.");

  private final int number;
  private final String cause;
  private final String remedy;

  ErrorCode(int number, String cause, String remedy) {
    this.number = number;
    this.cause = cause;
    this.remedy = remedy;
  }

  /** The code as messages show it, for example {@code EP4J-1000}. */
  public String id() {
    return String.format(Locale.ROOT, "EP4J-%04d", number);
  }

  /** What is wrong: one sentence. */
  public String cause() {
    return cause;
  }

  /** What to do: one or two sentences. */
  public String remedy() {
    return remedy;
  }

  /** A message that begins with this code. */
  public String message(String text) {
    return id() + ": " + text;
  }

  /** The code at the beginning of the message of {@code error}; empty if there is none. */
  public static Optional<ErrorCode> of(Throwable error) {
    String message = error.getMessage();
    if (message != null) {
      for (ErrorCode code : values()) {
        if (message.startsWith(code.id() + ":")) {
          return Optional.of(code);
        }
      }
    }
    return Optional.empty();
  }

  /** Same as {@link #id()}. */
  @Override
  public String toString() {
    return id();
  }
}
