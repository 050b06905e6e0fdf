package org.ep4j.cuda.jit;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/**
 * Format of a file of the cache: magic, SHA-256 of everything after it, length and text of the description, length and bytes of the cubin; numbers are big-endian. A file is written once, under another name, and never changed; a reader accepts it only if the hash matches.
 *
 * @param description description of the kernel, for display
 * @param image the cubin
 */
record CubinFile(String description, byte[] image) {
  private static final byte[] MAGIC = "EP4JCUB1".getBytes(StandardCharsets.US_ASCII);
  private static final int HASH_BYTES = 32;
  private static final int HEADER_BYTES = MAGIC.length + HASH_BYTES;

  /** The file's content. */
  byte[] encode() {
    byte[] text = description.getBytes(StandardCharsets.UTF_8);
    ByteBuffer body = ByteBuffer.allocate(2 * Integer.BYTES + text.length + image.length);
    body.putInt(text.length).put(text).putInt(image.length).put(image);
    return ByteBuffer.allocate(HEADER_BYTES + body.capacity())
        .put(MAGIC)
        .put(KernelSpec.sha256().digest(body.array()))
        .put(body.array())
        .array();
  }

  /** The decoded file, or null if the content is damaged. */
  static @Nullable CubinFile decode(byte[] content) {
    if (content.length < HEADER_BYTES + 2 * Integer.BYTES
        || !Arrays.equals(content, 0, MAGIC.length, MAGIC, 0, MAGIC.length)) {
      return null;
    }
    byte[] body = Arrays.copyOfRange(content, HEADER_BYTES, content.length);
    if (!Arrays.equals(
        content, MAGIC.length, HEADER_BYTES, KernelSpec.sha256().digest(body), 0, HASH_BYTES)) {
      return null;
    }
    // The hash matches, so the lengths are valid.
    ByteBuffer buffer = ByteBuffer.wrap(body);
    byte[] text = new byte[buffer.getInt()];
    buffer.get(text);
    byte[] image = new byte[buffer.getInt()];
    buffer.get(image);
    return new CubinFile(new String(text, StandardCharsets.UTF_8), image);
  }
}
