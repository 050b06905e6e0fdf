package org.ep4j.cli;

import java.util.EnumSet;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import org.ep4j.error.EngineUnavailableException;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.PeerTimeoutException;
import org.ep4j.group.GroupException;
import org.ep4j.wire.LaneFailedException;
import org.ep4j.wire.WireException;
import org.ep4j.wire.WireTimeoutException;

/** Exit codes of the command line. {@code launch} returns the exit code of its command. */
public final class ExitCodes {
  /** Success. */
  public static final int OK = 0;

  /** A result is wrong, an input file is bad, or the work failed. */
  public static final int FAILED = 1;

  /** The arguments are wrong. */
  public static final int USAGE = 2;

  /** This machine cannot use the requested engine, device or wire. */
  public static final int UNAVAILABLE = 3;

  /** A rank could not be started, did not join, timed out or died. */
  public static final int PEER = 4;

  /** What is wrong if a wire cannot be used here, as against one that fails. */
  private static final Set<ErrorCode> WIRE_UNUSABLE =
      EnumSet.of(
          ErrorCode.WIRE_UNKNOWN,
          ErrorCode.WIRE_UNSUITABLE,
          ErrorCode.TLS_UNAVAILABLE,
          ErrorCode.RDMA_NO_PORT,
          ErrorCode.RDMA_NO_PROVIDER,
          ErrorCode.VERBS_NO_ENCRYPTION,
          ErrorCode.UCX_NO_ENCRYPTION,
          ErrorCode.UCX_SINGLE_THREADED,
          ErrorCode.NCCL_WIRE_UNUSABLE);

  private ExitCodes() {}

  /** The meanings of the codes, for the help texts. */
  static Map<String, String> meanings() {
    Map<String, String> meanings = new LinkedHashMap<>();
    meanings.put(" 0", "success");
    meanings.put(" 1", "a result is wrong, an input file is bad, or the work failed");
    meanings.put(" 2", "wrong usage: the message names the argument");
    meanings.put(
        " 3", "this machine cannot use the requested engine, device or wire; see: ep4j doctor");
    meanings.put(" 4", "a rank could not be started, did not join, timed out or died");
    return meanings;
  }

  /** The exit code for an uncaught failure. */
  public static int of(Throwable failure) {
    return switch (failure) {
      case CommandFailure known -> known.exitCode();
      case EngineUnavailableException _ -> UNAVAILABLE;
      case PeerTimeoutException _,
          GroupException _,
          LaneFailedException _,
          WireTimeoutException _ ->
          PEER;
      case WireException wire when WIRE_UNUSABLE.contains(wire.errorCode()) -> UNAVAILABLE;
      case IllegalArgumentException _ -> USAGE;
      default -> FAILED;
    };
  }
}
