package org.ep4j.io;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Collections;
import java.util.Map;
import java.util.Set;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.FileProblem;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * A safetensors file, mapped read-only. The whole header is checked at open: a file with any
 * invalid byte in the header throws {@link SafetensorsException}.
 *
 * <p>Tensors are views of the mapping: valid until {@link #close()}, and unaligned if the file is.
 * {@link #copyOf} returns memory that satisfies every engine. Any thread may use it.
 */
public final class SafetensorsFile implements AutoCloseable {
  /** Maximum header length: the limit of the format. */
  public static final long MAX_HEADER_BYTES = 100_000_000;

  private static final ValueLayout.OfLong LENGTH =
      ValueLayout.JAVA_LONG_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);
  private static final int ROW_ALIGNMENT = 64;

  private final String name;
  private final Arena arena;
  private final MemorySegment data;
  private final SafetensorsHeader header;

  private SafetensorsFile(String name, Arena arena, MemorySegment file) {
    this.name = name;
    this.arena = arena;
    long size = file.byteSize();
    if (size < Long.BYTES) {
      throw new SafetensorsException(
          name,
          null,
          "the file has "
              + size
              + " bytes, but the length of the header alone needs 8: write it again");
    }
    long headerBytes = file.get(LENGTH, 0);
    if (headerBytes < 2 || headerBytes > MAX_HEADER_BYTES) {
      throw new SafetensorsException(
          name,
          null,
          "header length %s is not between 2 and %d: check that this is a safetensors file"
              .formatted(Long.toUnsignedString(headerBytes), MAX_HEADER_BYTES));
    }
    if (headerBytes > size - Long.BYTES) {
      throw new SafetensorsException(
          name,
          null,
          "the header has %d bytes, but the file ends %d bytes after its length: check for truncation"
              .formatted(headerBytes, size - Long.BYTES));
    }
    this.data = file.asSlice(Long.BYTES + headerBytes);
    this.header =
        SafetensorsHeader.parse(
            name, file.asSlice(Long.BYTES, headerBytes).asByteBuffer(), data.byteSize());
  }

  /**
   * Opens a file.
   *
   * @throws SafetensorsException if the file is not valid
   * @throws UncheckedIOException if the file cannot be read
   */
  public static SafetensorsFile open(Path path) {
    Arena arena = Arena.ofShared();
    try (FileChannel channel = FileChannel.open(path, StandardOpenOption.READ)) {
      MemorySegment file = channel.map(FileChannel.MapMode.READ_ONLY, 0, channel.size(), arena);
      return new SafetensorsFile(path.toString(), arena, file);
    } catch (IOException e) {
      arena.close();
      throw new UncheckedIOException(
          ErrorCode.FILE_READ.message(path + ": cannot be read: " + FileProblem.of(e)), e);
    } catch (RuntimeException e) {
      arena.close();
      throw e;
    }
  }

  /** The path at open, for messages. */
  public String name() {
    return name;
  }

  /** The strings of {@code __metadata__}. */
  public Map<String, String> metadata() {
    return Collections.unmodifiableMap(header.metadata());
  }

  /** Names of the tensors, in the order of the header. */
  public Set<String> names() {
    return Collections.unmodifiableSet(header.entries().keySet());
  }

  /** The tensor with a name, or null. */
  public @Nullable Tensor find(String tensor) {
    SafetensorsHeader.Entry entry = header.entries().get(tensor);
    return entry == null
        ? null
        : Tensor.of(
            data.asSlice(entry.begin(), entry.end() - entry.begin()), entry.dtype(), entry.shape());
  }

  /**
   * The tensor with a name.
   *
   * @throws SafetensorsException if there is none
   */
  public Tensor tensor(String tensor) {
    Tensor found = find(tensor);
    if (found == null) {
      throw new SafetensorsException(
          ErrorCode.TENSOR_NOT_FOUND, name, tensor, "missing; the file holds " + names());
    }
    return found;
  }

  /** An aligned native copy that lives as long as {@code owner}. */
  public static Tensor copyOf(Tensor tensor, Arena owner) {
    // An empty allocation has no address of its own, and engines may read addresses.
    MemorySegment copy = owner.allocate(Math.max(tensor.byteSize(), 1), ROW_ALIGNMENT);
    tensor.copyTo(copy);
    return Tensor.of(copy, tensor.dtype(), tensor.shape());
  }

  /** Unmaps the file and invalidates its tensors. A second call has no effect. */
  @Override
  public void close() {
    if (arena.scope().isAlive()) {
      arena.close();
    }
  }
}
