package org.ep4j.group.rendezvous;

import java.security.SecureRandom;
import java.util.HexFormat;

/** Names of jobs: random, so they are unique without coordination. */
final class JobIds {
  private static final SecureRandom RANDOM = new SecureRandom();

  private JobIds() {}

  /** A new name of 16 characters. */
  static String random() {
    return hex(8);
  }

  /** A name for the survivors of a job; starts with the name of that job. */
  static String successor(String jobId) {
    int dash = jobId.indexOf('-');
    return (dash < 0 ? jobId : jobId.substring(0, dash)) + "-" + hex(4);
  }

  private static String hex(int bytes) {
    byte[] random = new byte[bytes];
    RANDOM.nextBytes(random);
    return HexFormat.of().formatHex(random);
  }
}
