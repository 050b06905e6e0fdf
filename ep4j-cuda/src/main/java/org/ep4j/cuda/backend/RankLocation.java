package org.ep4j.cuda.backend;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;

/**
 * Location of a rank.
 *
 * @param device host and bus address: identifies a device independent of ordinals in processes
 * @param process identifies a process, even if process ids repeat
 * @param version version of the backend's library there
 * @param problem why the backend cannot be used there; empty if it can
 */
public record RankLocation(String device, String process, String version, String problem) {
  byte[] encoded() {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    try (DataOutputStream out = new DataOutputStream(bytes)) {
      out.writeUTF(device);
      out.writeUTF(process);
      out.writeUTF(version);
      out.writeUTF(problem);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    return bytes.toByteArray();
  }

  static RankLocation of(byte[] encoded) {
    try (DataInputStream in = new DataInputStream(new ByteArrayInputStream(encoded))) {
      return new RankLocation(in.readUTF(), in.readUTF(), in.readUTF(), in.readUTF());
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
