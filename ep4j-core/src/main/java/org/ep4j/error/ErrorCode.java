package org.ep4j.error;

import java.util.Locale;
import java.util.Optional;

/**
 * The stable code of an error: what is wrong and what to do, independent of the words of one
 * message. Every message of ep4j begins with a code ({@code EP4J-1000: …}); programs, logs and
 * tests match the code. Each constant states its {@link #cause()} and its {@link #remedy()}; {@code
 * docs/errors.md} and {@code ep4j errors} print them. A code never changes its meaning, and the
 * number of a removed code is not used again.
 */
public enum ErrorCode {
  // 1000 to 1399: arguments of the API, groups, memory, wires and files.

  INVALID_ARGUMENT(
      1000,
      "An argument or a setting has a value that is not allowed.",
      "The message names the argument, its value, the allowed values and the remedy."),

  HIDDEN_SIZE(
      1001,
      "The row length is not positive, or rows do not fill whole 16-byte units.",
      "Pad the rows to the multiple that the message names. Low-latency operations need a multiple"
          + " of 128."),

  TOP_K(
      1002,
      "The number of choices per token is out of range.",
      "Choose 1 to 64 experts per token, and at most as many as exist."),

  EXPERT_PLACEMENT(
      1003,
      "The number of experts or ranks is not positive, or an expert is placed on a rank that does"
          + " not exist.",
      "Pass positive numbers and a table that names an existing rank for each expert."),

  TOKEN_LIMIT(
      1004,
      "A token or row maximum is not positive, or a buffer has no kind of operation.",
      "Configure highThroughput, lowLatency or both, with the largest batch."),

  ROW_DTYPE(
      1005,
      "The element type cannot be the payload of a buffer.",
      "Choose BF16, FP16, FP32, FP8_E4M3 or NVFP4."),

  BUFFER_SETTING(
      1006,
      "A setting of a buffer is out of range.",
      "Correct the setting that the message names, or leave it out for the default."),

  NAME_UNKNOWN(
      1007,
      "A configuration names an engine, a wire or a backend that does not exist.",
      "Use one of the names that the message lists, or add the module that provides it."),

  EXPERT_LOAD(
      1008,
      "The loads of experts are negative, all zero, too large to sum, or not one for each expert.",
      "Pass the tokens that each expert received, as counted or recorded."),

  EXPERT_REPLICAS(
      1009,
      "Experts with their replicas cannot fill the slots of these ranks.",
      "Choose replicas such that each rank has a slot, and no expert has more replicas than there"
          + " are ranks. With groups, all ranks need equal slots."),

  TENSOR_SHAPE(
      1010,
      "The shape of a tensor is not valid.",
      "Pass one to three extents, none of them negative. NVFP4 needs an even number of elements."),

  TENSOR_MEMORY(
      1011,
      "A memory segment is shorter than the tensor.",
      "Pass a segment that holds the whole tensor."),

  TENSOR_DEVICE(
      1012,
      "The ordinal of a device is negative.",
      "Pass the ordinal of the GPU that owns the memory."),

  TENSOR_RANGE(
      1013,
      "A range of rows is outside the tensor, or begins or ends inside a byte.",
      "Stay inside the outermost dimension; begin and end rows of NVFP4 at whole bytes."),

  TENSOR_INDEX(
      1014, "The index of an element is outside the tensor.", "Use 0 to Tensor.elements() - 1."),

  TENSOR_DTYPE(
      1015,
      "An array, a buffer or a conversion does not fit the element type of a tensor.",
      "Use an element type that the message names."),

  TENSOR_BYTE_ORDER(
      1016,
      "A buffer has another byte order than this machine. A new ByteBuffer is big-endian.",
      "Call order(ByteOrder.nativeOrder()) on the ByteBuffer before you put or read values."),

  TENSOR_VALUES(
      1017,
      "The number of values differs from the number of elements of the tensor.",
      "Pass one value for each element."),

  PAYLOAD_SHAPE(
      1020,
      "The rows of a payload do not have the shape [tokens, hidden].",
      "Reshape the tensor to two dimensions."),

  PAYLOAD_SCALES(
      1021,
      "The scales of a payload do not fit its rows.",
      "Pass scales in the type and shape that the message names. Only FP8_E4M3 and NVFP4 rows have"
          + " scales."),

  ROUTING_SHAPE(
      1022,
      "The ids or weights of a routing do not have the shape [tokens, topK].",
      "Pass topK ids for each token and, if any, one weight for each id."),

  DENSE_ROW_TOO_LONG(
      1023,
      "A token of a dense routing map has more experts than topK.",
      "Pass a topK that suffices for every token, or drop experts of the token."),

  REPLICA_TABLE(
      1024,
      "A table of replicas does not fit its placement, or leaves an expert without a replica.",
      "Name one logical expert for each physical one, and every logical expert at least once."),

  SLOT_MEMORY(
      1025,
      "The memory of a slot is not native, or not as long as the weights of an expert, or that length"
          + " is out of range.",
      "Pass native memory of a shared arena, or of a device, with the bytes of one expert for each"
          + " local slot."),

  NO_OBSERVATION(
      1026,
      "Bytes are no observation of a rank, or observations are not of one buffer.",
      "Pass what `ExpertBuffer.observe` returned for the same buffer on its ranks, and run one"
          + " version of ep4j."),

  OPTIONS_EXCLUSIVE(
      1030,
      "Two options of an operation exclude each other.",
      "Remove one of the options that the message names."),

  MAX_ROWS(
      1031,
      "The fixed number of received rows is not positive.",
      "Pass the largest row count to Sizing.atMost, or use Sizing.EXACT."),

  EXPERT_ALIGNMENT(1032, "The expert alignment is not positive.", "Pass 1 for no alignment."),

  GLOBAL_SCALE(
      1033, "The NVFP4 factor is not positive and finite.", "Pass 448 * 6 / amax of the tensor."),

  RECEIVE_ROWS_TOO_FEW(
      1034,
      "A receive region holds fewer rows than a single token can need.",
      "Raise maxReceiveRows to at least the number that the message names, or leave it out."),

  NATIVE_OBJECT(
      1040,
      "A number passed to the C interface names no open object of the expected kind.",
      "Pass the number that the C interface returned, before the object is closed and while its"
          + " results are valid."),

  NATIVE_STRUCTURE(
      1041,
      "A pointer or a structure passed to the C interface is not valid.",
      "Pass no NULL pointers, set each structure's size to its sizeof, and use the header `ep4j.h` of"
          + " the same version as the jars."),

  NATIVE_VALUE(
      1042,
      "A field of a structure of the C interface has a value that no constant of `ep4j.h` has.",
      "Use a constant that the message names; set unused fields to 0."),

  NATIVE_STRIDES(
      1043,
      "A tensor passed to the C interface has gaps or another order of dimensions.",
      "Make the tensor contiguous and row-major. Only scales may be column-major."),

  METRICS_SETTING(
      1050,
      "A limit of metrics is not positive, or a tag has a key that is empty, reserved or taken.",
      "Pass a limit of 1 or more, and keys other than those that the message lists."),

  CHECKPOINT_MODEL(
      1060,
      "A file of a checkpoint is missing or invalid, or describes another model than those that the"
          + " module reads.",
      "Pass the directory of a checkpoint in Hugging Face's format: a Mixtral for ep4j-jlama; a"
          + " Mixtral, Qwen3-MoE or DeepSeek-V3 for ep4j-moe."),

  CHECKPOINT_TENSORS(
      1061,
      "A checkpoint lacks tensors that its config.json describes, or has others.",
      "Use all weights and the config.json of one checkpoint."),

  CHECKPOINT_SHAPE(
      1062,
      "A tensor of a checkpoint has another shape than its config.json describes.",
      "Use the config.json of these weights."),

  MOE_SHAPE(
      1063,
      "Sizes of a Mixture-of-Experts layer are out of range, or do not fit its buffer or weights.",
      "Pass shape, buffer and weights of one layer."),

  CHAT_REQUEST(
      1064,
      "A chat asks for what the model cannot do: tools, images, JSON, maxOutputTokens below 1, or a"
          + " conversation without a chat template.",
      "Leave it out of the request, or use a checkpoint that can do it."),

  MOE_SCORES(
      1065,
      "The router of a Mixture-of-Experts layer computed a logit that is infinite or no number.",
      "Look for such values in the token that the message names, and in the weights of the router."),

  MOE_TRAINING(
      1066,
      "A layer over a buffer for rows of FP8 alone was asked to train: gradients do not travel in"
          + " FP8.",
      "Open a buffer for wider rows, and pass FP8_E4M3 to MoeLayer as the type of tokens."),

  SPARK_NO_BARRIER_STAGE(
      1070,
      "Code asks for the ranks of a barrier stage outside of a task of such a stage.",
      "Call SparkRanks.group in code that SparkRanks.call, SparkRanks.mapPartitions or"
          + " RDDBarrier.mapPartitions runs."),

  SPARK_SLOTS(
      1071,
      "A Spark cluster cannot run all ranks at the same time.",
      "Add executors or cores, lower spark.task.cpus, or use fewer ranks: one for each slot."),

  SPARK_DYNAMIC_ALLOCATION(
      1072,
      "Spark allocates executors dynamically, which barrier stages do not support.",
      "Set spark.dynamicAllocation.enabled to false, and a number of executors for all ranks."),

  SPARK_JVM(
      1073,
      "The executors of a Spark cluster run on a JVM that is too old for ep4j.",
      "Set JAVA_HOME on the workers, or spark.executorEnv.JAVA_HOME, to a JDK 25 or newer."),

  GROUP_SIZE(
      1100,
      "The rank or the size of a group is out of range.",
      "Pass 1 to 65536 ranks, and a rank from 0 to size - 1."),

  RENDEZVOUS_ADDRESS(
      1101,
      "The host or port of the rendezvous is not valid.",
      "Pass the host name or address and a port from 1 to 65535, the same on all ranks."),

  SECRET_MISSING(
      1102,
      "A group of several ranks has no secret.",
      "Give all ranks the same long random text, for example in EP4J_SECRET."),

  JOB_NAME(1103, "The name of the job is too long.", "Use at most 200 characters."),

  GROUP_TIMING(
      1104,
      "A timeout, heartbeat or liveness interval is out of range.",
      "Pass positive durations. The liveness timeout must be at least two heartbeat intervals."),

  CONTRIBUTION_SIZE(
      1105,
      "A rank passes more to a group than allGather (1 MiB) or notice (1 KiB) carries.",
      "Send large data through symmetric memory or a wire."),

  LAUNCH_VARIABLE(
      1110,
      "An environment variable of the launcher or of ep4j has a value that is not valid.",
      "Correct the variable that the message names."),

  LAUNCH_VARIABLE_MISSING(
      1111,
      "The environment describes a rank only in part.",
      "Set the variable that the message names."),

  WIRE_SETTING(
      1200,
      "A setting of a wire is out of range.",
      "Correct the setting that the message names, or leave it out for the default."),

  WIRE_VARIABLE(
      1201,
      "An environment variable EP4J_WIRE_* has a value that is not valid.",
      "Correct the variable, or unset it for the default."),

  WIRE_MEMORY_KIND(
      1202,
      "Memory passed to a wire is on the Java heap, confined to a thread, or has a negative device"
          + " number.",
      "Allocate native memory in a shared arena, or pass the number of the GPU."),

  WIRE_LANE(
      1203,
      "A peer, lane or progress context does not exist on the wire.",
      "Use the numbers that the message allows, or open the wire with more lanes or progress"
          + " contexts."),

  WIRE_PUT_RANGE(
      1204, "A put reads or writes outside a region.", "Split the put, or make the region larger."),

  WIRE_COUNTER(1205, "A counter does not exist on the wire.", "Open the wire with more counters."),

  // 1400 to 1699: arguments of operations, checked by engines and by the host engine.

  WRONG_TENSOR(
      1400,
      "A tensor has another type or shape than the operation takes.",
      "Pass a tensor of the type and shape in the message."),

  TENSOR_NOT_ON_HOST(
      1401,
      "The host engine got a tensor in device memory.",
      "Copy the tensor to the host, or open the buffer with engine 'cuda'."),

  TENSOR_CLOSED(
      1402,
      "The memory of a tensor is closed.",
      "Close its arena after the last operation that uses the tensor."),

  TENSOR_READ_ONLY(1403, "An output tensor lies in read-only memory.", "Pass a writable segment."),

  STREAM_ON_HOST(
      1404,
      "The host engine got a device stream.",
      "Pass no stream, or open the buffer with engine 'cuda'."),

  ROW_TYPE_TOO_WIDE(
      1405,
      "The rows have a type that the buffer cannot carry.",
      "Convert the rows, or open the buffer with a wider rowDType."),

  SCALES_TOO_WIDE(
      1406,
      "The scales of a row need more bytes than the buffer reserves.",
      "Use one scale for 16 values or more."),

  ROWS_NOT_ALIGNED(
      1407,
      "The bytes of a row are not a multiple of 16.",
      "Pad hidden to the multiple in the message."),

  TOO_MANY_TOKENS(
      1408,
      "A batch has more tokens than the buffer takes.",
      "Split the batch, or open the buffer with a larger maximum."),

  TOP_K_TOO_LARGE(
      1409,
      "A routing has another top-k than the buffer takes.",
      "Open the buffer with a larger topK."),

  TOKENS_DIFFER(
      1410,
      "Two arguments of one operation have different numbers of tokens.",
      "Pass one row for each token in both, with expert -1 for a token without experts."),

  ALIGNMENT_TOO_LARGE(
      1411,
      "The expert alignment exceeds that of the buffer.",
      "Open the buffer with a larger expertAlignment."),

  ROW_LIMIT_TOO_LARGE(
      1412,
      "The row limit of a dispatch exceeds the receive region.",
      "Pass a smaller limit, or raise maxReceiveRows, up to the worst case of the layouts."),

  TOO_FEW_ROWS(
      1413,
      "A tensor has fewer rows than this rank received.",
      "Pass one row for each received row."),

  OUTPUT_OVERLAPS(
      1414,
      "The output overlaps an input that is read at the same time.",
      "Pass other memory as output."),

  NO_SUCH_EXPERT(
      1415,
      "A routing names an expert that does not exist.",
      "Use an id below BufferConfig.experts, or -1 for no expert."),

  ROUTING_CHANGED(
      1416,
      "A combine got another routing than its dispatch.",
      "Pass the routing of the dispatch, with -1 for entries to skip."),

  EXPERT_TWICE(
      1417,
      "A token names an expert twice.",
      "Name each expert once for a token; use -1 for no expert. Padding rows, which DeepEP lets"
          + " pass as [0, 0, …], are rows of -1."),

  NO_SUCH_RANK(
      1418,
      "A rank argument is outside the group, or names the caller.",
      "Pass a rank of the group in the range of the message."),

  RANK_EXCLUDED(
      1419,
      "The rank was dead at the last reset.",
      "Restart the rank and call readmit() on all ranks."),

  WEIGHTS_MISSING(
      1420,
      "A call that needs routing weights got none.",
      "Pass topkWeights in the routing, for applyWeights in that of the dispatch."),

  HIDDEN_NOT_IN_BLOCKS(
      1421,
      "The scale kind needs hidden in whole blocks.",
      "Use FLOAT32_POW2, or pad hidden to the multiple in the message."),

  OPTION_NOT_FOR_LAYOUT(
      1422,
      "An option of a combine does not exist for the layout of its dispatch.",
      "Leave the option out, or dispatch with EXPERT_MAJOR."),

  COMBINE_ORDER(
      1435,
      "A kind of combine does not have this order of sums.",
      "Use RANK or EXPERT in high throughput, CHOICE or EXPERT in low latency."),

  ZERO_COPY_MISMATCH(
      1423,
      "zeroCopy and the address of the rows contradict each other.",
      "With zeroCopy write the rows to lowLatencyCombineBuffer(handle); without"
          + " zeroCopy use other memory."),

  WRONG_HANDLE(
      1424,
      "A handle is not one of a dispatch of this buffer.",
      "Pass the handle that the dispatch of the same buffer returned."),

  CALL_EXPERTS(
      1432,
      "A call has another number of experts than its buffer can serve.",
      "Pass a multiple of the number of ranks, with at most as many experts a rank as each rank"
          + " of the buffer has."),

  LAYOUT_NOT_DECLARED(
      1433,
      "A buffer was not opened for the layout of a dispatch.",
      "Declare all layouts of the dispatches: HighThroughputConfig.Builder.layouts."),

  ROWS_NOT_IN_REGION(
      1434,
      "The rows of a combine lie where peers cannot read them, in a buffer that promises to combine"
          + " in place.",
      "Write results into Dispatch.combineInput, or open the buffer without combineInPlace or with"
          + " both layouts."),

  PLACEMENT_OF_OTHER_GROUP(
      1425,
      "The expert placement is for another number of ranks.",
      "Build the placement with the size of the group."),

  RECEIVE_REGION_TOO_LARGE(
      1426,
      "The receive region needs more rows than an int can count.",
      "Set maxReceiveRows to what the batches need, or lower maxTokens."),

  TYPE_NOT_SUMMED(1427, "A combine cannot sum rows of this type.", "Use BF16, FP16 or FP32."),

  BAD_SM_COUNT(
      1428,
      "The number of SMs or threads is negative.",
      "Pass 0 for the choice of the engine, or a positive number."),

  BAD_VECTOR_WIDTH(
      1429,
      "The property ep4j.host.vectorBits has a value that this JVM cannot use.",
      "Leave the property out, set it to 0, or start java with --add-modules"
          + " jdk.incubator.vector."),

  HANDLE_OF_OTHER_LAYOUT(
      1430,
      "The handle of a flat dispatch is used for a grouped one, or the reverse.",
      "Call dispatch with handles of dispatch, and dispatchGrouped with handles of"
          + " dispatchGrouped."),

  ROWS_OF_OTHER_HANDLE(
      1431,
      "Debug mode: the rows of a combine are results of another dispatch than that of its handle.",
      "Pass the rows and the handle of one dispatch, and combine before the next dispatch"
          + " overwrites the rows."),

  // 1700 to 1899: arguments of CUDA bindings, the CUDA engine and backends.

  CUDA_LAUNCH_CONFIG(
      1700,
      "The configuration of a kernel launch is outside the limits of CUDA.",
      "The message names the value and the limit. Launch blocks and threads within the limits."),

  CUDA_KERNEL_PARAMETERS(
      1701,
      "The sizes of launch parameters differ from those of the compiled kernel.",
      "Describe the parameters as the kernel declares them."),

  CUDA_SHARED_MEMORY(
      1702,
      "A kernel needs more shared memory per block than the device has.",
      "Request less dynamic shared memory."),

  CUDA_MEMORY_SIZE(
      1703, "An allocation has less than one byte.", "Allocate at least one byte, or nothing."),

  CUDA_HANDLE(
      1704,
      "A handle of a stream or of shared memory is not valid.",
      "Pass the handle exactly as the library or the exporter returned it."),

  CUDA_SHARING_UNSUPPORTED(
      1705, "The device does not support this kind of memory sharing.", "Use IpcMemory instead."),

  CUDA_DEVICE(
      1706,
      "The selected CUDA device does not exist in this process.",
      "Select one of the visible devices, or check CUDA_VISIBLE_DEVICES and EP4J_CUDA_DEVICE."),

  CUDA_HEAP_COPY(
      1707,
      "A copy in stream order uses a heap segment, which the JVM may move.",
      "Use PinnedMemory, or a copy that waits."),

  CUDA_EXPERTS_PER_RANK(
      1710, "A rank has more experts than kernels can address.", "Use more ranks."),

  CUDA_EXPERT_COUNTERS(
      1711,
      "The counters of experts and ranks do not fit into the shared memory of a block.",
      "Use fewer experts or more ranks. The message contains the sizes."),

  CUDA_LOW_LATENCY_TOKENS(
      1712,
      "The maxTokens of LowLatencyConfig exceeds the limit of low-latency kernels.",
      "Use high-throughput operations for large batches."),

  CUDA_MASKING_INTERNODE(
      1714,
      "The CUDA engine does not support masking between nodes whose wire is a library of the backend.",
      "Choose another wire, disable masking, or use the engine 'host'."),

  CUDA_INTERNODE_UNSUPPORTED(
      1715,
      "The CUDA engine does not support this call on a buffer that spans several nodes.",
      "The message names a configuration that supports the call."),

  CUDA_SMS(
      1716,
      "The number of SMs of an operation exceeds the share of this rank.",
      "Use 0 for the choice of the engine, or a number within the limit."),

  CUDA_TENSOR_MEMORY(
      1717,
      "A tensor is on the wrong device, on the host during a capture, or not aligned.",
      "Copy it to the device of this rank, aligned to 16 bytes."),

  CUDA_COMBINE_ORDER(
      1752,
      "High-throughput combines on GPUs before sm_90 do not sum in the order of experts.",
      "Use the default order, or engine(\"host\")."),

  CUDA_ORDERED_ROWS(
      1753,
      "On GPUs a combine in the order of experts reads the rows where their holders keep them, and"
          + " peers cannot read these, or, between nodes, the buffer was opened without"
          + " combineInPlace.",
      "Open the buffer with combineInPlace and write the rows into Dispatch.combineInput."),

  CUDA_CAPTURE_EXACT(
      1719,
      "A captured dispatch needs a fixed number of rows, because a replay cannot report counts to"
          + " the host.",
      "Use Sizing.atMost."),

  PUT_SHAPE(
      1720,
      "The shape of memory that kernels put into is outside the limits.",
      "The message names the value and the limit."),

  PUT_KERNEL_NOT_LOADED(
      1721, "A kernel was not in the list of DevicePut.load.", "Add the kernel to the list."),

  PROBE_LOAD(
      1722,
      "The load of a probe is outside the limits.",
      "The message names the value and the limit."),

  PROXY_CONFIG(
      1730,
      "A setting of the proxy is outside the limits or does not match the wire.",
      "The message names the setting. Unset EP4J_PROXY_THREADS and EP4J_PROXY_CORES to use the"
          + " defaults."),

  LIBRARY_LANES(
      1731,
      "The wire 'backend' has fewer lanes than it was asked for.",
      "Lower WireOptions.lanes or EP4J_WIRE_LANES to the number in the message, or leave them out."),

  KERNEL_SPEC(
      1740,
      "The architecture, a macro or the source of a kernel is not valid.",
      "Pass an architecture such as sm_90a, macro names of letters, digits and _, and a kernel file"
          + " of this jar."),

  KERNEL_CACHE_SETTING(
      1741,
      "A setting or a key of the cubin cache is not valid.",
      "Set EP4J_CUDA_CACHE_MB to a number of MiB, at least 1, and EP4J_CUDA_CACHE to a directory, or"
          + " unset them."),

  NCCL_SETTING(
      1750,
      "A setting of the NCCL backend is not valid.",
      "Unset EP4J_NCCL_GIN_CONTEXTS and EP4J_NCCL_GIN_COMMS, or set them to numbers from 1 to 999"
          + " and from 1 to 32."),

  NCCL_EXCHANGE_SIZE(
      1751,
      "An exchange sends more bytes than it was opened for.",
      "Open the exchange with the largest size."),

  // 1900 to 1999: arguments of RDMA and the command line.

  BAD_OPTION_VALUE(
      1900,
      "An option has a value that is not allowed.",
      "The message names the option, its value and the allowed values. Correct the value."),

  UNKNOWN_OPTION(
      1901,
      "The command does not have this option or argument.",
      "List the options with `--help`. Put the options of a launched program behind `--`."),

  UNKNOWN_COMMAND(
      1902, "ep4j does not have this command.", "List the commands with `./ep4j --help`."),

  MISSING_ARGUMENT(
      1903,
      "A required option, argument or subcommand is missing.",
      "Add it. The syntax is in `--help`."),

  CONFLICTING_OPTIONS(
      1904,
      "Two options contradict each other.",
      "Leave one of them out, or make their values agree."),

  INAPPLICABLE_OPTION(
      1905,
      "An option does not apply to the selected operation, engine or layout.",
      "Leave the option out, or select what the message names."),

  UNKNOWN_WIRE(
      1906,
      "No wire has this name.",
      "Use one of the names in the message. `./ep4j doctor` shows which wires work on this"
          + " host."),

  BAD_JSON_FILE(
      1907,
      "The file of `--json` or `--placement-out` cannot be created.",
      "Name a file in a directory that exists and is writable."),

  OUTPUT_IS_INPUT(
      1908,
      "The output directory is the input directory.",
      "Name another output directory: results do not replace inputs."),

  JOIN_WITHOUT_LAUNCHER(
      1909,
      "`--join` is set, but no launcher started this process as a rank.",
      "Start the command with mpirun, srun, torchrun or `./ep4j launch`, or leave `--join`"
          + " out."),

  WRONG_NUMBER_OF_RANKS(
      1910,
      "The number of ranks does not fit the work.",
      "Start as many ranks as the message names."),

  NOT_A_CLONE(
      1911,
      "`./ep4j bundle` or `./ep4j docs` was called outside a clone of the sources, or `./ep4j python`"
          + " outside a clone and a bundle.",
      "Call it in a clone of the sources, `./ep4j python` also in a bundle."),

  UNKNOWN_ERROR_CODE(1912, "No error has this code.", "List all codes with `./ep4j errors`."),

  BAD_RDMA_PORTS(
      1950,
      "`EP4J_IB_HCA` is not a list of RDMA ports.",
      "Write DEVICE:PORT, separated by commas, at most 8 for a rank. Separate the lists of"
          + " several local ranks by semicolons."),

  BAD_RDMA_SETTING(
      1951,
      "A variable `EP4J_IB_…` has a value that is not allowed.",
      "The message names the variable and the allowed values. Correct it, or leave it out"
          + " for the default."),

  // 2000 to 2299: calls that the state of an API object, a group or a wire does not allow.

  ILLEGAL_USE(
      2000,
      "The state of the object does not allow this call.",
      "The message names the state and the call that leaves it."),

  TENSOR_ON_DEVICE(
      2001,
      "A tensor in device memory is read on the host.",
      "Copy the tensor to the host first, for example with Tensor.onHost."),

  TENSOR_READ_TYPE(
      2002,
      "A tensor is read as numbers of a type that does not hold its elements.",
      "Use the method that the message names."),

  TENSOR_TOO_LARGE(
      2003,
      "A tensor has more elements or bytes than an array or a buffer can have.",
      "Read the tensor in parts, for example with Tensor.rows."),

  FORKED_PROCESS(
      2010,
      "A process calls ep4j that was forked after the JVM of its parent had started.",
      "Start ep4j after the fork, or execute a new program in the child. In Python, start processes"
          + " with the method `spawn`."),

  GROUP_CLOSED(
      2100,
      "The group is closed.",
      "Join a new group. Do not use the group after close() or fail()."),

  GROUP_CONCURRENT_USE(
      2101,
      "Two threads of one rank are inside collectives of the same group.",
      "Call collectives from one thread per rank."),

  MEMORY_CLOSED(
      2110,
      "The memory is closed.",
      "Keep the owner of the memory open while the memory is in use."),

  WIRE_CLOSED(2200, "The wire is closed.", "Do not use a wire or its lanes after close()."),

  REGION_UNUSABLE(
      2201,
      "The region is closed or belongs to another wire.",
      "Use open regions that the same wire made."),

  REGION_NOT_SHARED(
      2202,
      "The region is registered on this rank only, so peers have no part of it.",
      "Make the region with Wire.allocate or Wire.expose."),

  REGION_ON_DEVICE(
      2203,
      "The region is in device memory and has no host segment.",
      "Use Region.memory() for the device address."),

  RELOCATION_STATE(
      2210,
      "A relocation of experts has not begun, is not committed yet, has failed, or is closed.",
      "Call begin(), then commit() on all ranks. After a failure close the relocation on all ranks and"
          + " open another; the weights and the placement are those before begin()."),

  METRICS_STATE(
      2220,
      "Metrics are closed, or a registry has the same meters of another buffer.",
      "Build metrics of an open buffer, and give each buffer of a process tags of its own."),

  // 2300 to 2599: calls that the state of a buffer, a handle or a hook does not allow.

  HIGH_THROUGHPUT_OFF(
      2300,
      "The buffer was opened without high-throughput operations.",
      "Set BufferConfig.highThroughput."),

  LOW_LATENCY_OFF(
      2301,
      "The buffer was opened without low-latency operations.",
      "Set BufferConfig.lowLatency."),

  BUFFER_IN_USE(
      2302,
      "Two threads use one buffer or counter at the same time.",
      "Let one thread at a time call it, and close it after the last call has returned."),

  BUFFER_CLOSED(2303, "The buffer or counter is closed.", "Open a new one."),

  RESET_NEEDED(
      2304,
      "An earlier operation failed, so the buffer accepts only reset() and close().",
      "Call reset() on all live ranks."),

  READMIT_NEEDED(
      2305,
      "A restarted process has replaced a rank of the buffer.",
      "Call readmit() on all ranks that have the buffer."),

  NOTHING_TO_READMIT(
      2306,
      "No restarted rank waits for readmission.",
      "Call Group.readmit() on all live ranks first."),

  REJOIN_OF_THREADS(
      2307,
      "Ranks that are threads of one process cannot rejoin a buffer.",
      "Open a new buffer on all ranks."),

  HANDLE_CLOSED(2310, "The dispatch handle is closed.", "Close a handle after its last use."),

  HANDLE_OF_OTHER_BUFFER(
      2311,
      "The dispatch handle belongs to another buffer.",
      "Use a handle with the buffer that made it."),

  HANDLE_STALE(
      2312,
      "The dispatch handle is older than the last reset(), which discarded its rows.",
      "Dispatch again."),

  NO_RESULTS(
      2313,
      "The operation failed or was aborted, so it has no results.",
      "Read the error of the operation, call reset() if it asks for that, and repeat"
          + " the operation."),

  HOOK_NOT_CALLED(
      2320,
      "The hook of a low-latency operation has not been called yet.",
      "Call the hook, then use the results."),

  NO_HOOK(
      2321,
      "A low-latency operation without returnHook has no hook.",
      "Read the results at once, or start the operation with returnHook."),

  HOOK_CALLED_TWICE(
      2322, "The hook of a low-latency operation has been called before.", "Call each hook once."),

  RESULTS_OVERWRITTEN(
      2323,
      "Later operations have overwritten the results.",
      "Use or copy results before the next high-throughput operation of that kind, or the second"
          + " next low-latency one."),

  TOO_MANY_IN_FLIGHT(
      2324,
      "A third low-latency operation would be in flight.",
      "Call the hook of an earlier operation first."),

  COMBINE_REGION_IN_USE(
      2325,
      "The combine region of the handle holds rows that an operation still sends.",
      "Call the hook of that combine first."),

  RESULT_MISSING(
      2326,
      "The result does not have the tensor that an accessor was asked for.",
      "Ask hasScales(), hasGlobalScales() or hasWeights() first, or pass what the message names to"
          + " the operation."),

  // 2600 to 2799: calls that the state of CUDA objects or backends does not allow.

  CUDA_CLOSED(
      2600, "An object of CUDA, of a backend or of a proxy is closed.", "Create a new object."),

  NATIVE_LIBRARY_NOT_LOADED(
      2601,
      "A native library is called without a successful search for it.",
      "Call the probe or find() first and check its result."),

  CUDA_SHARING_MODE(
      2602,
      "The memory was allocated for another kind of sharing.",
      "Allocate the memory with the sharing mode that the message names."),

  READMISSION_UNSUPPORTED(
      2604,
      "The buffer cannot readmit ranks, because of its backend, its wire between nodes, or graphs that"
          + " hold addresses of low latency between nodes.",
      "Close the buffer on all ranks and open it again. The backend 'direct' readmits ranks, and"
          + " between nodes every wire but 'backend'."),

  RESET_UNSUPPORTED(
      2605,
      "The connection between nodes does not support a reset without these ranks.",
      "Close the buffer on all live ranks and open another one among them. If the message names the"
          + " setting highThroughput.lostRanks, a buffer opened with the number that it gives"
          + " continues after such a loss."),

  NCCL_WINDOW_MAPPED(
      2606, "The window of an NCCL region is registered already.", "Map the region once."),

  // 2800 to 2999: calls that the state of RDMA objects does not allow.

  // 3000 to 3999: groups: joining, membership, collectives.

  GROUP_FAILED(
      3000, "The ranks of a group could not agree.", "The message names the ranks and the cause."),

  JOIN_FAILED(
      3001,
      "A rank cannot reach the rendezvous because of an I/O error.",
      "The message names the error. Check the host name and the network."),

  JOIN_TIMEOUT(
      3002,
      "The group is not complete within the join timeout.",
      "Start the ranks that the message names, or raise EP4J_JOIN_TIMEOUT_MS."),

  RENDEZVOUS_NOT_HOSTED(
      3003,
      "This process cannot host the rendezvous at the configured address.",
      "Name a host and port that this process can bind."),

  SECRET_MISMATCH(
      3010,
      "The two ends of a connection do not have the same secret.",
      "Set the same EP4J_SECRET on all ranks, or give each job its own port."),

  PROTOCOL_MISMATCH(
      3011,
      "The peer does not speak this version of the group protocol.",
      "Run one version of ep4j on all ranks, and check that no other program has the port."),

  WORLD_SIZE_MISMATCH(
      3012,
      "The rank expects a different number of ranks than the rendezvous.",
      "Set the same world size on all ranks, or give each job its own port."),

  RANK_NOT_IN_GROUP(
      3013,
      "The rank number is outside the group.",
      "Use a rank from 0 to size - 1 that took part when the group formed."),

  DUPLICATE_RANK(
      3014,
      "Another live process already has this rank.",
      "Start one process per rank, or give each job its own port."),

  OTHER_JOB(3015, "The port serves another job.", "Give each job its own port."),

  RENDEZVOUS_PORT_TAKEN(
      3016,
      "Another program or job has the port of the rendezvous.",
      "Choose another port, for example in EP4J_RENDEZVOUS."),

  RANK_DECLARED_DEAD(
      3017,
      "The group has declared this rank dead.",
      "Start a new process that calls Group.rejoin."),

  RENDEZVOUS_CLOSED(
      3018,
      "The rendezvous closed before the group was complete, or the group has ended.",
      "Find the rank that failed first and start the job again."),

  REJOIN_PENDING(
      3019,
      "Another process already waits to be admitted as this rank.",
      "Start one process per rank."),

  GROUP_NOT_FORMED(
      3020,
      "A process rejoins or observes a group that has not formed yet.",
      "Call Group.join to be one of its first ranks; observe the job once all ranks have joined."),

  RENDEZVOUS_MOVING(
      3021, "The group is changing its rendezvous.", "Try again. Group.rejoin retries by itself."),

  TOO_MANY_OBSERVERS(
      3022,
      "A job has as many observers as its rendezvous serves.",
      "End one of them: each `./ep4j top` is one."),

  COLLECTIVE_TIMEOUT(
      3030,
      "Ranks did not call a collective before the deadline.",
      "The message names the ranks. Find out what they wait for, or raise the timeout."),

  COLLECTIVE_MISMATCH(
      3031,
      "Ranks call different collectives at the same position.",
      "All ranks must call the same collectives in the same order."),

  COLLECTIVE_LEAD(
      3032,
      "A rank is too many collectives ahead of another rank.",
      "Find out why the other rank calls no collectives."),

  PEER_LOST(
      3033,
      "A rank left the group, died or became silent.",
      "Find the cause on that rank, then call survivors() or readmit()."),

  RANK_LOST(
      3034,
      "This rank is no longer in the group.",
      "The message names the reason. End the process, and start a new one that calls"
          + " Group.rejoin."),

  RENDEZVOUS_LOST(
      3035,
      "The rendezvous ended, or the connection to it is lost.",
      "Call survivors() for a new group, or readmit() for a new rendezvous."),

  GROUP_INTERRUPTED(
      3036,
      "The thread was interrupted while it waited for other ranks.",
      "Find the caller of Thread.interrupt. A barrier or allGather counts as called on this rank;"
          + " other calls may be repeated."),

  READMIT_TIMEOUT(
      3037,
      "No restarted process came, or live ranks did not call readmit() in time.",
      "Start a process that calls Group.rejoin, and call readmit() on all live ranks."),

  READMIT_UNSUPPORTED(
      3038,
      "Ranks that are threads of one process cannot be readmitted.",
      "Use survivors(), or run ranks as processes."),

  SURVIVORS_TIMEOUT(
      3039,
      "Live ranks did not form a group of survivors in time.",
      "Call survivors() on all live ranks."),

  RANK_CODE_FAILED(
      3040,
      "The code of a rank threw an exception.",
      "The cause of the exception is what the code threw."),

  RANKS_STILL_RUNNING(
      3041,
      "Thread ranks did not end within the limit.",
      "The suppressed exceptions show where each rank was."),

  SHARED_MEMORY(
      3050,
      "A rank cannot create or map the shared memory of its node.",
      "Free or enlarge /dev/shm, set EP4J_SHM_DIR, and let the ranks of a node share one host."),

  CONFIGURATION_MISMATCH(
      3060,
      "The ranks do not have the same configuration.",
      "Set the fields that the message names to the same values on all ranks."),

  // 4000 to 4999: operations: peers that are late or dead, and failures that peers report.

  PEER_TIMEOUT(
      4000,
      "A peer did not do its part of an operation before the deadline, died, or is unreachable.",
      "The message names the rank. Find the cause on that rank, then call reset() on all live"
          + " ranks."),

  RECEIVE_OVERFLOW(
      4001,
      "More rows are routed to a rank than its receive region holds.",
      "Raise HighThroughputConfig.maxReceiveRows, or the limit of Sizing.atMost(n)."),

  OUT_OF_SHARED_MEMORY(
      4002,
      "The system cannot provide a page of shared memory.",
      "Call reset() on all live ranks and send fewer tokens, or close the buffer on all ranks and"
          + " open one with lower maxTokens, or enlarge /dev/shm (or EP4J_SHM_DIR)."),

  EVENT_WAIT_INTERRUPTED(
      4003,
      "The thread was interrupted while it waited for an asynchronous operation.",
      "Wait again: the operation continues and has a deadline of its own."),

  PREVIOUS_EVENT_LATE(
      4004,
      "The event that an operation waits for has not completed before the deadline.",
      "Complete the event, then repeat the operation. Nothing was sent."),

  OPERATION_INTERRUPTED(
      4005,
      "The thread was interrupted while its operation waited for other ranks.",
      "Call reset() on all live ranks, or close the buffer."),

  OPERATIONS_DIFFER(
      4010,
      "The ranks call different operations, or one operation with different arguments.",
      "Call the same operations in the same order on all ranks. Call reset() on all ranks first."),

  HANDLES_DIFFER(
      4011,
      "The ranks use handles of different dispatches.",
      "Use the handle of the same dispatch on all ranks. Call reset() on all ranks first."),

  OPERATIONS_MISSED(
      4012,
      "A rank was masked and has missed low-latency operations.",
      "Call cleanMask() on all ranks while none is inside an operation, or call reset()."),

  CONFIGURATIONS_DIFFER(
      4020,
      "The ranks cannot share a buffer, because their configurations differ.",
      "Open the buffer with the same configuration on all ranks."),

  NODE_ON_TWO_HOSTS(
      4021,
      "ranksPerNode puts ranks of different hosts into one node, and these share no memory.",
      "Start ranksPerNode ranks on each host, or leave ranksPerNode out; for hosts of an NVLink"
          + " domain, check nvidia-imex."),

  HOST_RANKS_NOT_CONSECUTIVE(
      4022,
      "The ranks of a host are not consecutive.",
      "Number the ranks host by host (mpirun --map-by slot, srun --distribution=block)."),

  RESET_AND_READMIT_MIXED(
      4023,
      "Some ranks call reset() and others readmit().",
      "Call the same method on all live ranks."),

  BUFFER_LOST(
      4024,
      "No live rank has the buffer that a rank wants to rejoin.",
      "Open a new buffer on all ranks."),

  REJOINING_RANK_LOST(
      4025,
      "The ranks that were to rejoin the buffer have died again.",
      "Start the ranks again and repeat readmit(). The buffer is unchanged."),

  PEER_FAILED(
      4026,
      "Another rank reports that its part of opening or recovering a buffer failed.",
      "Read the error of the named rank, which the message contains."),

  CALL_FAILED(
      4027,
      "An operation ended with an unexpected exception.",
      "Read the cause. Report it as a defect of ep4j, then call reset() on all live ranks."),

  // 5000 to 5499: wires between nodes.

  WIRE_FAILED(
      5000,
      "A wire cannot be opened, or cannot do what a rank asked of it.",
      "The message names the wire and the cause."),

  WIRE_UNKNOWN(
      5001,
      "The requested kind of wire does not exist on a rank.",
      "Correct the name, or add the module of the wire to the module path or class path."),

  WIRE_UNSUITABLE(
      5002,
      "The requested kind of wire cannot connect these ranks.",
      "Choose another wire, or leave the setting at auto."),

  WIRE_CONNECT(
      5003,
      "A rank cannot connect to another rank.",
      "Check the network and firewalls between the hosts that the message names."),

  PORTS_IDLE(
      5004,
      "Ports of an RDMA network are active, but the wire is `tcp`.",
      "The message names the ports, and the rank, host and cause that kept `auto` from using them."
          + " Mend that, or set the wire to `tcp` to have it without a probe."),

  WIRE_MEMORY_UNREACHABLE(
      5010,
      "The wire cannot read the memory, or cannot let peers write to it.",
      "Use memory of Wire.allocate, or copy device memory to the host first."),

  TLS_UNAVAILABLE(
      5011,
      "This JDK, or the `sslContext` of the caller, cannot encrypt with TLS 1.3.",
      "Use a JDK with TLS 1.3, and a context that is initialized and exports keying material; or"
          + " open the wire without encryption."),

  LANE_FAILED(
      5020,
      "A lane failed while a caller waited for its work.",
      "The message names the peer and the cause. Look for the end of that process or connection."),

  WIRE_TIMEOUT(
      5021,
      "Work on a wire did not complete within the timeout.",
      "The message names the work. Check that the peer polls its wire."),

  // 5500 to 5999: wires on RDMA verbs and UCX.

  VERBS_CALL_FAILED(
      5500,
      "A call of libibverbs failed.",
      "The message names the function and the error. Check the device with `ibv_devinfo`"
          + " and `./ep4j doctor`."),

  VERBS_OUT_OF_MEMORY(
      5501,
      "libibverbs cannot lock memory or create a queue (ENOMEM).",
      "Raise the limit of locked memory (`ulimit -l unlimited`), or lower"
          + " `EP4J_IB_QP_DEPTH`."),

  VERBS_PEER_UNREACHABLE(
      5502,
      "A queue pair cannot be connected: the address of the peer does not answer" + " (ETIMEDOUT).",
      "Check that this port reaches the address of the peer: cable, subnet and"
          + " `EP4J_IB_GID_INDEX`."),

  RDMA_NO_PORT(
      5510,
      "This host has no active RDMA port.",
      "Check `ls /sys/class/infiniband` and the cables, or use another wire."),

  RDMA_PORT_MISSING(
      5511,
      "`EP4J_IB_HCA` names a port that this host does not have.",
      "Name a port that `./ep4j doctor` lists."),

  RDMA_PORT_DOWN(
      5512,
      "`EP4J_IB_HCA` names a port that is not active.",
      "Connect its cable, or leave the port out."),

  RDMA_NO_PROVIDER(
      5513,
      "The system lists an RDMA device that libibverbs cannot open.",
      "Install the provider of the device (packages ibverbs-providers, rdma-core), and let"
          + " the process open `/dev/infiniband/uverbs*`."),

  RDMA_DEVICE_LIMIT(
      5514,
      "A device holds fewer requests or completions than the wire needs.",
      "Lower `EP4J_IB_QP_DEPTH` or `EP4J_IB_QPS_PER_PORT`."),

  RDMA_DEVICE_MEMORY(
      5515,
      "A port cannot access the memory of a GPU.",
      "Load the kernel module nvidia-peermem, or set `EP4J_IB_GPUDIRECT=0` on all hosts."),

  RDMA_SETTINGS_DIFFER(
      5516,
      "Two ranks have different RDMA settings.",
      "Set the variable in the message to the same value on all hosts."),

  VERBS_NO_ENCRYPTION(
      5517, "The wire verbs does not encrypt.", "Use the wire tcp, or disable encryption."),

  VERBS_QUEUE_PAIR_LOST(
      5518,
      "A queue pair of the wire verbs failed.",
      "Check the port and the cable in the message, then call reset() on all live ranks."),

  UCX_CALL_FAILED(
      5600,
      "A call of UCX failed.",
      "The message names the function and the status. Set `UCX_LOG_LEVEL=info` for the"
          + " details."),

  UCX_SETTING_REFUSED(
      5601,
      "UCX refuses a system property `ep4j.ucx.…`.",
      "Correct the property; `ucx_info -c` lists the settings."),

  UCX_NO_ANSWER(
      5602,
      "Ranks did not answer over UCX before the timeout.",
      "Check that `UCX_TLS` and `UCX_NET_DEVICES` name networks on which these ranks reach"
          + " this host."),

  UCX_PEER_UNREACHABLE(
      5603,
      "A rank cannot be reached over UCX.",
      "Check on that rank whether the process still runs, and which networks `UCX_TLS` and"
          + " `UCX_NET_DEVICES` name."),

  UCX_SINGLE_THREADED(
      5604,
      "The installed UCX does not support several threads.",
      "Install a libucp that was configured with `--enable-mt`."),

  UCX_NO_ENCRYPTION(
      5605,
      "The wire ucx does not encrypt.",
      "Use the wire tcp, or encrypt below the wire, for example with IPsec."),

  UCX_CONNECTION_LOST(
      5606,
      "A connection of the wire ucx failed.",
      "Check the rank and the network in the message, then call reset() on all live ranks."),

  // 6000 to 6999: engines, backends, devices, compilers and native libraries.

  ENGINE_UNAVAILABLE(
      6000,
      "This machine has no usable engine, backend or device of the requested kind.",
      "The message names what is missing. `ep4j doctor` shows all of it."),

  CUDA_CALL_FAILED(
      6100,
      "A call of the CUDA driver, NVRTC or nvJitLink failed.",
      "The message contains the name of the call and the error of the library; while a buffer is"
          + " opened, all ranks report it, with the rank and the purpose of the call."),

  NATIVE_LIBRARY_MISSING(
      6101,
      "A native library was not found, or is too old.",
      "Install the library that the message names, or set its path in the named variable."),

  NATIVE_FUNCTION_MISSING(
      6102, "A native library lacks a function.", "Install a newer version of the library."),

  GPU_FAILED(
      6103,
      "The GPU failed: all work of this process on it is lost.",
      "Check dmesg for Xid errors and restart the process."),

  GPU_STUCK(
      6104,
      "The GPU has not ended an operation in time.",
      "Check the work that its stream waits for, then call reset() on all ranks."),

  PEER_ACCESS_MISSING(
      6105,
      "A device cannot access the memory of another device.",
      "Use GPUs with peer access (nvidia-smi topo -p2p r); between hosts, check nvidia-imex."),

  PEER_MEMORY_CLOSED(
      6106,
      "A rank closed its memory while others mapped it.",
      "Open and close a buffer on all ranks together."),

  GPU_LINK_CORRUPT(
      6107,
      "Data that a GPU pushed to another GPU arrived wrong.",
      "Check nvidia-smi nvlink -e, the memory and the driver."),

  GPU_OUT_OF_MEMORY(
      6108,
      "A GPU, or the host, has too little free memory for a buffer.",
      "The message names the rank, the GPU, what is wanted and what is free. Lower"
          + " highThroughput.maxTokens, maxReceiveRows or lowLatency.maxTokens, or end the programs"
          + " that hold the memory (nvidia-smi). An operation that found too little memory at its"
          + " first use can be repeated."),

  RANK_OPEN_FAILED(
      6110,
      "One rank could not open a buffer or a backend, so all ranks failed.",
      "The message contains the rank and its error. Correct the error on that rank."),

  BACKEND_UNUSABLE(
      6111,
      "A backend cannot be used on a rank.",
      "Follow the message, or use the backend 'direct', which needs no library."),

  BACKEND_VERSIONS_DIFFER(
      6112,
      "The ranks have different versions of the library of a backend.",
      "Install one version on all hosts."),

  BACKEND_REFUSES_RANKS(
      6113,
      "A backend does not support these ranks on these devices and processes.",
      "The message names the ranks and a configuration that works."),

  BACKEND_NO_TRANSPORT(
      6114,
      "A backend has no transport between the nodes.",
      "Choose backend 'nccl' or 'nvshmem', or another wire."),

  LOW_LATENCY_KIND_MISMATCH(
      6115,
      "A peer dispatched low-latency rows of another kind.",
      "Call the same operations in the same order on all ranks, then call reset() on all ranks."),

  LL_PACKETS_MISMATCH(
      6116,
      "A returning rank cannot use packed flags as the other ranks do.",
      "Start it without EP4J_CUDA_LL_PACKETS=0, on a GPU with NVLink and with all GPUs visible."),

  PUT_CONFIG_MISMATCH(
      6117,
      "The ranks opened memory for puts with different configurations.",
      "Use the same configuration on all ranks."),

  CUDA_NO_BULK_COPIES(
      6118,
      "A GPU has no bulk copies, which combines in place need.",
      "Use GPUs of compute capability 9.0 or later, or open the buffer without combineInPlace."),

  LIBRARY_CALL_STUCK(
      6120,
      "A library call that waits for other ranks did not return in time.",
      "Check that all ranks make the call and can reach each other."),

  LIBRARY_CALL_RANK_LOST(
      6121,
      "A rank died while a library call waited for it.",
      "Find the cause on that rank, and start it again."),

  GPUDIRECT_UNSUPPORTED(
      6122,
      "The device does not order writes of network cards before reads of kernels.",
      "Turn GPUDirect off."),

  BUFFER_LEFT_OPEN(
      6123,
      "A buffer was closed while its GPU had not ended the last operation.",
      "Free the stream of the operation before closing, or end the process."),

  PUT_TIMEOUT(
      6124, "Puts of kernels did not arrive in time.", "Check the transport and the other rank."),

  INSTALLATION_MISSING(
      6130,
      "`EP4J_HOME` is not set, its directory has no jars of ep4j, or its name has a colon.",
      "Set it to the directory of an unpacked bundle, or of a clone in which `./ep4j --version` has"
          + " run."),

  JVM_MISSING(
      6131,
      "A C or Python program finds no library of a JVM (`libjvm.so`).",
      "Set `EP4J_JAVA_HOME` to the directory of a JDK 25, or use a bundle, which has a runtime."),

  JVM_NOT_STARTED(
      6132,
      "The JVM of a C or Python program does not start.",
      "Read what the JVM printed, correct `EP4J_JVM_OPTIONS`, and free memory."),

  JVM_WITHOUT_EP4J(
      6133,
      "The JVM of a C or Python program does not load the classes of ep4j.",
      "Use Java 25 or newer. If another part of the process starts the JVM, put the jars of"
          + " `EP4J_HOME` on its class path."),

  KERNEL_COMPILER_MISSING(
      6200,
      "A kernel is in no cache, and no compiler is usable.",
      "Install NVRTC, or fill the cache with ep4j cache warm on another machine."),

  KERNEL_COMPILATION_FAILED(
      6201,
      "The compiler of kernels failed or did not end in time.",
      "The message contains the output of the compiler."),

  KERNEL_LINKER_MISSING(
      6202,
      "Kernels cannot be linked to the device functions of a library.",
      "Install nvJitLink and NVRTC, which the message names."),

  KERNEL_ARCHITECTURE(
      6203,
      "The compiler does not support the architecture of the GPU.",
      "Install another version of NVRTC, or set its path in EP4J_NVRTC."),

  CUBLAS_MISSING(
      6210,
      "The products of a Mixture-of-Experts layer on GPUs need cuBLAS, which was not found or lacks"
          + " a function.",
      "Install cuBLAS of CUDA 12 or newer, or set its path in EP4J_CUBLAS."),

  CUBLAS_CALL_FAILED(
      6211,
      "A call of cuBLAS failed.",
      "The message contains the call and its result; CUBLAS_LOGINFO_DBG=1 makes cuBLAS log more."),

  PROXY_STOPPED(
      6300,
      "A thread of the proxy has stopped because of an error or an invalid command.",
      "The message contains the cause. Call reset() on all ranks, or open a new buffer."),

  PROXY_UNSENT(
      6301,
      "The proxy did not send all commands before its timeout.",
      "Check the wire and the peer that the message names."),

  PROXY_STUCK(6302, "A thread of the proxy did not end.", "End the process if the thread stays."),

  CORE_PINNING_FAILED(
      6303,
      "A thread could not be pinned to a core.",
      "Check EP4J_PROXY_CORES; taskset -p $$ shows the allowed cores."),

  FILE_DESCRIPTOR_COPY(
      6304,
      "A file descriptor could not be copied from another process or closed.",
      "Run both processes as one user with kernel.yama.ptrace_scope 0, in a container with"
          + " SYS_PTRACE."),

  NCCL_CALL_FAILED(6400, "A call of NCCL failed.", "Set NCCL_DEBUG=WARN for details."),

  NCCL_TIMEOUT(
      6401,
      "NCCL did not connect the ranks in time.",
      "Check the firewall, and set NCCL_SOCKET_IFNAME to the interface between the hosts."),

  NCCL_RANK_LOST(
      6402, "A rank died while NCCL connected the ranks.", "Find the cause on that rank."),

  NCCL_GIN_UNAVAILABLE(
      6403,
      "NCCL's GIN is not available.",
      "Install the version of NCCL that the message names, with InfiniBand or RoCE ports and"
          + " GPUDirect on all nodes."),

  NCCL_WINDOW_UNAVAILABLE(
      6404,
      "NCCL has no usable symmetric window for the memory.",
      "Check peer access and NCCL_CUMEM_ENABLE and NCCL_WIN_ENABLE, or use the backend 'direct'."),

  NCCL_UNIQUE_ID(
      6405,
      "The unique id of rank 0 is not one of this library.",
      "Install the same version of the library on all hosts."),

  NCCL_WIRE_UNUSABLE(
      6406,
      "The wire 'nccl' cannot be used by these ranks.",
      "Use the wire tcp, or follow the message."),

  NCCL_CONTEXTS_DIFFER(
      6407,
      "The ranks have different numbers of GIN contexts or communicators.",
      "Set EP4J_NCCL_GIN_CONTEXTS, EP4J_NCCL_GIN_COMMS and NCCL_GIN_NCONTEXTS to the same values on"
          + " all ranks, or unset them."),

  NVSHMEM_CALL_FAILED(6500, "A call of NVSHMEM failed.", "Set NVSHMEM_DEBUG=WARN for details."),

  NVSHMEM_BROKEN(
      6501,
      "NVSHMEM failed earlier in this process and cannot start again.",
      "Restart the process, or use the backend 'direct'."),

  NVSHMEM_IN_USE(
      6502,
      "NVSHMEM runs for another group of ranks, only on some ranks, or without the network that"
          + " these ranks need.",
      "Close the buffers that use it first, or set what the message names."),

  NVSHMEM_INCOMPATIBLE(
      6503,
      "The NVSHMEM library has other structures or another bootstrap than expected.",
      "Install NVSHMEM 3.4 on all hosts."),

  NVSHMEM_OUT_OF_MEMORY(
      6504,
      "The symmetric heap of NVSHMEM has too little memory.",
      "The message names the rank, the GPU, what is wanted and what is free. Lower"
          + " highThroughput.maxTokens, maxReceiveRows or lowLatency.maxTokens, free GPU memory, or"
          + " raise NVSHMEM_MAX_MEMORY_PER_GPU."),

  NVSHMEM_DEVICE_LIBRARY(
      6505,
      "NVSHMEM's device library is missing or unreadable.",
      "Install the developer package of NVSHMEM, or set its directory in EP4J_NVSHMEM_HOME."),

  // 7000 to 7299: files.

  BAD_FILE(
      7000,
      "A file cannot be read, or its content is wrong.",
      "The message names the file and the position in it."),

  SAFETENSORS_INVALID(
      7001,
      "A file is not a valid safetensors file.",
      "The message names the file and what is wrong. Write the file again."),

  TENSOR_NOT_FOUND(
      7002,
      "A file does not hold the requested tensor.",
      "Use one of the names that the message lists."),

  FILE_READ(7003, "A file cannot be read.", "Check the path and the permissions."),

  FILE_WRITE(
      7004, "A file cannot be written.", "Check the path, the permissions and the free space."),

  PROFILE_INVALID(
      7005,
      "A machine profile is not valid: not JSON, of another version, or with a constant that is"
          + " missing, unknown, out of range or without a source.",
      "Correct the constant that the message names. Start from a profile of `./ep4j plan"
          + " --machine NAME --profile`."),

  PLACEMENT_INVALID(
      7006,
      "A file of a placement is not valid: not JSON, of another version, or with ranks and experts"
          + " that do not fit.",
      "Write it with `./ep4j plan --balance --placement-out FILE`, or correct what the message"
          + " names."),

  RECORDED_ROUTING(
      7007,
      "A recorded routing is not valid: no ids [tokens, topk], files of different top-k, or a token"
          + " with an id below -1 or one expert twice.",
      "Record `topk_idx` again, I64 or I32, in one file or one for each rank."),

  // 7300 to 7599: verification and recorded cases.

  VERIFICATION_FAILED(
      7300,
      "An output differs from the result of the oracle.",
      "The message names the operation, the rank, the position and both values."),

  NO_CASE(
      7301,
      "The path is not a directory of recorded cases.",
      "Name the directory that holds rank0.safetensors, rank1.safetensors and so on."),

  CASE_INCOMPLETE(
      7302,
      "A recorded case lacks the file of a rank, a tensor or a metadata entry.",
      "Record the case again with all ranks."),

  CASE_INCONSISTENT(
      7303,
      "Parts of a recorded case contradict each other.",
      "Record the case again; all files must come from one run."),

  ROUTINGS_DO_NOT_MATCH(
      7304,
      "The routings do not match the ranks, the experts or each other.",
      "Pass one routing for each rank, all with the same top-k and at most as many"
          + " choices as experts."),

  CASE_METADATA(
      7305,
      "A metadata entry of a recorded case is missing or has a wrong value.",
      "Correct the entry that the message names, or pass the value as an option."),

  // 8000 to 8999: the command line.

  COMMAND_FAILED(
      8000,
      "A command cannot do its work.",
      "The message names the cause. `--help` lists the options."),

  WRONG_RESULT(
      8001,
      "A result differs from the oracle.",
      "Do not use the timings. Report the message, the command and the output of `./ep4j"
          + " doctor`."),

  NOT_ENOUGH_MEMORY(
      8002,
      "The ranks of a measurement need more memory than this machine has.",
      "Use fewer ranks, tokens or buffers, a smaller hidden size, or raise `EP4J_HEAP`."),

  NO_TARGET_GPU(
      8003,
      "`./ep4j cache warm` finds no GPU to compile kernels for.",
      "Name an architecture with `--arch`, for example sm_90a."),

  RANK_FAILED(
      8004,
      "A launched rank ended with an exit code other than 0.",
      "The message names the rank and its exit code. Find the cause in the output of that"
          + " rank."),

  RANKS_TIMED_OUT(
      8005,
      "Launched ranks still ran at the end of `--timeout`, and were ended.",
      "Raise `--timeout`, or find the rank that waits with `jstack`."),

  RANK_NOT_STARTED(
      8006,
      "The process of a rank cannot be started.",
      "Name an executable file or a command on the PATH."),

  LAUNCH_INTERRUPTED(
      8007, "The launch was interrupted before all ranks were started.", "Start it again."),

  NO_FREE_PORT(
      8008,
      "This host has no free TCP port for the rendezvous.",
      "End other processes that hold ports, or widen `net.ipv4.ip_local_port_range`."),

  WIRE_NOT_HERE(
      8009,
      "This host does not have what the requested wire needs.",
      "Install what the message names, or use another wire."),

  IP_TOOL_MISSING(8010, "The program ip cannot be run.", "Install the package iproute2."),

  IP_TOOL_TIMEOUT(
      8011, "A call of the program ip did not end.", "Run the command in the message by hand."),

  NAMESPACES_REFUSED(
      8012,
      "Network namespaces cannot be created.",
      "Run the launch as root, or name existing namespaces in `--hosts`."),

  NO_SUCH_NAMESPACE(
      8013,
      "`--hosts` names a network namespace that does not exist.",
      "Create it as root with `ip netns add`."),

  NAMESPACE_WITHOUT_ADDRESS(
      8014,
      "No interface of a network namespace is up and has an address.",
      "Add an address with `ip -n NAME addr add`, and set the interface up."),

  NAMESPACE_NOT_REMOVED(
      8015,
      "A network namespace of a launch could not be removed.",
      "Remove it as root with `ip netns del`."),

  FEW_OPEN_FILES(
      8016,
      "The limit of open files of a process is too low.",
      "Raise it, for example with `ulimit -n 1024` in the shell, or `LimitNOFILE` of a service."),

  OUTPUT_NOT_WRITTEN(
      8020,
      "An output file or directory cannot be written.",
      "Check that the directory exists, is writable and has space."),

  UNFINISHED_NOT_REMOVED(
      8021,
      "A directory of unfinished output files cannot be removed.",
      "Remove the directory in the message by hand."),

  NO_CASES(
      8022,
      "The directory holds no recorded case.",
      "Name a case, which is a directory with rank0.safetensors, or a directory with cases."),

  BACKGROUND_TRAFFIC_STUCK(
      8030,
      "An NCCL all-reduce of the background traffic does not end.",
      "Check that NCCL works between these GPUs without ep4j (nccl-tests), or leave"
          + " `--with-nccl-traffic` out."),

  PROXY_REFUSED(
      8031,
      "The proxy refused commands of the measurement.",
      "The message names the reason. Check the settings `EP4J_PROXY_…`."),

  MEASUREMENT_INTERRUPTED(
      8032,
      "A thread of a measurement failed, was interrupted or did not end.",
      "Repeat the command with `--verbose` for the stack trace."),

  PLAN_SHAPE(
      8040,
      "A plan has a number that is out of range, or numbers that do not divide each other.",
      "Correct the option that the message names. Ranks fill whole nodes, and experts are a"
          + " multiple of the ranks."),

  PLAN_ROUTING(
      8041,
      "A plan has a routing that the planner does not know.",
      "Use uniform, zipf, hot, grouped:G, or a file or directory with a recorded routing."),

  PLAN_PERTURBATION(
      8042,
      "A simulated plan has a perturbation that is out of range, or names a rank or port that does"
          + " not exist.",
      "Correct the option that the message names."),

  PLAN_MEASUREMENTS(
      8043,
      "Measured runs determine no constant of a machine profile.",
      "Name artifacts of `bench ht --json` on GPUs of one node, in layout FLAT, with several"
          + " numbers of SMs and of tokens."),

  JOB_NOT_FOUND(
      8060,
      "No job to observe runs on this host.",
      "Start one with several processes, or name the rendezvous of a job elsewhere with"
          + " `--rendezvous` and its secret in `EP4J_SECRET`."),

  JOB_AMBIGUOUS(
      8061,
      "Several jobs run on this host.",
      "Choose one of those in the message with `--rendezvous`."),

  JOB_UNREACHABLE(
      8062,
      "The rendezvous of a job does not answer an observer.",
      "Check the address, `EP4J_SECRET`, that the job runs, and that it has the same version of"
          + " ep4j."),

  ARTIFACT_INVALID(
      8050,
      "A file given to `./ep4j report` is no artifact of `bench ht|ll|all --json`.",
      "The message names the place. Name a file that such a run wrote, and has not been shortened."),

  ARTIFACT_FORMAT(
      8051,
      "An artifact has a format that this version of ep4j does not read.",
      "Use the version of ep4j that wrote it, or measure again with this one."),

  REPORT_NOTHING_IN_COMMON(
      8052,
      "Two runs have no operation in common.",
      "Compare runs of the same kind, formats and numbers of tokens, or report each alone."),

  REPORT_SAME_RUN(
      8053,
      "Two files of a report hold the same run, or the same time of one rank.",
      "Name each run and each recording once; of one rank, recordings of different times."),

  BAD_PAGE_FILE(
      8054,
      "The file of a page (`bench --html`, `report --output`) cannot be created.",
      "Name a file in a directory that exists and is writable, and that is no input."),

  RECORDING_INVALID(
      8055,
      "A file given to `./ep4j report` is no whole recording of the JDK's flight recorder.",
      "The message says what is wrong. Let the program end, or call `jcmd PID JFR.dump`, and copy "
          + "the file whole."),

  RECORDING_WITHOUT_EVENTS(
      8056,
      "A recording given to `./ep4j report` holds no events of ep4j.",
      "Record a rank of a program that calls ep4j; operations of less than 10 ms are events with "
          + "the setting `+org.ep4j.Operation#threshold=0ms`."),

  BAD_TRACE_FILE(
      8057,
      "The file of `bench --trace` cannot be created.",
      "Name a file in a directory that exists and is writable."),

  TRACE_UNAVAILABLE(
      8058,
      "`bench --trace` cannot record operations here.",
      "Measure the host engine (`--device host`), on a JVM with its flight recorder."),

  NO_JDK(
      8100,
      "The scripts find no JDK 25 or newer.",
      "Install one, or name its directory in `EP4J_JAVA_HOME`."),

  NO_MAVEN(
      8101,
      "The command line is not built, and Maven is not on the PATH.",
      "Install the package maven."),

  BUILD_FAILED(
      8102,
      "The build of the command line or of a bundle failed.",
      "The messages of the build are above."),

  NO_SUCH_TEST(
      8103,
      "`./ep4j test` finds no test class of this name, or ran no test of it.",
      "Name a class below src/test without its package."),

  MISSING_PROGRAM(
      8104,
      "A script needs a program or a file that this machine does not have.",
      "Install what the message names."),

  UNSUPPORTED_SYSTEM(
      8105,
      "This operating system or processor is not supported.",
      "Use Linux on x86-64 or AArch64: another machine, a virtual one, or WSL 2 on Windows."),

  UNEXPECTED_ERROR(
      8900,
      "An error occurred that ep4j does not expect.",
      "Repeat the command with `--verbose` and report the output: this is a defect of ep4j.");

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

  /** Number of the code, for example 1000. */
  public int number() {
    return number;
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
