package org.ep4j.io;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.FileProblem;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/** Writes safetensors files. */
public final class SafetensorsWriter {
  private static final int CHUNK = 1 << 20;
  private static final int HEADER_ALIGNMENT = 8;

  private SafetensorsWriter() {}

  /**
   * Writes a file under a temporary name beside {@code path} and moves it into place, so that no
   * reader sees an incomplete file. Wide element types come first, so all tensors are aligned.
   *
   * @param metadata strings, in this order
   * @param tensors host tensors by name; tensors of equally wide elements stay in this order
   * @throws SafetensorsException if {@link SafetensorsFile} would refuse the file: for the name of
   *     a tensor, characters that are no text, or too long a header. Nothing is written then
   * @throws UncheckedIOException if the file cannot be written
   */
  public static void write(Path path, Map<String, String> metadata, Map<String, Tensor> tensors) {
    List<Map.Entry<String, Tensor>> sorted = new ArrayList<>(tensors.entrySet());
    sorted.sort(Comparator.comparingInt(e -> -e.getValue().dtype().bits()));
    byte[] header = header(path, metadata, sorted).getBytes(StandardCharsets.UTF_8);
    if (header.length > SafetensorsFile.MAX_HEADER_BYTES) {
      throw new SafetensorsException(
          path.toString(),
          null,
          "the header would have %d bytes, a file has at most %d bytes: shorten names and metadata"
              .formatted(header.length, SafetensorsFile.MAX_HEADER_BYTES));
    }
    try {
      Path target = target(path);
      Path unfinished = target.resolveSibling(target.getFileName() + ".unfinished");
      try {
        writeAll(unfinished, header, sorted);
        Files.move(unfinished, target, StandardCopyOption.REPLACE_EXISTING);
      } finally {
        Files.deleteIfExists(unfinished);
      }
    } catch (IOException e) {
      throw new UncheckedIOException(
          ErrorCode.FILE_WRITE.message(path + ": cannot be written: " + FileProblem.of(e)), e);
    }
  }

  /**
   * The file behind symbolic links, which stay.
   *
   * @throws IOException if something other than a file is there, such as a device
   */
  private static Path target(Path path) throws IOException {
    if (!Files.exists(path)) {
      return path;
    }
    if (!Files.isRegularFile(path)) {
      throw new IOException("it is no regular file: name another");
    }
    return path.toRealPath();
  }

  private static void writeAll(Path path, byte[] header, List<Map.Entry<String, Tensor>> tensors)
      throws IOException {
    try (FileChannel out =
        FileChannel.open(
            path,
            StandardOpenOption.CREATE,
            StandardOpenOption.TRUNCATE_EXISTING,
            StandardOpenOption.WRITE)) {
      ByteBuffer buffer = ByteBuffer.allocateDirect(CHUNK).order(ByteOrder.LITTLE_ENDIAN);
      writeFully(out, buffer.putLong(header.length).flip());
      writeFully(out, ByteBuffer.wrap(header));
      for (Map.Entry<String, Tensor> e : tensors) {
        writeTensor(out, e.getValue(), buffer);
      }
    }
  }

  private static void writeTensor(FileChannel out, Tensor tensor, ByteBuffer buffer)
      throws IOException {
    MemorySegment chunk = MemorySegment.ofBuffer(buffer.clear());
    MemorySegment bytes = tensor.segment();
    for (long at = 0; at < bytes.byteSize(); at += CHUNK) {
      long length = Math.min(CHUNK, bytes.byteSize() - at);
      MemorySegment.copy(bytes, at, chunk, 0, length);
      writeFully(out, buffer.clear().limit((int) length));
    }
  }

  private static void writeFully(FileChannel out, ByteBuffer bytes) throws IOException {
    while (bytes.hasRemaining()) {
      out.write(bytes);
    }
  }

  private static String header(
      Path path, Map<String, String> metadata, List<Map.Entry<String, Tensor>> tensors) {
    StringBuilder json = new StringBuilder("{").append(quoted(SafetensorsHeader.METADATA));
    json.append(":{");
    String separator = "";
    for (Map.Entry<String, String> e : metadata.entrySet()) {
      requireText(path, null, e.getKey());
      requireText(path, null, e.getValue());
      json.append(separator).append(quoted(e.getKey())).append(':').append(quoted(e.getValue()));
      separator = ",";
    }
    json.append('}');
    long offset = 0;
    for (Map.Entry<String, Tensor> e : tensors) {
      Tensor tensor = e.getValue();
      requireText(path, e.getKey(), e.getKey());
      if (e.getKey().equals(SafetensorsHeader.METADATA)) {
        throw new SafetensorsException(
            path.toString(), e.getKey(), "the name is that of the metadata: choose another");
      }
      long end = offset + tensor.byteSize();
      json.append(',').append(quoted(e.getKey())).append(":{\"dtype\":\"");
      json.append(FileTypes.name(tensor.dtype())).append("\",\"shape\":[");
      for (int d = 0; d < tensor.dimensions(); d++) {
        json.append(d == 0 ? "" : ",").append(tensor.size(d));
      }
      json.append("],\"data_offsets\":[").append(offset).append(',').append(end).append("]}");
      offset = end;
    }
    json.append('}');
    int length = json.toString().getBytes(StandardCharsets.UTF_8).length;
    return json.append(" ".repeat(Math.floorMod(-length, HEADER_ALIGNMENT))).toString();
  }

  private static void requireText(Path path, @Nullable String tensor, String text) {
    if (!StandardCharsets.UTF_8.newEncoder().canEncode(text)) {
      throw new SafetensorsException(
          path.toString(),
          tensor,
          "a %s holds half a surrogate: write whole characters"
              .formatted(tensor == null ? "metadata string" : "name"));
    }
  }

  private static String quoted(String text) {
    StringBuilder json = new StringBuilder("\"");
    for (int i = 0; i < text.length(); i++) {
      char c = text.charAt(i);
      if (c < 0x20 || Character.isSurrogate(c)) {
        json.append("\\u%04x".formatted((int) c));
      } else {
        json.append(c == '"' || c == '\\' ? "\\" : "").append(c);
      }
    }
    return json.append('"').toString();
  }
}
