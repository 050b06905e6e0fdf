package org.ep4j.bench;

import org.ep4j.error.ErrorCode;

/** The output of a rank is wrong. Every rank throws this error, so that all ranks end alike. */
public final class VerificationFailure extends RuntimeException {
  private static final long serialVersionUID = 1L;

  /** An error with the first mismatch. */
  public VerificationFailure(String mismatch) {
    super(ErrorCode.WRONG_RESULT.message(mismatch));
  }
}
