package org.ep4j.cli.bench;

/** Some rank's output is wrong; every rank throws it, so that all end alike. */
final class VerificationFailure extends RuntimeException {
  private static final long serialVersionUID = 1L;

  /** The first blame. */
  VerificationFailure(String mismatch) {
    super(mismatch);
  }
}
