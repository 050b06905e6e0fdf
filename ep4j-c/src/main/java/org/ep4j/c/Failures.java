package org.ep4j.c;

import java.util.Optional;
import org.ep4j.c.struct.Struct;
import org.ep4j.c.struct.Text;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.PeerTimeoutException;
import org.ep4j.error.ReceiveOverflowException;
import org.ep4j.group.GroupTimeoutException;
import org.ep4j.group.PeerLostException;
import org.ep4j.group.RankFailedException;
import org.ep4j.memory.NativeMemory;
import org.jspecify.annotations.Nullable;

/** Exceptions as a status, and the last one of each thread. */
final class Failures {
  /** {@code ep4j_error}. */
  static final Struct ERROR = Struct.named("ep4j_error");

  private static final long CODE = ERROR.int32("code");
  private static final long KIND = ERROR.int32("kind");
  private static final long RANK = ERROR.int32("rank");
  private static final long RESERVED = ERROR.int32("reserved");
  private static final int TEXT_BYTES = 4072;
  private static final long TEXT = ERROR.bytes("text", TEXT_BYTES);

  private static final int NO_RANK = -1;

  /** The last error of the thread; null before the first. */
  private static final ThreadLocal<@Nullable Throwable> LAST = new ThreadLocal<>();

  private Failures() {}

  /** Keeps an error for {@link #lastError}; returns its number. Never throws. */
  static int status(Throwable error) {
    try {
      LAST.set(error);
      return code(error).number();
    } catch (Throwable t) {
      // No memory for a map entry or a message: the number remains.
      return ErrorCode.UNEXPECTED_ERROR.number();
    }
  }

  static int lastError(long error) {
    ERROR.require("error", error);
    Throwable last = LAST.get();
    NativeMemory.putInt(error + CODE, last == null ? 0 : code(last).number());
    NativeMemory.putInt(error + KIND, last == null ? 0 : ErrorKind.of(last).number());
    NativeMemory.putInt(error + RANK, last == null ? NO_RANK : rank(last));
    NativeMemory.putInt(error + RESERVED, 0);
    Text.write(error + TEXT, TEXT_BYTES, last == null ? "" : text(last));
    return 0;
  }

  private static ErrorCode code(Throwable error) {
    return ErrorCode.of(error).orElse(ErrorCode.UNEXPECTED_ERROR);
  }

  private static String text(Throwable error) {
    Optional<ErrorCode> code = ErrorCode.of(error);
    String message = error.getMessage();
    if (code.isPresent() && message != null) {
      return message;
    }
    StackTraceElement[] trace = error.getStackTrace();
    return ErrorCode.UNEXPECTED_ERROR.message(
        error + (trace.length == 0 ? "" : " at " + trace[0]) + ": report this defect of ep4j");
  }

  private static int rank(Throwable error) {
    return switch (error) {
      case PeerTimeoutException e -> e.peer();
      case ReceiveOverflowException e -> e.rank();
      case PeerLostException e -> e.rank();
      case RankFailedException e -> e.rank();
      case GroupTimeoutException e when e.missing().length > 0 -> e.missing()[0];
      default -> NO_RANK;
    };
  }
}
