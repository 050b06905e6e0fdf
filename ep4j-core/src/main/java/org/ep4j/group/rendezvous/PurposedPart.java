package org.ep4j.group.rendezvous;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.group.Group;
import org.ep4j.group.GroupException;

/**
 * A rank's part of a collective with its purpose in front: one byte with the length of the purpose,
 * the purpose in UTF-8, the content. Ranks whose purposes differ call different code, so none of
 * them may use what the other one sends.
 */
final class PurposedPart {
  private static final int MAX_BYTES = 100;

  /** Maximum bytes of a part. */
  static final int MAX = 1 + MAX_BYTES + Group.MAX_CONTRIBUTION;

  private PurposedPart() {}

  /** The bytes of a purpose. */
  static byte[] checked(String purpose) {
    byte[] bytes = purpose.getBytes(StandardCharsets.UTF_8);
    if (bytes.length > MAX_BYTES) {
      throw new InvalidArgumentException(
          ErrorCode.CONTRIBUTION_SIZE,
          "purpose",
          bytes.length + " bytes",
          "at most " + MAX_BYTES + " bytes of UTF-8",
          "shorten the text");
    }
    return bytes;
  }

  static byte[] of(byte[] purpose, byte[] content) {
    byte[] part = new byte[1 + purpose.length + content.length];
    part[0] = (byte) purpose.length;
    System.arraycopy(purpose, 0, part, 1, purpose.length);
    System.arraycopy(content, 0, part, 1 + purpose.length, content.length);
    return part;
  }

  /** The contents of the parts of all ranks, if all have the purpose of this rank. */
  static byte[][] contents(int rank, byte[] own, byte[][] parts) {
    byte[][] contents = new byte[parts.length][];
    for (int r = 0; r < parts.length; r++) {
      byte[] part = parts[r];
      int end = part.length == 0 ? 1 : 1 + part[0];
      byte[] purpose = Arrays.copyOfRange(part, Math.min(1, part.length), end);
      if (part.length < end || !Arrays.equals(purpose, own)) {
        throw new GroupException(
            ErrorCode.COLLECTIVE_MISMATCH,
            "rank %d called a collective for %s, rank %d for %s: all ranks must call the same collectives in the same order, each from one thread"
                .formatted(rank, text(own), r, text(purpose)));
      }
      contents[r] = Arrays.copyOfRange(part, end, part.length);
    }
    return contents;
  }

  private static String text(byte[] purpose) {
    return purpose.length == 0
        ? "a purpose of its own"
        : "'" + new String(purpose, StandardCharsets.UTF_8) + "'";
  }
}
