package org.ep4j.cli.bench;

import org.ep4j.ErrorCode;

/** The output of a rank is wrong. Every rank throws this error, so that all ranks end alike. */
final class VerificationFailure extends RuntimeException {
  private static final long serialVersionUID = 1L;

  /** An error with the first mismatch. */
  VerificationFailure(String mismatch) {
    super(ErrorCode.VERIFICATION_FAILED.message(mismatch));
  }
}
