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
 * @param device bus address, {@link #OF}, host: identifies a device independent of ordinals in
 *     processes
 * @param process identifies a process, even if process ids repeat
 * @param version version of the backend's library there
 * @param problem why the backend cannot be used there; empty if it can
 */
public record RankLocation(String device, String process, String version, String problem) {
  /** Separates the bus address from the host. */
  static final String OF = " of ";

  /** Host of the device. */
  String host() {
    return device.substring(device.indexOf(OF) + OF.length());
  }

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
