package org.ep4j.rdma.verbs.bindings;

import org.ep4j.error.ErrorCode;
import org.ep4j.wire.WireException;
import org.jspecify.annotations.Nullable;

/** A call of libibverbs failed; the message names it, the error and, where it helps, a remedy. */
public final class VerbsException extends WireException {
  private static final long serialVersionUID = 1L;

  private static final int EPERM = 1;
  private static final int ENOMEM = 12;
  private static final int EFAULT = 14;
  private static final int EINVAL = 22;
  private static final int EOPNOTSUPP = 95;
  private static final int ETIMEDOUT = 110;

  VerbsException(ErrorCode code, String text, @Nullable Throwable cause) {
    super(code, text, cause);
  }

  /** Throws unless {@code error} is 0. */
  public static void check(int error, String function) {
    if (error != 0) {
      throw failed(function, Math.abs(error));
    }
  }

  static VerbsException failed(String function, int error) {
    ErrorCode code =
        switch (error) {
          case ENOMEM -> ErrorCode.VERBS_OUT_OF_MEMORY;
          case ETIMEDOUT -> ErrorCode.VERBS_PEER_UNREACHABLE;
          default -> ErrorCode.VERBS_CALL_FAILED;
        };
    return new VerbsException(code, "%s failed: %s".formatted(function, describe(error)), null);
  }

  private static String describe(int error) {
    return switch (error) {
      case EPERM -> "not permitted (EPERM)";
      case ENOMEM ->
          "no memory (ENOMEM): raise the limit of locked memory (ulimit -l unlimited), or lower"
              + " EP4J_IB_QP_DEPTH: the device may have no queues of this size left";
      case EFAULT -> "the device cannot access this memory (EFAULT)";
      case EOPNOTSUPP -> "the device or its provider does not support it (EOPNOTSUPP)";
      case EINVAL -> "the device refuses the values (EINVAL)";
      case ETIMEDOUT ->
          "no answer (ETIMEDOUT): check that this port reaches the address of the peer";
      default -> "errno " + error;
    };
  }

  /** An error for what a native call should not throw. */
  static VerbsException unexpected(Throwable t) {
    if (t instanceof Error error) {
      throw error;
    }
    return new VerbsException(ErrorCode.VERBS_CALL_FAILED, "a native call threw " + t, t);
  }
}
