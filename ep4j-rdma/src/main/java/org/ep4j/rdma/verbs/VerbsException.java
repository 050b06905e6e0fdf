package org.ep4j.rdma.verbs;

import org.ep4j.wire.WireException;

/** A call of libibverbs failed; the message names it, the error and, where it helps, a remedy. */
final class VerbsException extends WireException {
  private static final long serialVersionUID = 1L;

  private static final int EPERM = 1;
  private static final int ENOMEM = 12;
  private static final int EFAULT = 14;
  private static final int EINVAL = 22;
  private static final int EOPNOTSUPP = 95;
  private static final int ETIMEDOUT = 110;

  private VerbsException(String message, Throwable cause) {
    super(message, cause);
  }

  VerbsException(String message) {
    super(message);
  }

  /** Nothing if a result is 0. */
  static void check(int error, String function) {
    if (error != 0) {
      throw failed(function, Math.abs(error));
    }
  }

  static VerbsException failed(String function, int error) {
    return new VerbsException("%s failed: %s".formatted(function, describe(error)));
  }

  private static String describe(int error) {
    return switch (error) {
      case EPERM -> "not permitted (EPERM)";
      case ENOMEM ->
          "no memory (ENOMEM): the limit of locked memory may be too low (ulimit -l unlimited), or"
              + " the device has no such queues left (lower EP4J_IB_QP_DEPTH)";
      case EFAULT -> "no memory that the device can reach (EFAULT)";
      case EOPNOTSUPP -> "the device or its provider cannot (EOPNOTSUPP)";
      case EINVAL -> "the device refuses the values (EINVAL)";
      case ETIMEDOUT -> "no answer (ETIMEDOUT): is the peer's address reachable from this port?";
      default -> "errno " + error;
    };
  }

  /** What a native call cannot throw. */
  static VerbsException unexpected(Throwable t) {
    if (t instanceof Error error) {
      throw error;
    }
    return new VerbsException("a native call threw " + t, t);
  }
}
