package org.ep4j;

import java.util.Locale;
import java.util.Optional;

/**
 * The stable code of an error: what is wrong and what to do, independent of the words of one
 * message. Every message of ep4j begins with a code ({@code EP4J-1000: …}); programs, logs and
 * tests match the code. {@code docs/errors.md} and {@code ep4j errors} list all codes. A code never
 * changes its meaning, and the number of a removed code is not used again.
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

  /** An option has a value that is not allowed. */
  BAD_OPTION_VALUE(
      1900,
      "An option has a value that is not allowed.",
      "The message names the option, its value and the allowed values. Correct the value."),

  /** The command does not have this option or argument. */
  UNKNOWN_OPTION(
      1901,
      "The command does not have this option or argument.",
      "List the options with `--help`. Put the options of a launched program behind `--`."),

  /** ep4j does not have this command. */
  UNKNOWN_COMMAND(
      1902, "ep4j does not have this command.", "List the commands with `./ep4j --help`."),

  /** A required option, argument or subcommand is missing. */
  MISSING_ARGUMENT(
      1903,
      "A required option, argument or subcommand is missing.",
      "Add it. The syntax is in `--help`."),

  /** Two options contradict each other. */
  CONFLICTING_OPTIONS(
      1904,
      "Two options contradict each other.",
      "Leave one of them out, or make their values agree."),

  /** An option does not apply to the selected operation, engine or layout. */
  INAPPLICABLE_OPTION(
      1905,
      "An option does not apply to the selected operation, engine or layout.",
      "Leave the option out, or select what the message names."),

  /** No wire has this name. */
  UNKNOWN_WIRE(
      1906,
      "No wire has this name.",
      "Use one of the names in the message. `./ep4j doctor` shows which wires work on this"
          + " host."),

  /** The file of {@code --json} cannot be created. */
  BAD_JSON_FILE(
      1907,
      "The file of `--json` cannot be created.",
      "Name a file in a directory that exists and is writable."),

  /** The output directory is the input directory. */
  OUTPUT_IS_INPUT(
      1908,
      "The output directory is the input directory.",
      "Name another output directory: results do not replace inputs."),

  /** {@code --join} is set, but no launcher started this process as a rank. */
  JOIN_WITHOUT_LAUNCHER(
      1909,
      "`--join` is set, but no launcher started this process as a rank.",
      "Start the command with mpirun, srun, torchrun or `./ep4j launch`, or leave `--join`"
          + " out."),

  /** The number of ranks does not fit the work. */
  WRONG_NUMBER_OF_RANKS(
      1910,
      "The number of ranks does not fit the work.",
      "Start as many ranks as the message names."),

  /** {@code ./ep4j bundle} was called outside a clone of the sources. */
  NOT_A_CLONE(
      1911,
      "`./ep4j bundle` was called outside a clone of the sources.",
      "Call it in a clone of the sources."),

  /** No error has this code. */
  UNKNOWN_ERROR_CODE(1912, "No error has this code.", "List all codes with `./ep4j errors`."),

  /** {@code EP4J_IB_HCA} is not a list of RDMA ports. */
  BAD_RDMA_PORTS(
      1950,
      "`EP4J_IB_HCA` is not a list of RDMA ports.",
      "Write DEVICE:PORT, separated by commas, at most 8 for a rank. Separate the lists of"
          + " several local ranks by semicolons."),

  /** A variable {@code EP4J_IB_…} has a value that is not allowed. */
  BAD_RDMA_SETTING(
      1951,
      "A variable `EP4J_IB_…` has a value that is not allowed.",
      "The message names the variable and the allowed values. Correct it, or leave it out"
          + " for the default."),

  // 2000 to 2299: calls that the state of an API object, a group or a wire does not allow.

  /** The state of the object does not allow the call. */
  ILLEGAL_USE(
      2000,
      "The state of the object does not allow this call.",
      "The message names the state and the call that leaves it."),

  // 2300 to 2599: calls that the state of a buffer, a handle or a hook does not allow.

  // 2600 to 2799: calls that the state of CUDA objects or backends does not allow.

  // 2800 to 2999: calls that the state of RDMA objects does not allow.

  // 3000 to 3999: groups: joining, membership, collectives.

  /** Ranks could not agree. */
  GROUP_FAILED(
      3000, "The ranks of a group could not agree.", "The message names the ranks and the cause."),

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

  /** A call of libibverbs failed. */
  VERBS_CALL_FAILED(
      5500,
      "A call of libibverbs failed.",
      "The message names the function and the error. Check the device with `ibv_devinfo`"
          + " and `./ep4j doctor`."),

  /** libibverbs cannot lock memory or create a queue (ENOMEM). */
  VERBS_OUT_OF_MEMORY(
      5501,
      "libibverbs cannot lock memory or create a queue (ENOMEM).",
      "Raise the limit of locked memory (`ulimit -l unlimited`), or lower"
          + " `EP4J_IB_QP_DEPTH`."),

  /** A queue pair cannot be connected: the address of the peer does not answer (ETIMEDOUT). */
  VERBS_PEER_UNREACHABLE(
      5502,
      "A queue pair cannot be connected: the address of the peer does not answer" + " (ETIMEDOUT).",
      "Check that this port reaches the address of the peer: cable, subnet and"
          + " `EP4J_IB_GID_INDEX`."),

  /** This host has no active RDMA port. */
  RDMA_NO_PORT(
      5510,
      "This host has no active RDMA port.",
      "Check `ls /sys/class/infiniband` and the cables, or use another wire."),

  /** {@code EP4J_IB_HCA} names a port that this host does not have. */
  RDMA_PORT_MISSING(
      5511,
      "`EP4J_IB_HCA` names a port that this host does not have.",
      "Name a port that `./ep4j doctor` lists."),

  /** {@code EP4J_IB_HCA} names a port that is not active. */
  RDMA_PORT_DOWN(
      5512,
      "`EP4J_IB_HCA` names a port that is not active.",
      "Connect its cable, or leave the port out."),

  /** The system lists an RDMA device that libibverbs cannot open. */
  RDMA_NO_PROVIDER(
      5513,
      "The system lists an RDMA device that libibverbs cannot open.",
      "Install the provider of the device (packages ibverbs-providers, rdma-core), and let"
          + " the process open `/dev/infiniband/uverbs*`."),

  /** A device holds fewer requests or completions than the wire needs. */
  RDMA_DEVICE_LIMIT(
      5514,
      "A device holds fewer requests or completions than the wire needs.",
      "Lower `EP4J_IB_QP_DEPTH` or `EP4J_IB_QPS_PER_PORT`."),

  /** A port cannot access the memory of a GPU. */
  RDMA_DEVICE_MEMORY(
      5515,
      "A port cannot access the memory of a GPU.",
      "Load the kernel module nvidia-peermem, or set `EP4J_IB_GPUDIRECT=0` on all hosts."),

  /** Two ranks have different RDMA settings. */
  RDMA_SETTINGS_DIFFER(
      5516,
      "Two ranks have different RDMA settings.",
      "Set the variable in the message to the same value on all hosts."),

  /** The wire verbs does not encrypt. */
  VERBS_NO_ENCRYPTION(
      5517, "The wire verbs does not encrypt.", "Use the wire tcp, or disable encryption."),

  /** A queue pair of the wire verbs failed. */
  VERBS_QUEUE_PAIR_LOST(
      5518,
      "A queue pair of the wire verbs failed.",
      "Check the port and the cable in the message, then call reset() on all live ranks."),

  /** A call of UCX failed. */
  UCX_CALL_FAILED(
      5600,
      "A call of UCX failed.",
      "The message names the function and the status. Set `UCX_LOG_LEVEL=info` for the"
          + " details."),

  /** UCX refuses a system property {@code ep4j.ucx.…}. */
  UCX_SETTING_REFUSED(
      5601,
      "UCX refuses a system property `ep4j.ucx.…`.",
      "Correct the property; `ucx_info -c` lists the settings."),

  /** Ranks did not answer over UCX before the timeout. */
  UCX_NO_ANSWER(
      5602,
      "Ranks did not answer over UCX before the timeout.",
      "Check that `UCX_TLS` and `UCX_NET_DEVICES` name networks on which these ranks reach"
          + " this host."),

  /** A rank cannot be reached over UCX. */
  UCX_PEER_UNREACHABLE(
      5603,
      "A rank cannot be reached over UCX.",
      "Check on that rank whether the process still runs, and which networks `UCX_TLS` and"
          + " `UCX_NET_DEVICES` name."),

  /** The installed UCX does not support several threads. */
  UCX_SINGLE_THREADED(
      5604,
      "The installed UCX does not support several threads.",
      "Install a libucp that was configured with `--enable-mt`."),

  /** The wire ucx does not encrypt. */
  UCX_NO_ENCRYPTION(
      5605,
      "The wire ucx does not encrypt.",
      "Use the wire tcp, or encrypt below the wire, for example with IPsec."),

  /** A connection of the wire ucx failed. */
  UCX_CONNECTION_LOST(
      5606,
      "A connection of the wire ucx failed.",
      "Check the rank and the network in the message, then call reset() on all live ranks."),

  // 6000 to 6999: engines, backends, devices, compilers and native libraries.

  /** An engine cannot run on this machine. */
  ENGINE_UNAVAILABLE(
      6000,
      "This machine has no usable engine, backend or device of the requested kind.",
      "The message names what is missing. `ep4j doctor` shows all of it."),

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
      "The message names the cause. `--help` lists the options."),

  /** A result differs from the oracle. */
  VERIFICATION_FAILED(
      8001,
      "A result differs from the oracle.",
      "Do not use the timings. Report the message, the command and the output of `./ep4j"
          + " doctor`."),

  /** The ranks of a measurement need more memory than this machine has. */
  NOT_ENOUGH_MEMORY(
      8002,
      "The ranks of a measurement need more memory than this machine has.",
      "Use fewer ranks, tokens or buffers, or a smaller hidden size."),

  /** {@code ./ep4j cache warm} finds no GPU to compile kernels for. */
  NO_TARGET_GPU(
      8003,
      "`./ep4j cache warm` finds no GPU to compile kernels for.",
      "Name an architecture with `--arch`, for example sm_90a."),

  /** A launched rank ended with an exit code other than 0. */
  RANK_FAILED(
      8004,
      "A launched rank ended with an exit code other than 0.",
      "The message names the rank and its exit code. Find the cause in the output of that"
          + " rank."),

  /** Launched ranks still ran at the end of {@code --timeout}, and were ended. */
  RANKS_TIMED_OUT(
      8005,
      "Launched ranks still ran at the end of `--timeout`, and were ended.",
      "Raise `--timeout`, or find the rank that waits with `jstack`."),

  /** The process of a rank cannot be started. */
  RANK_NOT_STARTED(
      8006,
      "The process of a rank cannot be started.",
      "Name an executable file or a command on the PATH."),

  /** The launch was interrupted before all ranks were started. */
  LAUNCH_INTERRUPTED(
      8007, "The launch was interrupted before all ranks were started.", "Start it again."),

  /** This host has no free TCP port for the rendezvous. */
  NO_FREE_PORT(
      8008,
      "This host has no free TCP port for the rendezvous.",
      "End other processes that hold ports, or widen `net.ipv4.ip_local_port_range`."),

  /** This host does not have what the requested wire needs. */
  WIRE_NOT_HERE(
      8009,
      "This host does not have what the requested wire needs.",
      "Install what the message names, or use another wire."),

  /** The program ip cannot be run. */
  IP_TOOL_MISSING(8010, "The program ip cannot be run.", "Install the package iproute2."),

  /** A call of the program ip did not end. */
  IP_TOOL_TIMEOUT(
      8011, "A call of the program ip did not end.", "Run the command in the message by hand."),

  /** Network namespaces cannot be created. */
  NAMESPACES_REFUSED(
      8012,
      "Network namespaces cannot be created.",
      "Run the launch as root, or name existing namespaces in `--hosts`."),

  /** {@code --hosts} names a network namespace that does not exist. */
  NO_SUCH_NAMESPACE(
      8013,
      "`--hosts` names a network namespace that does not exist.",
      "Create it as root with `ip netns add`."),

  /** No interface of a network namespace is up and has an address. */
  NAMESPACE_WITHOUT_ADDRESS(
      8014,
      "No interface of a network namespace is up and has an address.",
      "Add an address with `ip -n NAME addr add`, and set the interface up."),

  /** A network namespace of a launch could not be removed. */
  NAMESPACE_NOT_REMOVED(
      8015,
      "A network namespace of a launch could not be removed.",
      "Remove it as root with `ip netns del`."),

  /** An output file or directory cannot be written. */
  OUTPUT_NOT_WRITTEN(
      8020,
      "An output file or directory cannot be written.",
      "Check that the directory exists, is writable and has space."),

  /** A directory of unfinished output files cannot be removed. */
  UNFINISHED_NOT_REMOVED(
      8021,
      "A directory of unfinished output files cannot be removed.",
      "Remove the directory in the message by hand."),

  /** The directory holds no recorded case. */
  NO_CASES(
      8022,
      "The directory holds no recorded case.",
      "Name a case, which is a directory with rank0.safetensors, or a directory with cases."),

  /** An NCCL all-reduce of the background traffic does not end. */
  BACKGROUND_TRAFFIC_STUCK(
      8030,
      "An NCCL all-reduce of the background traffic does not end.",
      "Check that NCCL works between these GPUs without ep4j (nccl-tests), or leave"
          + " `--with-nccl-traffic` out."),

  /** The proxy refused commands of the measurement. */
  PROXY_REFUSED(
      8031,
      "The proxy refused commands of the measurement.",
      "The message names the reason. Check the settings `EP4J_PROXY_…`."),

  /** A thread of a measurement failed, was interrupted or did not end. */
  MEASUREMENT_INTERRUPTED(
      8032,
      "A thread of a measurement failed, was interrupted or did not end.",
      "Repeat the command with `--verbose` for the stack trace."),

  /** The scripts find no JDK 25 or newer. */
  NO_JDK(
      8100,
      "The scripts find no JDK 25 or newer.",
      "Install one, or name its directory in `EP4J_JAVA_HOME`."),

  /** The command line is not built, and Maven is not on the PATH. */
  NO_MAVEN(
      8101,
      "The command line is not built, and Maven is not on the PATH.",
      "Install the package maven."),

  /** The build of the command line or of a bundle failed. */
  BUILD_FAILED(
      8102,
      "The build of the command line or of a bundle failed.",
      "The messages of the build are above."),

  /** {@code ./ep4j test} finds no test class of this name, or ran no test of it. */
  NO_SUCH_TEST(
      8103,
      "`./ep4j test` finds no test class of this name, or ran no test of it.",
      "Name a class below src/test without its package."),

  /** A script needs a program or a file that this machine does not have. */
  MISSING_PROGRAM(
      8104,
      "A script needs a program or a file that this machine does not have.",
      "Install what the message names."),

  /** An error occurred that ep4j does not expect. */
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
